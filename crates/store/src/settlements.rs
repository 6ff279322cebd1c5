//! The settlement of each order. The row is a mutual exclusion: only the unit that inserts it pays.

use domain::ids::OrderId;

use crate::payments::{PaymentId, Purpose, purpose};
use crate::payouts::PayoutId;
use crate::{StoreError, Tx};

/// The outcome of an order, once decided.
pub fn outcome(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Purpose>, StoreError> {
    let row = tx.row("select outcome from settlement where order_id = $1", &[order.0.into()])?;
    row.map(|row| purpose(&row, 0)).transpose()
}

/// The payout that settles an order, if one does.
pub fn payout(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<PayoutId>, StoreError> {
    let row = tx.row("select payout_id from settlement where order_id = $1", &[order.0.into()])?;
    Ok(row.map(|row| row.opt_int(0)).transpose()?.flatten().map(PayoutId))
}

/// True if the settlement of an order can no longer change.
pub fn is_final(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select p.state, o.state from settlement s left join payment p on p.payment_id = s.payment_id
         left join payout o on o.payout_id = s.payout_id where s.order_id = $1",
        &[order.0.into()],
    )?;
    row.map_or(Ok(false), |row| Ok(row.opt_text(0)? == Some("final") || row.opt_text(1)? == Some("executed")))
}

/// Settles an order by a payment. `false` means that it is settled already.
pub fn take(tx: &mut Tx<'_>, order: OrderId, outcome: Purpose, payment: PaymentId) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into settlement (order_id, outcome, payment_id) values ($1, $2, $3)
         on conflict do nothing returning order_id",
        &[order.0.into(), outcome.as_str().into(), payment.0.into()],
    )?;
    Ok(row.is_some())
}

/// Settles an order by a payment out of the depository. `false` means that it is settled already.
pub fn take_by_payout(tx: &mut Tx<'_>, order: OrderId, payout: PayoutId) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into settlement (order_id, outcome, payout_id) values ($1, $2, $3)
         on conflict do nothing returning order_id",
        &[order.0.into(), Purpose::Payout.as_str().into(), payout.0.into()],
    )?;
    Ok(row.is_some())
}

/// Records a payment found on chain as the settlement, over any earlier one: the chain decides.
pub fn impose(tx: &mut Tx<'_>, order: OrderId, outcome: Purpose, payment: PaymentId) -> Result<(), StoreError> {
    tx.execute(
        "insert into settlement (order_id, outcome, payment_id) values ($1, $2, $3)
         on conflict (order_id) do update set outcome = excluded.outcome, payment_id = excluded.payment_id,
         payout_id = null",
        &[order.0.into(), outcome.as_str().into(), payment.0.into()],
    )?;
    Ok(())
}

/// The same for an executed payout, which replaces a payout's own payment. Another outcome stays: a person has to see
/// that both happened.
pub fn impose_by_payout(tx: &mut Tx<'_>, order: OrderId, payout: PayoutId) -> Result<(), StoreError> {
    tx.execute(
        "insert into settlement (order_id, outcome, payout_id) values ($1, $2, $3)
         on conflict (order_id) do update set outcome = excluded.outcome, payment_id = null,
         payout_id = excluded.payout_id where settlement.outcome = excluded.outcome",
        &[order.0.into(), Purpose::Payout.as_str().into(), payout.0.into()],
    )?;
    Ok(())
}

/// Frees an order, on proof that the payment which settled it is void.
pub fn free(tx: &mut Tx<'_>, order: OrderId, payment: PaymentId) -> Result<(), StoreError> {
    tx.execute(
        "delete from settlement where order_id = $1 and payment_id = $2
         and exists (select 1 from payment p where p.payment_id = $2 and p.state = 'void')",
        &[order.0.into(), payment.0.into()],
    )?;
    Ok(())
}
