//! Lanes: one wallet on one chain, and its next nonce.

use alloy_primitives::Address;
use domain::ids::ChainId;

use crate::{StoreError, Tx, Value};

#[derive(Clone, Debug)]
pub struct Lane {
    pub wallet: Address,
    pub next_nonce: u64,
    pub quarantined: Option<String>,
    /// Payments not yet in a block.
    pub unmined: u64,
}

/// Registers the lane. An existing lane keeps its nonce.
pub fn register(tx: &mut Tx<'_>, chain: ChainId, wallet: Address) -> Result<(), StoreError> {
    tx.execute(
        "insert into lane (chain_id, wallet, next_nonce) values ($1, $2, 0) on conflict do nothing",
        &[chain.0.try_into()?, wallet.into()],
    )?;
    Ok(())
}

/// All lanes of a chain, with their rows locked until the unit ends.
pub fn lock(tx: &mut Tx<'_>, chain: ChainId) -> Result<Vec<Lane>, StoreError> {
    tx.rows(
        "select l.wallet, l.next_nonce, l.quarantined,
         (select count(*) from payment p where p.chain_id = l.chain_id and p.wallet = l.wallet
          and p.state in ('decided', 'sent'))
         from lane l where l.chain_id = $1 order by l.wallet {for_update}",
        &[chain.0.try_into()?],
    )?
    .iter()
    .map(|row| {
        Ok(Lane {
            wallet: row.address(0)?,
            next_nonce: row.uint(1)?,
            quarantined: row.opt_text(2)?.map(str::to_owned),
            unmined: row.uint(3)?,
        })
    })
    .collect()
}

/// The number of further payments the lanes of a chain have room for, with at most `window` unmined on each.
pub fn room(tx: &mut Tx<'_>, chain: ChainId, window: u64) -> Result<u64, StoreError> {
    let rows = tx.rows(
        "select (select count(*) from payment p where p.chain_id = l.chain_id and p.wallet = l.wallet
         and p.state in ('decided', 'sent')) from lane l where l.chain_id = $1 and l.quarantined is null",
        &[chain.0.try_into()?],
    )?;
    rows.iter().try_fold(0, |sum: u64, row| Ok(sum.saturating_add(window.saturating_sub(row.uint(0)?))))
}

/// Takes the next nonce. A rolled-back unit gives it back.
pub(crate) fn take_nonce(tx: &mut Tx<'_>, chain: ChainId, wallet: Address) -> Result<u64, StoreError> {
    let row = tx.row(
        "update lane set next_nonce = next_nonce + 1 where chain_id = $1 and wallet = $2 returning next_nonce - 1",
        &[chain.0.try_into()?, wallet.into()],
    )?;
    row.ok_or(StoreError::ManyRows(0))?.uint(0)
}

/// Raises the nonce to the chain's. Never lowers it.
pub fn raise_nonce(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, to: u64) -> Result<(), StoreError> {
    tx.forget_kept();
    tx.execute(
        "update lane set next_nonce = $3 where chain_id = $1 and wallet = $2 and next_nonce < $3",
        &[chain.0.try_into()?, wallet.into(), to.try_into()?],
    )?;
    Ok(())
}

/// Takes a lane out of use, or back into it.
pub fn quarantine(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, why: Option<&str>) -> Result<(), StoreError> {
    tx.forget_kept();
    tx.execute(
        "update lane set quarantined = $3 where chain_id = $1 and wallet = $2",
        &[chain.0.try_into()?, wallet.into(), why.map_or(Value::Null, Into::into)],
    )?;
    Ok(())
}

/// The lanes of a chain, for reading; `unmined` is not counted.
pub fn all(tx: &mut Tx<'_>, chain: ChainId) -> Result<Vec<Lane>, StoreError> {
    tx.rows("select wallet, next_nonce, quarantined from lane where chain_id = $1", &[chain.0.try_into()?])?
        .iter()
        .map(|row| {
            Ok(Lane {
                wallet: row.address(0)?,
                next_nonce: row.uint(1)?,
                quarantined: row.opt_text(2)?.map(str::to_owned),
                unmined: 0,
            })
        })
        .collect()
}
