//! Due payments: money that must go out and could not yet.

use alloy_primitives::Address;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::time::Timestamp;

use crate::payments::{Purpose, Subject, by, purpose};
use crate::{Row, StoreError, Tx, Value, columns};

/// A payment to be made, before it has a lane and a nonce.
#[derive(Clone, Debug)]
pub struct Due {
    pub subject: Subject,
    /// None if the payment is about no request.
    pub request: Option<RequestId>,
    pub chain: ChainId,
    /// The token address; zero for the native currency.
    pub currency: Address,
    pub recipient: Address,
    /// The amount to pay; for a refund, the whole deposit: its gas is deducted when it is paid.
    pub amount: Amount,
    pub since: Timestamp,
}

impl Due {
    pub const fn purpose(&self) -> Purpose {
        self.subject.purpose()
    }

    /// The id that its payment settles under.
    pub fn order(&self) -> OrderId {
        self.subject.settles()
    }
}

fn from_row(row: &Row) -> Result<Due, StoreError> {
    Ok(Due {
        subject: Subject::restore(purpose(row, 0)?, row.b256(1)?, OrderId(row.b256(3)?)),
        request: row.about(2)?,
        chain: ChainId(row.uint(4)?),
        currency: row.address(5)?,
        recipient: row.address(6)?,
        amount: row.amount(7)?,
        since: row.time(8)?,
    })
}

/// Stores a due payment with the reason why it waits; a second attempt only updates the reason.
pub fn put(tx: &mut Tx<'_>, due: &Due, reason: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into due (purpose, subject, request_id, order_id, chain_id, currency, recipient, amount, reason,
         created_at, updated_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict (purpose, subject) do update set reason = excluded.reason, updated_at = excluded.updated_at",
        &[
            due.purpose().as_str().into(),
            due.subject.key().into(),
            columns::about(due.request),
            due.order().0.into(),
            due.chain.0.try_into()?,
            due.currency.into(),
            due.recipient.into(),
            due.amount.to_string().into(),
            reason.into(),
            due.since.millis().into(),
            now.millis().into(),
        ],
    )?;
    Ok(())
}

pub fn remove(tx: &mut Tx<'_>, subject: &Subject) -> Result<(), StoreError> {
    tx.execute("delete from due where purpose = $1 and subject = $2", &by(subject))?;
    Ok(())
}

/// Removes everything due for a request, save its relay: that is due to the user, whatever becomes of a fill.
pub fn withdraw(tx: &mut Tx<'_>, request: RequestId) -> Result<(), StoreError> {
    tx.execute("delete from due where request_id = $1 and purpose <> 'relay'", &[request.0.into()])?;
    Ok(())
}

/// Parks a due payment that only a person can resolve: it is not retried.
pub fn park(tx: &mut Tx<'_>, subject: &Subject) -> Result<(), StoreError> {
    let args = by(subject);
    tx.execute("update due set parked = 1 where purpose = $1 and subject = $2", &args)?;
    Ok(())
}

/// Leaves the payment to the depository instead of our own funds.
pub fn leave_to_depository(tx: &mut Tx<'_>, subject: &Subject) -> Result<(), StoreError> {
    let args = by(subject);
    tx.execute("update due set from_depository = 1, parked = 0 where purpose = $1 and subject = $2", &args)?;
    Ok(())
}

pub fn is_left_to_depository(tx: &mut Tx<'_>, subject: &Subject) -> Result<bool, StoreError> {
    let args = by(subject);
    Ok(tx.row("select due_id from due where purpose = $1 and subject = $2 and from_depository = 1", &args)?.is_some())
}

/// Returns a chain's due payments to our own funds: nobody signs for its depository any more.
pub fn take_back(tx: &mut Tx<'_>, chain: ChainId) -> Result<(), StoreError> {
    tx.execute(
        "update due set from_depository = 0 where chain_id = $1 and from_depository = 1",
        &[chain.0.try_into()?],
    )?;
    Ok(())
}

/// Updates the reason why a due payment waits.
pub fn explain(tx: &mut Tx<'_>, subject: &Subject, reason: &str) -> Result<(), StoreError> {
    let [purpose, key] = by(subject);
    let args = [purpose, key, reason.into()];
    tx.execute("update due set reason = $3 where purpose = $1 and subject = $2", &args)?;
    Ok(())
}

/// Amounts due on a chain out of our own funds, by currency; bounded, and more than that would not be promised anyway.
pub fn amounts(tx: &mut Tx<'_>, chain: ChainId) -> Result<Vec<(Address, Amount)>, StoreError> {
    tx.rows(
        "select currency, amount from due where chain_id = $1 and from_depository = 0 limit 10000",
        &[chain.0.try_into()?],
    )?
    .iter()
    .map(|row| Ok((row.address(0)?, row.amount(1)?)))
    .collect()
}

/// Due payments from our own funds on a chain: fills before refunds, claims last, longest untried first.
pub fn on(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Due>, StoreError> {
    tx.rows(
        "select purpose, subject, request_id, order_id, chain_id, currency, recipient, amount, created_at
         from due where chain_id = $1 and parked = 0 and from_depository = 0
         order by case purpose when 'fill' then 0 when 'refund' then 1 when 'claim' then 3 else 2 end, updated_at, due_id limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(from_row)
    .collect()
}

/// Fills due on one chain whose deposits are on another, longest untried first.
pub fn fills_from(tx: &mut Tx<'_>, origin: ChainId, destination: ChainId, most: i64) -> Result<Vec<Due>, StoreError> {
    tx.rows(
        "select q.purpose, q.subject, q.request_id, q.order_id, q.chain_id, q.currency, q.recipient, q.amount,
         q.created_at from due q join deposit_use u on u.order_id = q.order_id and u.input = 0
         join deposit d on d.deposit_id = u.deposit_id
         where q.purpose = 'fill' and q.chain_id = $2 and d.chain_id = $1 order by q.updated_at, q.due_id limit $3",
        &[origin.0.try_into()?, destination.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(from_row)
    .collect()
}

pub fn find(tx: &mut Tx<'_>, subject: &Subject) -> Result<Option<Due>, StoreError> {
    tx.row(
        "select purpose, subject, request_id, order_id, chain_id, currency, recipient, amount, created_at
         from due where purpose = $1 and subject = $2",
        &by(subject),
    )?
    .as_ref()
    .map(from_row)
    .transpose()
}
