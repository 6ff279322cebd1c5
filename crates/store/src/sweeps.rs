//! Sweeps of deposit addresses into the depository.

use std::str::FromStr;

use alloy_primitives::{Address, U256};
use domain::deposit;
use domain::deposit_address::Kind;
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId, SweepId};
use domain::loss;
use domain::money::Amount;
use domain::sweep::{Event, State, step};
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::deposits::DepositId;
use crate::losses::Loss;
use crate::payments::Subject;
use crate::{Row, StoreError, Tx, Value, deposit_addresses, fast_fills, losses, payments, requests, settlements};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub id: SweepId,
    pub chain: ChainId,
    pub address: Address,
    pub currency: Address,
    /// The order that the deposit names.
    pub order: OrderId,
    /// The request of that order, or the one under which the deposit goes back.
    pub request: RequestId,
    /// Why the deposit goes back.
    pub reason: Option<FailReason>,
    /// The balance that a sweep for the order of its address was decided for.
    pub expected: Option<Amount>,
}

/// Begins a sweep. False while another one of the same balance is under way.
pub fn begin(tx: &mut Tx<'_>, sweep: &Sweep, now: Timestamp) -> Result<bool, StoreError> {
    let begun = tx.execute(
        "insert into deposit_sweep (sweep_id, chain_id, address, currency, order_id, request_id, reason, state,
         created_at, expected) values ($1, $2, $3, $4, $5, $6, $7, 'live', $8, $9) on conflict do nothing",
        &[
            sweep.id.into(),
            sweep.chain.0.try_into()?,
            sweep.address.into(),
            sweep.currency.into(),
            sweep.order.into(),
            sweep.request.into(),
            sweep.reason.map(FailReason::as_str).into(),
            now.into(),
            sweep.expected.map(|expected| expected.to_string()).into(),
        ],
    )?;
    Ok(begun > 0)
}

/// The balance that a sweep was decided for, if it was one for this order.
pub fn expected(tx: &mut Tx<'_>, id: SweepId, order: OrderId) -> Result<Option<Amount>, StoreError> {
    let row = tx.row(
        "select expected from deposit_sweep where sweep_id = $1 and order_id = $2 and expected is not null",
        &[id.into(), order.into()],
    )?;
    row.map(|row| row.amount(0)).transpose()
}

/// True while a sweep of this balance is under way.
pub fn is_live(tx: &mut Tx<'_>, chain: ChainId, address: Address, currency: Address) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from deposit_sweep where chain_id = $1 and address = $2 and currency = $3 and state = 'live'",
        &[chain.0.try_into()?, address.into(), currency.into()],
    )?;
    Ok(row.is_some())
}

/// The number of sweeps of a balance, whatever became of them.
pub fn count(tx: &mut Tx<'_>, chain: ChainId, address: Address, currency: Address) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from deposit_sweep where chain_id = $1 and address = $2 and currency = $3",
        &[chain.0.try_into()?, address.into(), currency.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// The sweeps of a balance that failed in a row since the last that did not.
pub fn voids(tx: &mut Tx<'_>, chain: ChainId, address: Address, currency: Address) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from deposit_sweep v where v.chain_id = $1 and v.address = $2 and v.currency = $3
         and v.state = 'void' and not exists (select 1 from deposit_sweep d where d.chain_id = v.chain_id
         and d.address = v.address and d.currency = v.currency and d.state = 'done' and d.created_at > v.created_at)",
        &[chain.0.try_into()?, address.into(), currency.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// Applies an event to a sweep. One whose block a reorg took away is under way again, unless another one of the same
/// balance is.
pub fn apply(tx: &mut Tx<'_>, id: SweepId, event: Event) -> Result<(), StoreError> {
    let row = tx.row("select state from deposit_sweep where sweep_id = $1 {for_update}", &[id.into()])?;
    let Some(row) = row else { return Ok(()) };
    let text = row.text(0)?;
    let before = State::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| unknown(0, "a state"))?;
    let after = step(before, event);
    if after == before {
        return Ok(());
    }
    tx.execute(
        "update deposit_sweep set state = $2 where sweep_id = $1 and ($2 <> 'live' or not exists (
         select 1 from deposit_sweep o where o.chain_id = deposit_sweep.chain_id and o.address = deposit_sweep.address
         and o.currency = deposit_sweep.currency and o.state = 'live'))",
        &[id.into(), after.as_str().into()],
    )?;
    Ok(())
}

/// True if a deposit under this order came by a sweep of ours: a wallet of ours sent it, and had an order's sweep to
/// send.
pub fn brought(tx: &mut Tx<'_>, chain: ChainId, order: OrderId, sender: Address) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from deposit_sweep s join payment p on p.purpose = 'sweep' and p.subject = s.sweep_id
         where s.order_id = $1 and s.chain_id = $2 and s.state <> 'void' and p.wallet = $3 limit 1",
        &[order.into(), chain.0.try_into()?, sender.into()],
    )?;
    Ok(row.is_some())
}

/// True for a sweep of an open address.
pub fn is_of_open(tx: &mut Tx<'_>, id: SweepId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from deposit_sweep s join deposit_address a on a.address = s.address and a.kind = 'open'
         where s.sweep_id = $1",
        &[id.into()],
    )?;
    Ok(row.is_some())
}

/// Transfers of one sweep that are added up, the largest first: the rest of them is dust.
const MAX_TIED: i64 = 512;

/// The difference between a sweep that succeeded and the transfers that are tied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub brought: Amount,
    pub rest: Amount,
}

/// The shortage of a sweep that succeeded and has brought less than its transfers: it was for a part of them, some of
/// their money was not there yet when a reorg had moved both, or somebody else had swept it.
pub fn fell_short(tx: &mut Tx<'_>, id: SweepId) -> Result<Option<Shortage>, StoreError> {
    let brought = tx.rows(
        "select d.amount from deposit_sweep s join payment p on p.purpose = 'sweep' and p.subject = s.sweep_id
         join deposit d on d.chain_id = p.chain_id and d.tx_hash = p.tx_hash and d.currency = s.currency
         and d.order_id = s.order_id where s.sweep_id = $1 and d.state <> 'gone'",
        &[id.into()],
    )?;
    let tied = tx.rows(
        "select amount from deposit_arrival where sweep_id = $1 order by length(amount) desc, amount desc limit $2",
        &[id.into(), Value::Int(MAX_TIED)],
    )?;
    let (tied, brought) = (sum(&tied)?, sum(&brought)?);
    let rest = tied.saturating_sub(brought);
    Ok((!rest.is_zero()).then_some(Shortage { brought, rest }))
}

/// Anybody can make a token of which there is more than a sum holds: then it is the most there is.
fn sum(rows: &[Row]) -> Result<Amount, StoreError> {
    let most = Amount::new(U256::MAX);
    let add = |sum: Amount, row: &Row| Ok(sum.checked_add(row.amount(0)?).unwrap_or(most));
    rows.iter().try_fold(Amount::ZERO, add)
}

/// An order that an earlier sweep of a balance was for, that was paid out, and that misses its deposit or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub order: OrderId,
    pub request: RequestId,
    /// Its shortfall.
    pub amount: Amount,
    /// Only a deposit that takes the order's place counts: an integrator stands for it.
    pub in_one: bool,
}

/// Orders looked at for one balance, and deposits of one order.
const MAX_MISSING: i64 = 16;

/// The orders of a balance that miss a deposit or a part of it, the largest shortfall first.
pub fn missing(
    tx: &mut Tx<'_>,
    chain: ChainId,
    address: Address,
    currency: Address,
) -> Result<Vec<Missing>, StoreError> {
    let rows = tx.rows(
        "select order_id, request_id from loss where order_id in (
         select order_id from deposit_sweep where chain_id = $1 and address = $2 and currency = $3 and reason is null)
         order by case when state = 'recovered' then 1 else 0 end, since limit $4",
        &[chain.0.try_into()?, address.into(), currency.into(), Value::Int(MAX_MISSING)],
    )?;
    let mut missing = Vec::with_capacity(rows.len());
    for row in &rows {
        let (order, request) = (row.order_id(0)?, row.request_id(1)?);
        let amount = shortfall(tx, order, None)?;
        if !amount.is_zero() {
            missing.push(Missing { order, request, amount, in_one: fast_fills::is_stood_for(tx, order)? });
        }
    }
    missing.sort_by_key(|it| std::cmp::Reverse(it.amount));
    Ok(missing)
}

/// The part of a paid-out order's lost deposit that has not come back. With a deposit given, neither that one nor later
/// ones count as having come back, unless one has the order's slot.
pub fn shortfall(tx: &mut Tx<'_>, order: OrderId, before: Option<DepositId>) -> Result<Amount, StoreError> {
    let Some(known) = losses::find(tx, order)? else { return Ok(Amount::ZERO) };
    // The amount that a strict address was paid beyond its order was not paid out.
    let quoted = match deposit_addresses::of_request(tx, known.loss.request)? {
        Some(given) if given.kind == Kind::Strict && given.order == order => {
            requests::find(tx, known.loss.request)?.map(|request| request.quote.figures.deposit)
        }
        _ => None,
    };
    let lost = quoted.map_or(known.loss.amount, |quoted| quoted.min(known.loss.amount));
    let back = come_back(tx, &known.loss, before)?;
    if known.state == loss::State::Recovered {
        let is_short = loss::is_short(lost, back).map_err(|_| StoreError::OutOfRange("a share of a loss"))?;
        // A fill after one that failed was decided for the deposit that has the slot, and the integrator of a fast fill
        // has paid for what that is short of.
        let is_whole = payments::voids(tx, &Subject::Fill(order))? > 0 || fast_fills::of_order(tx, order)?.is_some();
        if !is_short || is_whole {
            return Ok(Amount::ZERO);
        }
    }
    Ok(lost.saturating_sub(back))
}

/// The part of a loss that has come back and is kept in the depository.
pub fn kept(tx: &mut Tx<'_>, loss: &Loss) -> Result<Amount, StoreError> {
    Ok(loss.amount.min(come_back(tx, loss, None)?))
}

/// The deposits that have come back for an order: the one in its slot, those that sweeps of ours have brought, and
/// those out of its strict address, whoever swept it. Of native currency nobody can tell that: there it is every
/// deposit under the order of a strict address.
fn come_back(tx: &mut Tx<'_>, loss: &Loss, before: Option<DepositId>) -> Result<Amount, StoreError> {
    let rows = tx.rows(
        "select d.amount, d.tx_hash, d.ordinal from deposit d where d.order_id = $1 and d.state <> 'gone'
         and d.chain_id = $2 and d.currency = $3 and (
         d.deposit_id in (select u.deposit_id from deposit_use u where u.order_id = $1) or (d.deposit_id < $4 and (
         exists (select 1 from deposit_address a where a.order_id = $1 and a.kind = 'strict'
         and (a.address = d.payer or $5 = 1)) or d.sender in (
         select p.wallet from deposit_sweep s join payment p on p.purpose = 'sweep' and p.subject = s.sweep_id
         where s.order_id = $1 and s.state <> 'void'))))
         order by length(d.amount) desc, d.amount desc limit $6",
        &[
            loss.order.into(),
            loss.chain.0.try_into()?,
            loss.currency.into(),
            before.map_or(i64::MAX, |id| id.0).into(),
            Value::Int(loss.currency.is_zero().into()),
            Value::Int(MAX_MISSING),
        ],
    )?;
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        // One that has gone back to its depositor, from us or out of the depository, has not come back.
        let key = deposit::key(loss.chain, row.b256(1)?, row.u32(2)?);
        if settlements::outcome(tx, OrderId(key))?.is_none() {
            kept.push(row);
        }
    }
    sum(&kept)
}

/// The request under which a deposit goes back that was swept for nothing else, and the reason.
pub fn returned(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<(RequestId, FailReason)>, StoreError> {
    let row = tx.row(
        "select request_id, reason from deposit_sweep where order_id = $1 and reason is not null limit 1",
        &[order.into()],
    )?;
    row.map(|row| Ok((row.request_id(0)?, FailReason::from_str(row.text(1)?).map_err(|_| unknown(1, "a reason"))?)))
        .transpose()
}
