//! The decision to pay, in five stages: guard, amount, sponsor, call, lane.

use domain::deposit;
use domain::fail::FailReason;
use domain::money::Amount;
use domain::outcome::{Outcome as FillOutcome, is_live};
use domain::quote::{Quote, Swap};
use market::Snapshot;
use store::dues::Due;
use store::payments::{Fees, PaymentRow, Purpose};
use store::refused_recipients::{self, Recipient};
use store::{StoreError, Tx, contracts, deposits, dues, fast_fills, outcomes, payments, requests, settlements};

use crate::context::PayContext;
use crate::context::refused_recipients::refused_since;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::trials::Verdict;
use crate::holds::exposure;
use crate::holds::fast_fill::{self, Moment};
use crate::holds::sponsorship::{self, Asked};
use crate::payments::call::PaymentCall;
use crate::payments::gas::{self, Shape};
use crate::payments::lane::{self, Unassigned};
use crate::payments::reprice::{self, Repriced, at_market, reprice};
use crate::payments::tries::{self, NextTry};
use crate::payments::{Outcome, Reason, amount, parties, trial};

/// Turns a due into a payment, or gives the reason why not. Runs inside the caller's unit; the settlement row taken
/// with the payment excludes every other outcome of the order.
///
/// A fill is paid by its quote; other payments need none.
pub fn pay(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<Outcome, SolverError> {
    match decide(tx, due, quote, context) {
        Ok(payment) => Ok(Outcome::Paid(Box::new(payment))),
        Err(Stop::Because(outcome)) => Ok(outcome),
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn decide(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<PaymentRow, Stop> {
    let repeats = guard(tx, due, quote, context)?;
    let chain = PayingChain::of(due, context)?;
    let to_contract = is_to_contract(tx, due, quote, context)?;
    let amount = amount::of(tx, due, quote, to_contract, &chain, context)?;
    let fill = match quote.filter(|_| due.purpose() == Purpose::Fill) {
        Some(quote) => Some(sponsor(tx, due, Fill { quote, amount, to_contract, repeats }, &chain, context)?),
        None => None,
    };
    let amount = fill.as_ref().map_or(amount, |fill| fill.amount);
    let call = call(tx, due, amount, to_contract, fill.as_ref(), &chain)?;
    let tried = fill.as_ref().filter(|fill| !fill.repeats && trial::is_needed(fill.quote, to_contract));
    let payment = into_lane(tx, due, quote, Sending { call, tried: tried.is_some() }, &chain, context)?;
    if let Some(Promise { outcome: Some(outcome), .. }) = &fill {
        outcomes::put(tx, payment.id, due.order(), outcome)?;
    }
    dues::remove(tx, &due.subject)?;
    Ok(payment)
}

/// The reason why a stage ends the decision.
#[derive(Debug)]
pub(super) enum Stop {
    Because(Outcome),
    Failed(SolverError),
}

impl Stop {
    pub(super) fn not_now(reason: Reason) -> Self {
        Self::Because(Outcome::NotNow(reason))
    }
}

impl<E: Into<SolverError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// First stage: stops if no payment may be made. True if a payment that failed is repeated.
fn guard(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, Stop> {
    if let Some(why) = context.refusing(due.chain, quote) {
        return Err(Stop::not_now(Reason::Refusing(why.to_string())));
    }
    if settlements::outcome(tx, due.order())?.is_some() {
        return Err(Stop::Because(Outcome::Settled));
    }
    if !context.pays {
        return Err(Stop::not_now(Reason::Elsewhere));
    }
    let voids = payments::voids(tx, &due.subject)?;
    if parties::is_blocked(tx, due, quote, context)? {
        // A recipient that was paid once is owed it again: that fill has nothing to go back to.
        let first = due.purpose() == Purpose::Fill && voids == 0;
        return Err(if first {
            Stop::Because(Outcome::CannotFill(FailReason::BlockedWallet))
        } else {
            Stop::not_now(Reason::Blocked)
        });
    }
    let last = if voids == 0 { None } else { payments::last_void(tx, &due.subject)? };
    let on_venue = context.on(due.chain).is_some_and(|(handle, _)| handle.venue.is_some());
    match tries::next(due.purpose(), on_venue, voids, last, context.now) {
        NextTry::Now => {}
        NextTry::Later => return Err(Stop::not_now(Reason::Rejected)),
        NextTry::Never => return Err(Stop::not_now(Reason::NeedsPerson)),
    }
    // A voided fast fill decided nothing for the fill after it. The reservation of a failed fill may have been released
    // meanwhile: then the fill is decided again.
    let repeats = voids > 0 && !fast_fills::was_voided(tx, due.order())? && {
        let live = quote.map_or(Ok(false), is_live)?;
        !live || sponsorship::is_reserved(tx, due)?
    };
    if due.purpose() == Purpose::Fill && !repeats && is_past_window(tx, due, context)? {
        return Err(Stop::Because(Outcome::CannotFill(FailReason::OrderExpired)));
    }
    if let (Purpose::Fill, false, Some(quote)) = (due.purpose(), repeats, quote)
        && let Some(reason) = has_refused(tx, due, quote, context)?
    {
        return Err(Stop::Because(Outcome::CannotFill(reason)));
    }
    if let (Purpose::Fill, false, Some(quote)) = (due.purpose(), repeats, quote)
        && !sponsorship::reserve_quoted(tx, quote, due, context)?
    {
        return Err(Stop::Because(Outcome::CannotFill(FailReason::SponsorBalanceTooLow)));
    }
    Ok(repeats)
}

/// True for a fill ahead of its deposit that had to wait until the deposit's window ended: the hold behind it is worth
/// what the deposit was worth then.
fn is_past_window(tx: &mut Tx<'_>, due: &Due, context: &PayContext) -> Result<bool, StoreError> {
    let fast = fast_fills::of_order(tx, due.order())?;
    let past = fast.is_some_and(|fast| context.now > fast.window_ends);
    Ok(past && deposits::of_order(tx, due.order())?.is_none())
}

/// The reason why a recipient is not paid that refused a payment a short while ago: it would cost us gas again.
fn has_refused(
    tx: &mut Tx<'_>,
    due: &Due,
    quote: &Quote,
    context: &PayContext,
) -> Result<Option<FailReason>, StoreError> {
    let (currency, address) = (quote.ask.destination.address.packed(), quote.ask.recipient.packed());
    let (Some(currency), Some(address)) = (currency, address) else { return Ok(None) };
    let recipient = Recipient { chain: due.chain, currency, address };
    let refused = refused_recipients::has_refused(tx, recipient, refused_since(context.now))?;
    let native = currency.is_zero();
    let reason = if native { FailReason::TransferFailed } else { FailReason::DestinationTokenTransferRejected };
    Ok(refused.then_some(reason))
}

/// The chain that pays, at one moment.
#[derive(Debug)]
pub(super) struct PayingChain<'a> {
    pub handle: &'a ChainHandle,
    pub snapshot: &'a Snapshot,
    pub fees: Fees,
}

impl<'a> PayingChain<'a> {
    fn of(due: &Due, context: &'a PayContext) -> Result<Self, Stop> {
        let (handle, snapshot) = context.on(due.chain).ok_or(Stop::not_now(Reason::UnknownChain))?;
        let snapshot = snapshot.ok_or(Stop::not_now(Reason::NoMarket))?;
        let fees = lane::first_offer(handle, snapshot).map_err(Stop::not_now)?;
        Ok(Self { handle, snapshot, fees })
    }
}

/// True if the recipient is a contract. The database is asked where native currency is paid, if the recipient was
/// quoted by another process or before a restart.
fn is_to_contract(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, StoreError> {
    let fill = quote.filter(|_| due.purpose() == Purpose::Fill);
    let recipient = fill.and_then(|quote| quote.ask.recipient.packed()).unwrap_or(due.recipient);
    let native = due.currency.is_zero() || fill.is_some_and(trial::delivers_native);
    match context.recipient_code.known(due.chain, recipient) {
        Some(is_contract) => Ok(is_contract),
        None => Ok(native && contracts::is_known(tx, due.chain, recipient)?),
    }
}

/// A fill to be priced again.
#[derive(Clone, Copy, Debug)]
struct Fill<'a> {
    quote: &'a Quote,
    amount: Amount,
    to_contract: bool,
    repeats: bool,
}

/// A fill as it is made: amount, trade, and outcome for sponsor and apps.
#[derive(Debug)]
struct Promise<'a> {
    quote: &'a Quote,
    amount: Amount,
    swap: Option<Swap>,
    outcome: Option<Box<FillOutcome>>,
    repeats: bool,
}

/// Third stage: a fill is priced again, and its sponsor's share reserved. A repeated fill keeps its decision.
fn sponsor<'a>(
    tx: &mut Tx<'_>,
    due: &Due,
    fill: Fill<'a>,
    chain: &PayingChain<'_>,
    context: &PayContext,
) -> Result<Promise<'a>, Stop> {
    let (quote, handle, snapshot) = (fill.quote, chain.handle, chain.snapshot);
    if fill.repeats {
        let outcome = outcomes::of_order(tx, due.order())?.map(Box::new);
        let swap = quote.destination_swap.clone();
        return Ok(Promise { quote, amount: fill.amount, swap, outcome, repeats: true });
    }
    let (amount, swap) = match reprice(quote, fill.amount, fill.to_contract, (handle, snapshot), context)? {
        Repriced::Pay { amount, swap } => (amount, swap),
        Repriced::Refund(reason) => return Err(Stop::Because(Outcome::CannotFill(reason))),
        Repriced::Unknown => return Err(Stop::not_now(Reason::NoMarket)),
    };
    let market = match quote.figures.fixed {
        Some(_) => at_market(quote, amount, handle, snapshot, context)?,
        None => None,
    };
    let gas = gas::of(handle.chain.fill_gas, Shape::of(quote, swap.as_ref(), fill.to_contract));
    let cost =
        sponsorship::FillCost { amount, market, gas: gas.cost(snapshot), sweep: reprice::origin_cost(quote, context) };
    let outcome = match sponsorship::reserve(tx, quote, due, &cost, (handle, snapshot), context)? {
        Asked::Reserved(outcome) => outcome,
        Asked::TooLow => return Err(Stop::Because(Outcome::CannotFill(FailReason::SponsorBalanceTooLow))),
        Asked::TooFar => return Err(Stop::Because(Outcome::CannotFill(FailReason::Slippage))),
        Asked::Unknown => return Err(Stop::not_now(Reason::NoMarket)),
    };
    Ok(Promise { quote, amount, swap, outcome, repeats: false })
}

/// Fourth stage: the transaction.
fn call(
    tx: &mut Tx<'_>,
    due: &Due,
    amount: Amount,
    to_contract: bool,
    fill: Option<&Promise<'_>>,
    chain: &PayingChain<'_>,
) -> Result<PaymentCall, Stop> {
    let call = match due.purpose() {
        Purpose::Claim => Some(PaymentCall::claim(tx, due, chain.handle)?),
        Purpose::Relay => Some(PaymentCall::relay(tx, due)?),
        Purpose::Fill
        | Purpose::Refund
        | Purpose::Return
        | Purpose::Excess
        | Purpose::Refill
        | Purpose::Payout
        | Purpose::Sweep => {
            let fill = fill.map(|fill| (fill.quote, fill.swap.as_ref()));
            PaymentCall::of(due, amount, chain.handle, to_contract, fill)
        }
    };
    call.ok_or(Stop::not_now(Reason::NoContract))
}

/// A transaction, and whether it is tried before it is sent.
#[derive(Debug)]
struct Sending {
    call: PaymentCall,
    tried: bool,
}

/// Last stage: a lane, a trial where one is needed, the risk budget and, with them, the payment.
fn into_lane(
    tx: &mut Tx<'_>,
    due: &Due,
    quote: Option<&Quote>,
    Sending { call, tried }: Sending,
    chain: &PayingChain<'_>,
    context: &PayContext,
) -> Result<PaymentRow, Stop> {
    if !context.sends || !chain.handle.lanes.send_here() {
        return Err(Stop::not_now(Reason::Elsewhere));
    }
    let request = match due.purpose() {
        // The user's own transaction is no payment of the request.
        Purpose::Relay => None,
        _ => due.request,
    };
    let payment = Unassigned { subject: due.subject, request, recipient: due.recipient, call, fees: chain.fees };
    let chosen = lane::choose(tx, chain.handle, chain.snapshot, &payment)?.map_err(Stop::not_now)?;
    if let Some(quote) = quote.filter(|_| tried) {
        let verdict = trial::verdict(chain.handle, due.order(), chosen.wallet(), &payment.call, payment.fees);
        if verdict != Some(Verdict::Passes) {
            chosen.release(tx);
            return Err(not_made(tx, due, quote, verdict)?);
        }
    }
    if !within_risk(tx, due, quote, context)? {
        chosen.release(tx);
        return Err(Stop::not_now(Reason::OverBudget));
    }
    let payment = lane::assign(tx, chosen, chain.handle, payment, context)?;
    let terms = quote.and_then(|quote| quote.terms.as_ref());
    if let (Purpose::Fill, Some(terms)) = (due.purpose(), terms) {
        fast_fill::touch(tx, due.order(), Moment::Paid { terms }, context)?;
    }
    Ok(payment)
}

/// The end of a fill that waits for its trial, or failed it.
fn not_made(tx: &mut Tx<'_>, due: &Due, quote: &Quote, verdict: Option<Verdict>) -> Result<Stop, StoreError> {
    let Some(Verdict::Refuses(revert)) = verdict else { return Ok(Stop::not_now(Reason::Untried)) };
    if let Some(request) = due.request {
        requests::set_details(tx, request, &revert.to_string())?;
    }
    Ok(Stop::Because(Outcome::CannotFill(trial::reason(quote, &revert))))
}

/// Counts a payment against the risk budget while a reorg could still take its deposit away; false if the budget is
/// used up. Returns and excess come after finality anyway.
fn within_risk(tx: &mut Tx<'_>, due: &Due, quote: Option<&Quote>, context: &PayContext) -> Result<bool, SolverError> {
    let against = matches!(due.purpose(), Purpose::Fill | Purpose::Refund);
    let (Some(quote), true) = (quote, against) else { return Ok(true) };
    exposure::take(tx, due.order(), quote, context)
}

/// Keeps a due that cannot be paid now, with the reason. A refund that our own funds cannot or must not pay is left to
/// the depository, which pays it once the deposit is final.
pub fn keep(tx: &mut Tx<'_>, due: &Due, reason: &Reason, context: &PayContext) -> Result<(), SolverError> {
    if !is_for_the_depository(tx, due, reason, context)? {
        return Ok(dues::put(tx, due, &reason.to_string(), context.now)?);
    }
    dues::put(tx, due, &format!("{reason}: it goes out of the depository once its deposit is final"), context.now)?;
    Ok(dues::leave_to_depository(tx, &due.subject)?)
}

fn is_for_the_depository(
    tx: &mut Tx<'_>,
    due: &Due,
    reason: &Reason,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let pays = context.on(due.chain).is_some_and(|(handle, _)| handle.depository_pays(due.currency, due.amount));
    if due.purpose() != Purpose::Refund || !pays {
        return Ok(false);
    }
    Ok(match reason {
        Reason::OverBudget | Reason::TooLarge | Reason::NeedsPerson => true,
        // Until the deposit is final there may be funds again.
        Reason::Inventory => {
            deposits::of_order(tx, due.order())?.is_some_and(|stored| stored.state == deposit::State::Final)
        }
        Reason::UnknownChain
        | Reason::Refusing(_)
        | Reason::Paused(_)
        | Reason::NoMarket
        | Reason::Halted
        | Reason::NoContract
        | Reason::FeesTooHigh
        | Reason::LanesFull
        | Reason::CauseUnknown
        | Reason::Untried
        | Reason::Rejected
        | Reason::Elsewhere
        | Reason::Blocked => false,
    })
}
