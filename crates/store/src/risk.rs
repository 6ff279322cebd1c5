//! Risk exposure: payments made against deposits that are not final, which a reorg could remove.
//!
//! The limits are the caller's; the budget row keeps two units from both fitting under one limit.

use domain::ids::{ChainId, OrderId};
use domain::money::UsdMicros;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limit against all deposits that are not final.
    pub open: UsdMicros,
    pub per_minute: UsdMicros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    pub chain: ChainId,
    pub open: UsdMicros,
    pub this_minute: UsdMicros,
}

const MINUTE_MILLIS: i64 = 60_000;

/// Counts a payment against its order's deposit. `false` means that it exceeds a limit.
pub fn take(
    tx: &mut Tx<'_>,
    chain: ChainId,
    order: OrderId,
    usd: UsdMicros,
    limits: Limits,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let known = tx.row("select usd from risk_exposure where order_id = $1", &[order.0.into()])?;
    if known.is_some() {
        return Ok(true);
    }
    let id = || chain.0.try_into();
    tx.execute(
        "insert into risk_budget (chain_id, open_usd, minute, minute_usd) values ($1, 0, 0, 0) on conflict do nothing",
        &[id()?],
    )?;
    let minute = now.millis().div_euclid(MINUTE_MILLIS);
    let fits = tx.row(
        "update risk_budget set open_usd = open_usd + $2,
         minute_usd = case when minute = $3 then minute_usd else 0 end + $2, minute = $3
         where chain_id = $1 and open_usd + $2 <= $4 and case when minute = $3 then minute_usd else 0 end + $2 <= $5
         returning chain_id",
        &[id()?, usd.0.into(), minute.into(), limits.open.0.into(), limits.per_minute.0.into()],
    )?;
    if fits.is_none() {
        return Ok(false);
    }
    tx.execute(
        "insert into risk_exposure (order_id, chain_id, usd) values ($1, $2, $3)",
        &[order.0.into(), id()?, usd.0.into()],
    )?;
    Ok(true)
}

/// Releases the exposure: the deposit is final, or nothing was paid against it.
pub fn release(tx: &mut Tx<'_>, order: OrderId) -> Result<(), StoreError> {
    let freed = tx.row("delete from risk_exposure where order_id = $1 returning chain_id, usd", &[order.0.into()])?;
    if let Some(row) = freed {
        tx.execute(
            "update risk_budget set open_usd = open_usd - $2 where chain_id = $1",
            &[row.int(0)?.into(), row.int(1)?.into()],
        )?;
    }
    Ok(())
}

/// The current exposure, for every chain on which anything was ever counted.
pub fn used(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Used>, StoreError> {
    let minute = now.millis().div_euclid(MINUTE_MILLIS);
    tx.rows(
        "select chain_id, open_usd, case when minute = $1 then minute_usd else 0 end from risk_budget order by chain_id",
        &[minute.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Used {
            chain: ChainId(row.uint(0)?),
            open: UsdMicros(row.int(1)?),
            this_minute: UsdMicros(row.int(2)?),
        })
    })
    .collect()
}
