//! Gas refills of wallets from the treasury, requested by the operator. The API records a request and the worker pays
//! it.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefillWish {
    pub wallet: Address,
    /// The reason why it is not paid yet; none if the worker has not looked at it.
    pub reason: Option<String>,
    pub since: Timestamp,
}

/// Records a request. Asking again changes nothing.
pub fn ask(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into gas_refill (chain_id, wallet, created_at) values ($1, $2, $3) on conflict do nothing",
        &[chain.0.try_into()?, wallet.into(), now.millis().into()],
    )?;
    Ok(())
}

pub fn on(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<RefillWish>, StoreError> {
    tx.rows(
        "select wallet, reason, created_at from gas_refill where chain_id = $1 order by created_at, wallet limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| {
        Ok(RefillWish {
            wallet: row.address(0)?,
            reason: row.opt_text(1)?.map(str::to_owned),
            since: Timestamp::from_millis(row.int(2)?),
        })
    })
    .collect()
}

pub fn explain(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, reason: &str) -> Result<(), StoreError> {
    tx.execute(
        "update gas_refill set reason = $3 where chain_id = $1 and wallet = $2",
        &[chain.0.try_into()?, wallet.into(), reason.into()],
    )?;
    Ok(())
}

pub fn remove(tx: &mut Tx<'_>, chain: ChainId, wallet: Address) -> Result<(), StoreError> {
    tx.execute("delete from gas_refill where chain_id = $1 and wallet = $2", &[chain.0.try_into()?, wallet.into()])?;
    Ok(())
}
