//! The worker's view of each chain, for the other processes.

use domain::ids::ChainId;

use crate::{StoreError, Tx, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainState {
    pub chain: ChainId,
    /// Epoch of the worker's lease under which the row was written.
    pub epoch: i64,
    /// The reason why no payments are made on the chain.
    pub refusing: Option<String>,
}

/// Written by the current worker.
pub fn put(tx: &mut Tx<'_>, chain: ChainId, refusing: Option<&str>) -> Result<(), StoreError> {
    tx.execute(
        "insert into chain_state (chain_id, epoch, refusing)
         values ($1, (select epoch from lease where kind = 'worker'), $2)
         on conflict (chain_id) do update set epoch = excluded.epoch, refusing = excluded.refusing",
        &[chain.0.try_into()?, refusing.map_or(Value::Null, Into::into)],
    )?;
    Ok(())
}

pub fn all(tx: &mut Tx<'_>) -> Result<Vec<ChainState>, StoreError> {
    let rows = tx.rows("select chain_id, epoch, refusing from chain_state", &[])?;
    rows.iter()
        .map(|row| {
            let refusing = row.opt_text(2)?.map(str::to_owned);
            Ok(ChainState { chain: ChainId(row.uint(0)?), epoch: row.int(1)?, refusing })
        })
        .collect()
}
