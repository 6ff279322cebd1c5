//! Fast fills: orders filled ahead of their deposit.

use alloy_primitives::Address;
use domain::api_key::ApiKeyId;
use domain::hold;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::ledger::{HoldId, HoldKind, UsdcMicros};
use domain::money::Amount;
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::payments::PaymentId;
use crate::{Row, StoreError, Tx, Value, ledger};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastFill {
    pub order: OrderId,
    pub request: RequestId,
    pub attempt: u32,
    pub key: ApiKeyId,
    pub wallet: Address,
    /// The expected deposit, in its currency.
    pub amount: Amount,
    /// The amount of the hold: the deposit's worth when the fast fill was requested, and a margin.
    pub held: UsdcMicros,
    /// A deposit in a later block of its chain is late.
    pub window_ends: Timestamp,
}

impl FastFill {
    /// The id of the hold that backs it.
    pub fn hold(&self) -> HoldId {
        HoldId { kind: HoldKind::FastFill, subject: self.request.0, attempt: self.attempt }
    }
}

/// Stores a fast fill, replacing a voided one.
pub fn put(tx: &mut Tx<'_>, fast: &FastFill, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into fast_fill (order_id, request_id, attempt, key_id, wallet, amount, held, created_at, window_ends)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (order_id) do update set attempt = excluded.attempt, key_id = excluded.key_id,
         wallet = excluded.wallet, amount = excluded.amount, held = excluded.held, voided = 0,
         created_at = excluded.created_at, window_ends = excluded.window_ends where fast_fill.voided = 1",
        &[
            fast.order.into(),
            fast.request.into(),
            fast.attempt.into(),
            fast.key.to_string().into(),
            fast.wallet.into(),
            fast.amount.to_string().into(),
            fast.held.0.into(),
            now.into(),
            fast.window_ends.into(),
        ],
    )?;
    Ok(())
}

fn from_row(order: OrderId, row: &Row) -> Result<FastFill, StoreError> {
    Ok(FastFill {
        order,
        request: row.request_id(0)?,
        attempt: row.u32(1)?,
        key: row.text(2)?.parse().map_err(|_| unknown(2, "a key id"))?,
        wallet: row.address(3)?,
        amount: row.amount(4)?,
        held: UsdcMicros(row.int(5)?),
        window_ends: row.time(6)?,
    })
}

/// True if an integrator stands for the deposit of an order, or has paid for it. Once the hold has ended for a deposit
/// that a reorg then took away, nobody does.
pub fn is_stood_for(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, StoreError> {
    let Some(fast) = of_order(tx, order)? else { return Ok(false) };
    Ok(ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state != hold::State::Voided))
}

/// The fast fill of an order, under way or made.
pub fn of_order(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<FastFill>, StoreError> {
    let row = tx.row(
        "select request_id, attempt, key_id, wallet, amount, held, window_ends from fast_fill
         where order_id = $1 and voided = 0",
        &[order.into()],
    )?;
    row.map(|row| from_row(order, &row)).transpose()
}

/// Notes that the deposit is final and its worth is not known, with the deposit's chain; none once the hold has ended.
pub fn set_unpriced(tx: &mut Tx<'_>, order: OrderId, chain: Option<ChainId>) -> Result<(), StoreError> {
    let chain = chain.map_or(Ok(Value::Null), |chain| chain.0.try_into())?;
    tx.execute("update fast_fill set unpriced_on = $2 where order_id = $1", &[order.into(), chain])?;
    Ok(())
}

/// Orders whose fast fill waits for the worth of a final deposit on this chain.
pub fn unpriced(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<OrderId>, StoreError> {
    tx.rows(
        "select order_id from fast_fill where unpriced_on = $1 order by created_at limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| row.order_id(0))
    .collect()
}

/// True if the order had a fast fill that was voided.
pub fn was_voided(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, StoreError> {
    let row = tx.row("select attempt from fast_fill where order_id = $1 and voided = 1", &[order.into()])?;
    Ok(row.is_some())
}

/// Voids the fast fill: nothing was paid.
pub fn void(tx: &mut Tx<'_>, order: OrderId) -> Result<(), StoreError> {
    tx.execute("update fast_fill set voided = 1 where order_id = $1", &[order.into()])?;
    Ok(())
}

/// Voids the fast fill for a payment that failed on the chain. The hold answers for the gas of that payment, and stays
/// until [`end_failed`].
pub fn fail(tx: &mut Tx<'_>, order: OrderId, payment: PaymentId, chain: ChainId) -> Result<(), StoreError> {
    tx.execute(
        "update fast_fill set voided = 1, failed_payment = $2, cause_awaited_on = $3 where order_id = $1",
        &[order.into(), payment.0.into(), chain.0.try_into()?],
    )?;
    Ok(())
}

/// The order's failed fast fill and its payment, while the hold waits for the cause.
pub fn failed(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<(FastFill, PaymentId)>, StoreError> {
    let row = tx.row(
        "select request_id, attempt, key_id, wallet, amount, held, window_ends, failed_payment from fast_fill
         where order_id = $1 and voided = 1 and cause_awaited_on is not null",
        &[order.into()],
    )?;
    row.map(|row| Ok((from_row(order, &row)?, PaymentId(row.int(7)?)))).transpose()
}

/// Orders whose fast fill failed on this chain and whose hold waits for the cause.
pub fn failed_on(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<OrderId>, StoreError> {
    tx.rows(
        "select order_id from fast_fill where cause_awaited_on = $1 order by created_at limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| row.order_id(0))
    .collect()
}

/// Notes that the hold of a failed fast fill has ended.
pub fn end_failed(tx: &mut Tx<'_>, order: OrderId) -> Result<(), StoreError> {
    tx.execute("update fast_fill set cause_awaited_on = null where order_id = $1", &[order.into()])?;
    Ok(())
}
