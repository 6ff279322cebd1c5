//! Fill outcomes: the costs of sponsors and the earnings of apps.

use domain::ids::OrderId;
use domain::outcome::Outcome;

use crate::payments::PaymentId;
use crate::{Row, StoreError, Tx, Value, stored_outcome};

/// Written once, with the payment.
pub fn put(tx: &mut Tx<'_>, payment: PaymentId, order: OrderId, outcome: &Outcome) -> Result<(), StoreError> {
    tx.execute(
        "insert into fill_outcome (payment_id, order_id, body, unpriced) values ($1, $2, $3, $4)",
        &[
            payment.0.into(),
            order.0.into(),
            stored_outcome::write(outcome).into(),
            Value::Int(outcome.is_unpriced().into()),
        ],
    )?;
    Ok(())
}

/// Writes the credits of an outcome that had none. False if they are there already.
pub fn set_priced(tx: &mut Tx<'_>, payment: PaymentId, outcome: &Outcome) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "update fill_outcome set body = $2, unpriced = 0 where payment_id = $1 and unpriced = 1",
        &[payment.0.into(), stored_outcome::write(outcome).into()],
    )?;
    Ok(changed == 1)
}

pub fn find(tx: &mut Tx<'_>, payment: PaymentId) -> Result<Option<Outcome>, StoreError> {
    let row = tx.row("select body from fill_outcome where payment_id = $1", &[payment.0.into()])?;
    row.as_ref().map(|row| stored_outcome::of(row, 0)).transpose()
}

/// The outcome of an order's newest fill.
pub fn of_order(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Outcome>, StoreError> {
    let row = tx
        .row("select body from fill_outcome where order_id = $1 order by payment_id desc limit 1", &[order.0.into()])?;
    row.as_ref().map(|row| stored_outcome::of(row, 0)).transpose()
}

/// The outcome of a final fill.
#[derive(Clone, Debug)]
pub struct Booked {
    pub payment: PaymentId,
    pub request: domain::ids::RequestId,
    pub outcome: Outcome,
}

/// Outcomes of final fills whose deposit is final too, or was paid for by an integrator.
macro_rules! booked {
    ($which:literal) => {
        concat!(
            "select o.payment_id, p.request_id, o.body from fill_outcome o join payment p on p.payment_id = o.payment_id
             where o.payment_id > $1 and p.state = 'final' and ",
            $which,
            " and (
                 exists (select 1 from deposit_use u join deposit d on d.deposit_id = u.deposit_id
                     where u.order_id = o.order_id and u.input = 0 and d.state = 'final')
                 or exists (select 1 from fast_fill f join ledger_hold h on h.kind = 'fast-fill'
                     and h.subject = f.request_id and h.attempt = f.attempt
                     where f.order_id = o.order_id and f.voided = 0 and h.state = 'posted'))
             order by o.payment_id limit $2"
        )
    };
}

/// Booked outcomes after a payment, in order.
pub fn booked_after(tx: &mut Tx<'_>, after: PaymentId, most: i64) -> Result<Vec<Booked>, StoreError> {
    let rows = tx.rows(booked!("true"), &[after.0.into(), Value::Int(most)])?;
    rows.iter().map(booked).collect()
}

/// Those of them with app fees that are not credited yet, because their worth was not known.
pub fn unpriced_after(tx: &mut Tx<'_>, after: PaymentId, most: i64) -> Result<Vec<Booked>, StoreError> {
    let rows = tx.rows(booked!("o.unpriced = 1"), &[after.0.into(), Value::Int(most)])?;
    rows.iter().map(booked).collect()
}

fn booked(row: &Row) -> Result<Booked, StoreError> {
    Ok(Booked { payment: PaymentId(row.int(0)?), request: row.request_id(1)?, outcome: stored_outcome::of(row, 2)? })
}
