//! Accounts that own API keys: who may see and change a key in the dashboard.

use alloy_primitives::Address;
use domain::api_key::{ApiKey, ApiKeyId};
use domain::time::Timestamp;

use crate::{StoreError, Tx, keys};

/// Live keys of one account. More are refused: pages and filters show all of them.
pub const MAX_KEYS: u32 = 50;
/// Revoked keys of one account that are shown, those that were revoked last.
pub const MAX_REVOKED: u32 = 20;

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

/// The keys of an account: live ones in the order in which it got them, and then the newest of the revoked ones.
pub fn keys_of(tx: &mut Tx<'_>, account: Address) -> Result<Vec<ApiKey>, StoreError> {
    let mut rows = tx.rows(
        "select o.key_id from api_key_owner o join api_key k on k.key_id = o.key_id
         where o.account = $1 and k.revoked_at is null order by o.since, o.key_id limit $2",
        &[account.into(), MAX_KEYS.into()],
    )?;
    rows.extend(tx.rows(
        "select o.key_id from api_key_owner o join api_key k on k.key_id = o.key_id
         where o.account = $1 and k.revoked_at is not null order by k.revoked_at desc, o.key_id limit $2",
        &[account.into(), MAX_REVOKED.into()],
    )?);
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

/// The number of live keys that an account has.
pub fn count(tx: &mut Tx<'_>, account: Address) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from api_key_owner o join api_key k on k.key_id = o.key_id
         where o.account = $1 and k.revoked_at is null",
        &[account.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}
