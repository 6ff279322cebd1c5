//! Wallet link challenges: one at a time for each key, answered once.

use alloy_primitives::{Address, B256};
use domain::api_key::ApiKeyId;
use domain::time::Timestamp;

use crate::{StoreError, Tx, keys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalletLink {
    pub key: ApiKeyId,
    pub wallet: Address,
    pub nonce: B256,
    pub expires_at: Timestamp,
}

/// Stores a challenge, replacing an earlier one of the key.
pub fn put(tx: &mut Tx<'_>, link: &WalletLink) -> Result<(), StoreError> {
    tx.execute(
        "insert into wallet_link (key_id, wallet, nonce, expires_at) values ($1, $2, $3, $4)
         on conflict (key_id) do update set wallet = excluded.wallet, nonce = excluded.nonce,
         expires_at = excluded.expires_at",
        &[link.key.to_string().into(), link.wallet.into(), link.nonce.into(), link.expires_at.into()],
    )?;
    Ok(())
}

/// The open challenge of a key for a wallet, unless expired.
pub fn find(tx: &mut Tx<'_>, key: ApiKeyId, wallet: Address, now: Timestamp) -> Result<Option<WalletLink>, StoreError> {
    let row = tx.row(
        "select nonce, expires_at from wallet_link where key_id = $1 and wallet = $2 and expires_at > $3",
        &[key.to_string().into(), wallet.into(), now.into()],
    )?;
    row.map(|row| Ok(WalletLink { key, wallet, nonce: row.b256(0)?, expires_at: row.time(1)? })).transpose()
}

/// Links the wallet and uses up the challenge: the same answer links nothing again. `false` means that it was used, has
/// expired or was replaced meanwhile, or that the key is revoked.
pub fn accept(tx: &mut Tx<'_>, link: &WalletLink, now: Timestamp) -> Result<bool, StoreError> {
    let used = tx.execute(
        "delete from wallet_link where key_id = $1 and nonce = $2 and expires_at > $3",
        &[link.key.to_string().into(), link.nonce.into(), now.into()],
    )?;
    Ok(used > 0 && keys::set_wallet(tx, link.key, link.wallet)?)
}
