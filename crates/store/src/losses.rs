//! Losses: orders that were paid out and whose deposit a reorg removed.

use alloy_primitives::Address;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::loss::State;
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::deposits::DepositId;
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub order: OrderId,
    pub request: RequestId,
    /// The chain of the deposit.
    pub chain: ChainId,
    pub currency: Address,
    /// The deposit the order was paid out for.
    pub amount: Amount,
    pub usd: UsdMicros,
    /// The time after which it is booked: the order's deadline, or the end of its fast fill's window.
    pub deadline: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRow {
    pub loss: Loss,
    pub state: State,
    pub since: Timestamp,
    pub booked_at: Option<Timestamp>,
    pub recovered_at: Option<Timestamp>,
}

macro_rules! columns {
    () => {
        "order_id, request_id, chain_id, currency, amount, usd, deadline, state, since, booked_at, recovered_at from loss"
    };
}

fn from_row(row: &Row) -> Result<LossRow, StoreError> {
    let state = row.text(7)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state);
    Ok(LossRow {
        loss: Loss {
            order: row.order_id(0)?,
            request: row.request_id(1)?,
            chain: ChainId(row.uint(2)?),
            currency: row.address(3)?,
            amount: row.amount(4)?,
            usd: UsdMicros(row.int(5)?),
            deadline: row.time(6)?,
        },
        state: state.ok_or(unknown(7, "a state"))?,
        since: row.time(8)?,
        booked_at: row.opt_int(9)?.map(Timestamp::from_millis),
        recovered_at: row.opt_int(10)?.map(Timestamp::from_millis),
    })
}

pub fn find(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<LossRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where order_id = $1");
    tx.row(sql, &[order.into()])?.as_ref().map(from_row).transpose()
}

/// Opens a loss: a paid-out order has no deposit in its slot. The amount of the first time stays the amount missing,
/// the deadline is the new one.
pub fn open(tx: &mut Tx<'_>, loss: &Loss, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into loss (order_id, request_id, chain_id, currency, amount, usd, deadline, state, since)
         values ($1, $2, $3, $4, $5, $6, $7, 'missing', $8)
         on conflict (order_id) do update set state = 'missing', since = excluded.since, deadline = excluded.deadline,
         deposit_id = null, recovered_at = null where loss.state = 'recovered'",
        &[
            loss.order.into(),
            loss.request.into(),
            loss.chain.0.try_into()?,
            loss.currency.into(),
            loss.amount.to_string().into(),
            loss.usd.0.into(),
            loss.deadline.into(),
            now.into(),
        ],
    )?;
    Ok(())
}

/// Books a loss: the order's deadline has passed and no deposit has taken the slot.
pub fn book(tx: &mut Tx<'_>, order: OrderId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "update loss set state = 'booked', booked_at = $2 where order_id = $1 and state = 'missing'";
    tx.execute(sql, &[order.into(), now.into()])?;
    Ok(())
}

/// Marks a loss as recovered by the deposit that took the slot.
pub fn recover(tx: &mut Tx<'_>, order: OrderId, deposit: DepositId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update loss set state = 'recovered', recovered_at = $3, deposit_id = $2 where order_id = $1",
        &[order.into(), deposit.0.into(), now.into()],
    )?;
    Ok(())
}

/// Deletes a loss whose payment turned out not to have happened.
pub fn forget(tx: &mut Tx<'_>, order: OrderId) -> Result<(), StoreError> {
    tx.execute("delete from loss where order_id = $1 and state <> 'recovered'", &[order.into()])?;
    Ok(())
}

/// Orders with a missing deposit that can be booked: the deadline is before this time of the chain.
pub fn ripe(tx: &mut Tx<'_>, chain: ChainId, time: Timestamp, most: i64) -> Result<Vec<OrderId>, StoreError> {
    tx.rows(
        "select order_id from loss where chain_id = $1 and state = 'missing' and deadline < $2 order by deadline limit $3",
        &[chain.0.try_into()?, time.into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| row.order_id(0))
    .collect()
}

/// The newest losses first.
pub fn newest(tx: &mut Tx<'_>, most: i64) -> Result<Vec<LossRow>, StoreError> {
    let sql = concat!("select ", columns!(), " order by since desc, order_id limit $1");
    tx.rows(sql, &[Value::Int(most)])?.iter().map(from_row).collect()
}

/// Total missing and total booked.
pub fn totals(tx: &mut Tx<'_>) -> Result<(UsdMicros, UsdMicros), StoreError> {
    let row = tx.row(
        "select cast(coalesce(sum(case when state = 'missing' then usd else 0 end), 0) as bigint),
         cast(coalesce(sum(case when state = 'booked' then usd else 0 end), 0) as bigint) from loss",
        &[],
    )?;
    row.map_or(Ok(Default::default()), |row| Ok((UsdMicros(row.int(0)?), UsdMicros(row.int(1)?))))
}

/// Losses that contradict the rest of the database: recovered without a deposit in the slot, open with one, or of an
/// order that was never paid out.
pub fn contradictions(tx: &mut Tx<'_>, most: i64) -> Result<Vec<(OrderId, &'static str)>, StoreError> {
    let rows = tx.rows(
        "select l.order_id, l.state, (select count(*) from deposit_use u join deposit d on d.deposit_id = u.deposit_id
         and d.state <> 'gone' where u.order_id = l.order_id and u.input = 0),
         (select count(*) from settlement s where s.order_id = l.order_id) from loss l order by l.since desc limit $1",
        &[Value::Int(most)],
    )?;
    let mut found = Vec::new();
    for row in &rows {
        let (order, recovered) = (row.order_id(0)?, row.text(1)? == State::Recovered.as_str());
        let (filled_slot, paid) = (row.uint(2)? > 0, row.uint(3)? > 0);
        match (recovered, filled_slot, paid) {
            (true, false, _) => found.push((order, "counts as recovered and has no deposit")),
            (false, true, _) => found.push((order, "counts as lost and has its deposit")),
            (false, false, false) => found.push((order, "counts as lost and nothing was paid for it")),
            (true, true, _) | (false, false, true) => {}
        }
    }
    Ok(found)
}

/// Paid-out orders with neither a deposit in their slot nor a loss for it.
pub fn unexplained(tx: &mut Tx<'_>, most: i64) -> Result<Vec<OrderId>, StoreError> {
    tx.rows(
        "select s.order_id from settlement s join payment p on p.payment_id = s.payment_id
         and p.purpose in ('fill', 'refund') and p.state in ('mined', 'final')
         join request r on r.order_id = s.order_id and r.parent_id is null
         where not exists (select 1 from deposit_use u where u.order_id = s.order_id)
         and not exists (select 1 from loss l where l.order_id = s.order_id) limit $1",
        &[Value::Int(most)],
    )?
    .iter()
    .map(|row| row.order_id(0))
    .collect()
}
