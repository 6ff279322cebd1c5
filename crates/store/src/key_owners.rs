//! Accounts that own API keys: who may see and change a key in the dashboard.

use alloy_primitives::Address;
use domain::api_key::{ApiKey, ApiKeyId};
use domain::time::Timestamp;

use crate::{StoreError, Tx, keys};

/// Keys of one account. More are refused: pages and filters show all of them.
pub const MAX_KEYS: u32 = 50;

/// Gives a key to an account, whoever had it before. False if there is no such key.
pub fn give(tx: &mut Tx<'_>, key: ApiKeyId, account: Address, now: Timestamp) -> Result<bool, StoreError> {
    let given = tx.execute(
        "insert into api_key_owner (key_id, account, since)
         select key_id, $2, $3 from api_key where key_id = $1
         on conflict (key_id) do update set account = excluded.account, since = excluded.since",
        &[key.to_string().into(), account.into(), now.into()],
    )?;
    Ok(given > 0)
}

/// The keys of an account, in the order in which it got them, revoked ones included.
pub fn keys_of(tx: &mut Tx<'_>, account: Address) -> Result<Vec<ApiKey>, StoreError> {
    let rows = tx.rows(
        "select key_id from api_key_owner where account = $1 order by since, key_id limit $2",
        &[account.into(), MAX_KEYS.into()],
    )?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.text(0)?.parse().map_err(|_| crate::columns::unknown(0, "a key id"))?;
        found.extend(keys::find(tx, id)?);
    }
    Ok(found)
}

/// True if the account owns the key.
pub fn owns(tx: &mut Tx<'_>, account: Address, key: ApiKeyId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select key_id from api_key_owner where key_id = $1 and account = $2",
        &[key.to_string().into(), account.into()],
    )?;
    Ok(row.is_some())
}

/// The number of keys that an account has.
pub fn count(tx: &mut Tx<'_>, account: Address) -> Result<u64, StoreError> {
    tx.row("select count(*) from api_key_owner where account = $1", &[account.into()])?.map_or(Ok(0), |row| row.uint(0))
}
