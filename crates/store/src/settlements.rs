//! How each order ends. The row is the exclusion: whoever inserts it pays, everyone else does not.

use domain::ids::OrderId;

use crate::payments::{PaymentId, Purpose};
use crate::{StoreError, Tx};

/// The outcome an order already has.
pub fn outcome(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<PaymentId>, StoreError> {
    let row = tx.row("select payment_id from settlement where order_id = $1", &[order.0.into()])?;
    row.map(|row| row.int(0).map(PaymentId)).transpose()
}

/// Whether the payment that settled an order can no longer change.
pub fn is_final(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select p.state from settlement s join payment p on p.payment_id = s.payment_id where s.order_id = $1",
        &[order.0.into()],
    )?;
    row.map_or(Ok(false), |row| Ok(row.text(0)? == "final"))
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

/// What the chain shows to have happened stands, whatever was written before.
pub fn impose(tx: &mut Tx<'_>, order: OrderId, outcome: Purpose, payment: PaymentId) -> Result<(), StoreError> {
    tx.execute(
        "insert into settlement (order_id, outcome, payment_id) values ($1, $2, $3)
         on conflict (order_id) do update set outcome = excluded.outcome, payment_id = excluded.payment_id",
        &[order.0.into(), outcome.as_str().into(), payment.0.into()],
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
