//! Key texts with which a delivery is signed.

use alloy_primitives::B256;
use domain::api_key::ApiKeyId;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

/// A sealed text of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningText {
    pub hash: B256,
    pub sealed: Vec<u8>,
    /// It is the text that is good for good.
    pub current: bool,
}

/// The texts that matter to a delivery, the newest first: the one it is signed with even if that has ended since, the
/// current one, and replaced ones that are still good. None for a key that is revoked.
pub fn signing_texts(
    tx: &mut Tx<'_>,
    key: ApiKeyId,
    pinned: B256,
    now: Timestamp,
) -> Result<Vec<SigningText>, StoreError> {
    tx.rows(
        "select t.hash, t.sealed, t.ends_at from api_key_text t join api_key k on k.key_id = t.key_id
         where t.key_id = $1 and (t.hash = $2 or t.ends_at is null or t.ends_at > $3) and k.revoked_at is null
         order by t.created_at desc limit 8",
        &[key.to_string().into(), pinned.into(), now.into()],
    )?
    .iter()
    .map(|row| {
        Ok(SigningText { hash: row.b256(0)?, sealed: row.bytes(1)?.to_vec(), current: row.opt_int(2)?.is_none() })
    })
    .collect()
}
