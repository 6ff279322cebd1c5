//! Recipients that refused a payment, kept for a while.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

/// Rows deleted per prune.
const ROWS_PER_PRUNE: i64 = 500;

/// A recipient of one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Recipient {
    pub chain: ChainId,
    /// Zero is the native currency.
    pub currency: Address,
    pub address: Address,
}

/// Records that a recipient refused a payment.
pub fn note(tx: &mut Tx<'_>, recipient: Recipient, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into refused_recipient (chain_id, currency, address, refused_at) values ($1, $2, $3, $4)
         on conflict (chain_id, currency, address) do update set refused_at = excluded.refused_at",
        &[recipient.chain.0.try_into()?, recipient.currency.into(), recipient.address.into(), now.millis().into()],
    )?;
    Ok(())
}

/// True if a recipient has refused a payment since then.
pub fn has_refused(tx: &mut Tx<'_>, recipient: Recipient, since: Timestamp) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from refused_recipient where chain_id = $1 and currency = $2 and address = $3 and refused_at > $4",
        &[recipient.chain.0.try_into()?, recipient.currency.into(), recipient.address.into(), since.millis().into()],
    )?;
    Ok(row.is_some())
}

/// Recipients that have refused a payment since then, the latest first.
pub fn all(tx: &mut Tx<'_>, since: Timestamp, most: i64) -> Result<Vec<Recipient>, StoreError> {
    tx.rows(
        "select chain_id, currency, address from refused_recipient where refused_at > $1
         order by refused_at desc limit $2",
        &[since.millis().into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| Ok(Recipient { chain: ChainId(row.uint(0)?), currency: row.address(1)?, address: row.address(2)? }))
    .collect()
}

/// Deletes some recipients that have refused nothing since then.
pub fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "delete from refused_recipient where refused_at < $1 and address in
         (select address from refused_recipient where refused_at < $1 order by refused_at limit $2)",
        &[before.millis().into(), ROWS_PER_PRUNE.into()],
    )?;
    Ok(())
}
