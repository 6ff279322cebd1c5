//! Recipients that are contracts: recorded when quoting, read when paying.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

/// Rows deleted per prune.
const ROWS_PER_PRUNE: i64 = 500;

/// Records a contract. Recording it again keeps it for longer.
pub fn note(tx: &mut Tx<'_>, chain: ChainId, address: Address, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into contract_account (chain_id, address, seen_at) values ($1, $2, $3)
         on conflict (chain_id, address) do update set seen_at = excluded.seen_at",
        &[chain.0.try_into()?, address.into(), now.millis().into()],
    )?;
    Ok(())
}

pub fn is_known(tx: &mut Tx<'_>, chain: ChainId, address: Address) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from contract_account where chain_id = $1 and address = $2",
        &[chain.0.try_into()?, address.into()],
    )?;
    Ok(row.is_some())
}

/// Deletes some contracts that no quote has named since then.
pub fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "delete from contract_account where seen_at < $1 and address in
         (select address from contract_account where seen_at < $1 order by seen_at limit $2)",
        &[before.millis().into(), ROWS_PER_PRUNE.into()],
    )?;
    Ok(())
}
