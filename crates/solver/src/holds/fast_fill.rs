//! A fast fill's hold: an integrator's balance stands for a deposit until the deposit is there.
//!
//! The integrator owes the deposit, not the dollars it was worth. Within a window the deposit itself ends the hold, and
//! the integrator bears the difference to the amount that was counted on. After the window its worth of that moment is
//! charged, and a deposit that comes even later is credited at the worth of its own moment (`domain::debt`). These are
//! moments of the chain, whenever the service comes to post them. So nobody gains by choosing when to deposit, or
//! whether to.
//!
//! A fast fill touches a request at seven moments, all of them in [`touch`]. The order's input is an empty slot from
//! the fill on (`orders/losses.rs`).

use std::cmp::Ordering;

use alloy::primitives::Address;
use domain::deposit::State as DepositState;
use domain::fail::FailReason;
use domain::hold::State as HoldState;
use domain::ids::{ChainId, OrderId};
use domain::ledger::{Cause, Entry, HoldKind, UsdcMicros};
use domain::money::UsdMicros;
use domain::quote::OrderTerms;
use domain::request::State as RequestState;
use domain::time::Timestamp;
use store::deposits::{Deposit, DepositRow};
use store::fast_fills::FastFill;
use store::ledger::StoredHold;
use store::losses::Loss;
use store::payments::PaymentRow;
use store::requests::Request;
use store::{Tx, deposits, dues, fast_fills, ledger, losses, requests, settlements};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::holds::worth::LateWorth;
use crate::holds::{exposure, failed_fill, worth};

/// Moments of an order at which its fast fill, if it has one, is touched.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// The fill is paid.
    Paid { terms: &'a OrderTerms },
    /// Nothing was paid ahead of the deposit, and nothing will be.
    GivenUp,
    /// The payment failed on the chain for good, and no deposit is there: the hold waits for the cause.
    Failed { payment: &'a PaymentRow },
    /// A deposit has taken the order's slot.
    Landed,
    /// The fill is mined.
    Filled,
    /// The deposit in the order's slot is final.
    Final,
    /// The window has ended for good, and the slot is empty.
    Missed,
}

/// The effect of a moment on a fast fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// There is no fast fill, or nobody's hold is left to stand for it.
    Nothing,
    Done,
    /// A price or the fill is still to come: the moment has to be repeated.
    Waits,
}

/// Updates an order's fast fill at a moment.
pub fn touch(
    tx: &mut Tx<'_>,
    order: OrderId,
    moment: Moment<'_>,
    context: &PayContext,
) -> Result<Touched, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(Touched::Nothing) };
    match moment {
        Moment::Paid { terms } => expect_deposit(tx, &fast, terms, context)?,
        Moment::GivenUp => give_up(tx, &fast, context)?,
        Moment::Failed { payment } => {
            fast_fills::fail(tx, order, payment.id, payment.payment.chain)?;
            failed_fill::settle(tx, order, context)?;
        }
        Moment::Landed if settlements::outcome(tx, order)?.is_none() => {
            // Nothing was paid yet: the deposit pays for the order like any other.
            dues::withdraw(tx, fast.request)?;
            give_up(tx, &fast, context)?;
        }
        Moment::Landed | Moment::Filled | Moment::Final => settle(tx, &fast, context)?,
        Moment::Missed => return miss(tx, &fast, context),
    }
    Ok(Touched::Done)
}

/// Opens a loss for the amount that was counted on, unless the deposit is there already.
fn expect_deposit(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    terms: &OrderTerms,
    context: &PayContext,
) -> Result<(), SolverError> {
    if deposits::of_order(tx, fast.order)?.is_some() {
        return Ok(());
    }
    let loss = Loss {
        order: fast.order,
        request: fast.request,
        chain: terms.deposit.chain,
        currency: terms.deposit.address.packed().unwrap_or_default(),
        amount: fast.amount,
        usd: dollars(fast.held),
        deadline: fast.window_ends,
    };
    Ok(losses::open(tx, &loss, context.now)?)
}

/// Voids the hold: the balance is free again.
fn give_up(tx: &mut Tx<'_>, fast: &FastFill, context: &PayContext) -> Result<(), SolverError> {
    if let Some(open) = ledger::open_hold_of(tx, HoldKind::FastFill, fast.request.0)? {
        ledger::void_hold(tx, open.hold.id, context.now)?;
        fast_fills::void(tx, fast.order)?;
    }
    Ok(())
}

/// Ends the hold if its deposit has landed and its fill is mined. Before that the fill may turn out void: then the
/// deposit goes back, and nothing is owed.
fn settle(tx: &mut Tx<'_>, fast: &FastFill, context: &PayContext) -> Result<(), SolverError> {
    let (deposit, hold) = (deposits::of_order(tx, fast.order)?, ledger::find_hold(tx, fast.hold())?);
    let (Some(deposit), Some(hold)) = (deposit, hold) else { return Ok(()) };
    let request = request(tx, fast)?;
    if request.state != RequestState::Success {
        return Ok(());
    }
    let is_final = deposit.state == DepositState::Final;
    let in_time = deposit.deposit.block_time <= fast.window_ends;
    let ended = match hold.state {
        HoldState::Open if in_time => release(tx, fast, &request, &deposit, context)?,
        // A late deposit is a credit, and credits are for final blocks.
        HoldState::Open | HoldState::Posted => is_final && take_late(tx, fast, &hold, &deposit.deposit, context)?,
        // An earlier deposit had ended the hold, and a reorg took that deposit away: what is missing is our loss.
        HoldState::Voided => true,
    };
    let waits_on = (is_final && !ended).then_some(deposit.deposit.chain);
    Ok(fast_fills::set_unpriced(tx, fast.order, waits_on)?)
}

/// Releases the hold for a deposit that came in time, and books the difference to the amount that was counted on in the
/// same commit: a claim in between would find a free balance. False if the hold has to stay: the difference has no
/// price, or the deposit is not final and brings more than was counted on, or the risk budget has no room for it.
fn release(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    request: &Request,
    deposit: &DepositRow,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some(delta) = difference(fast, &deposit.deposit, context)? else { return Ok(false) };
    // A surplus is a credit, and credits are for final blocks: a reorg may bring back a smaller deposit.
    if delta > UsdcMicros::ZERO && deposit.state != DepositState::Final {
        return Ok(false);
    }
    if !exposure::take(tx, fast.order, &request.quote, context)? {
        return Ok(false);
    }
    let id = deposit.id.0;
    let cause = match delta.cmp(&UsdcMicros::ZERO) {
        Ordering::Equal => None,
        Ordering::Greater => Some(Cause::FastFillSurplus { deposit: id }),
        Ordering::Less => Some(Cause::FastFillShortage { deposit: id }),
    };
    if let Some(cause) = cause {
        ledger::post(tx, &Entry::new(cause, fast.wallet, delta, Some(fast.request))?, context.now)?;
    }
    ledger::void_hold(tx, fast.hold(), context.now)?;
    Ok(true)
}

/// The deposit less the amount that was counted on, at the worth of this moment. None while that is not known.
fn difference(fast: &FastFill, deposit: &Deposit, context: &PayContext) -> Result<Option<UsdcMicros>, SolverError> {
    let of = (deposit.chain, deposit.currency);
    Ok(match deposit.amount.cmp(&fast.amount) {
        Ordering::Equal => Some(UsdcMicros::ZERO),
        Ordering::Greater => worth::credit(context, of, deposit.amount.checked_sub(fast.amount)?)?,
        Ordering::Less => {
            worth::charge(context, of, fast.amount.checked_sub(deposit.amount)?)?.map(UsdcMicros::negated)
        }
    })
}

/// Credits a final deposit that came after the window: its worth when it landed, and no more than was charged for it.
/// A charge that is still open is made first. False while a worth is not known.
fn take_late(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    hold: &StoredHold,
    deposit: &Deposit,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some(late) = LateWorth::of(context, deposit)? else { return Ok(false) };
    if hold.state == HoldState::Open && !charge(tx, fast, hold, (deposit.chain, deposit.currency), context)? {
        return Ok(false);
    }
    let credit = late.credit(charged(tx, fast)?);
    if credit > UsdcMicros::ZERO && !is_returned(tx, fast)? {
        let cause = Cause::FastFillReturn { hold: fast.hold() };
        ledger::post(tx, &Entry::new(cause, fast.wallet, credit, Some(fast.request))?, context.now)?;
    }
    Ok(true)
}

/// Spends the hold: the deposit did not come in time, and is owed at its worth when the window ended.
fn miss(tx: &mut Tx<'_>, fast: &FastFill, context: &PayContext) -> Result<Touched, SolverError> {
    let Some(hold) = ledger::find_hold(tx, fast.hold())? else { return Ok(Touched::Nothing) };
    match hold.state {
        // A deposit had ended the hold before a reorg took it away: that is our loss.
        HoldState::Voided => return Ok(Touched::Nothing),
        // Paid for before. A late deposit came and went again without being credited.
        HoldState::Posted => return Ok(if is_returned(tx, fast)? { Touched::Nothing } else { Touched::Done }),
        HoldState::Open => {}
    }
    let request = request(tx, fast)?;
    let terms = request.quote.terms.as_ref().ok_or(SolverError::InvariantViolated("a fast fill without an order"))?;
    let of = (terms.deposit.chain, terms.deposit.address.packed().unwrap_or_default());
    let charged = request.state == RequestState::Success && charge(tx, fast, &hold, of, context)?;
    Ok(if charged { Touched::Done } else { Touched::Waits })
}

/// Charges the deposit's worth when the window ended, to the hold first and to the balance after. False while that is
/// not known.
fn charge(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    hold: &StoredHold,
    of: (ChainId, Address),
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some(worth) = worth::charge_missed(context, fast, of)? else { return Ok(false) };
    let within = worth.min(hold.hold.amount);
    let entry = |cause, amount: UsdcMicros| Entry::new(cause, fast.wallet, amount.negated(), Some(fast.request));
    // The rest is posted before the hold ends: by its end it shows if the balance covers everything.
    if worth > within {
        let beyond = entry(Cause::FastFillLossBeyond { hold: fast.hold() }, worth.minus(within))?;
        ledger::post(tx, &beyond, context.now)?;
    }
    let within = entry(Cause::FastFillLoss { hold: fast.hold() }, within)?;
    ledger::post_hold(tx, fast.hold(), &[within], context.now)?;
    Ok(true)
}

/// The amount that was charged in place of the deposit.
fn charged(tx: &mut Tx<'_>, fast: &FastFill) -> Result<UsdcMicros, SolverError> {
    let mut sum = UsdcMicros::ZERO;
    for cause in [Cause::FastFillLoss { hold: fast.hold() }, Cause::FastFillLossBeyond { hold: fast.hold() }] {
        sum = sum.minus(ledger::delta_of(tx, &cause.id(), fast.wallet)?.unwrap_or_default());
    }
    Ok(sum)
}

fn is_returned(tx: &mut Tx<'_>, fast: &FastFill) -> Result<bool, SolverError> {
    let cause = Cause::FastFillReturn { hold: fast.hold() };
    Ok(ledger::delta_of(tx, &cause.id(), fast.wallet)?.is_some())
}

fn request(tx: &mut Tx<'_>, fast: &FastFill) -> Result<Request, SolverError> {
    requests::find(tx, fast.request)?.ok_or(SolverError::InvariantViolated("a fast fill of no request"))
}

/// True if an order was filled ahead of its deposit, which is still to come.
pub fn is_ahead(tx: &mut Tx<'_>, request: &Request) -> Result<bool, SolverError> {
    Ok(fast_fills::of_order(tx, request.order_id)?.is_some()
        && settlements::outcome(tx, request.order_id)?.is_some()
        && deposits::of_order(tx, request.order_id)?.is_none())
}

/// The end of the window in which an order's deposit is expected, while a hold stands for it.
pub fn window_ends(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Timestamp>, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(None) };
    let open = ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Open);
    Ok(open.then_some(fast.window_ends))
}

/// True if the integrator's hold was spent in place of the deposit.
pub fn was_lost(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, SolverError> {
    let Some(fast) = fast_fills::of_order(tx, order)? else { return Ok(false) };
    Ok(ledger::find_hold(tx, fast.hold())?.is_some_and(|hold| hold.state == HoldState::Posted))
}

/// A USDC of the ledger counts as a dollar here.
pub fn dollars(usdc: UsdcMicros) -> UsdMicros {
    UsdMicros(usdc.0)
}

/// True if an unrecognized deposit still belongs to an order that was filled ahead of it: only another chain or another
/// currency excludes it. Its amount is measured by the amount that was counted on.
pub const fn is_of_the_order(reason: FailReason) -> bool {
    matches!(reason, FailReason::DepositedAmountTooLowToFill)
}
