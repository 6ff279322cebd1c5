//! Names of the venue's transactions. Its hashes have 40 bytes; rows know a transaction by 32, whatever its chain.

use std::collections::BTreeMap;

use alloy_primitives::B256;

use crate::requests::Request;
use crate::{StoreError, Tx};

/// Notes the venue's own name of a transaction. Noting it again changes nothing.
pub fn note(tx: &mut Tx<'_>, key: B256, digest: &str) -> Result<(), StoreError> {
    tx.execute(
        "insert into venue_tx (tx_hash, digest) values ($1, $2) on conflict do nothing",
        &[key.into(), digest.into()],
    )?;
    Ok(())
}

/// The venue's name of a transaction, where it is one of the venue's.
pub fn digest(tx: &mut Tx<'_>, key: B256) -> Result<Option<String>, StoreError> {
    let row = tx.row("select digest from venue_tx where tx_hash = $1", &[key.into()])?;
    row.map(|row| row.text(0).map(str::to_owned)).transpose()
}

/// True if a request has a transaction on the venue, so that names are worth asking for.
fn concerns(request: &Request) -> bool {
    let ask = &request.quote.ask;
    [ask.origin.chain, ask.destination.chain].contains(&domain::venue::CHAIN)
}

/// Transactions of a request as their chains write them.
pub fn texts(tx: &mut Tx<'_>, request: &Request, hashes: &[B256]) -> Result<Vec<String>, StoreError> {
    let names = names(tx, request, hashes.iter().copied())?;
    Ok(hashes.iter().map(|hash| names.get(hash).cloned().unwrap_or_else(|| hash.to_string())).collect())
}

/// The venue's names of those transactions of a request that are the venue's.
pub fn names(
    tx: &mut Tx<'_>,
    request: &Request,
    keys: impl IntoIterator<Item = B256>,
) -> Result<BTreeMap<B256, String>, StoreError> {
    if concerns(request) { digests(tx, keys) } else { Ok(BTreeMap::new()) }
}

/// The names of those of these transactions that are the venue's.
fn digests(tx: &mut Tx<'_>, keys: impl IntoIterator<Item = B256>) -> Result<BTreeMap<B256, String>, StoreError> {
    let mut found = BTreeMap::new();
    for key in keys {
        if let Some(digest) = digest(tx, key)? {
            found.insert(key, digest);
        }
    }
    Ok(found)
}
