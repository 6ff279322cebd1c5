//! Events of our own payments: mined, final or void, and dues that are tried again.

use alloy::primitives::{Address, B256};
use domain::deposit;
use domain::fail::FailReason;
use domain::ids::{RequestId, SweepId};
use domain::money::Amount;
use domain::payment::{self, State as PaymentState};
use domain::request::{Event, State as RequestState};
use domain::sweep;
use evm::{Head, SentTx};
use metrics::counter;
use serde::Serialize;
use store::dues::Due;
use store::payments::{PaymentRow, Purpose, Subject};
use store::requests::Request;
use store::{Tx, arrivals, deposits, dues, fast_fills, lanes, payments, records, requests, risk, settlements, sweeps};
use tracing::{error, warn};

use crate::chain::{finality, reverts};
use crate::context::PayContext;
use crate::error::SolverError;
use crate::gasless::relay;
use crate::handle::ChainHandle;
use crate::holds::fast_fill::{self, Moment};
use crate::holds::sponsorship;
use crate::integrators::claims;
use crate::orders::advance::advance;
use crate::orders::{excess, losses, refunds};
use crate::payments::mined::{is_attempt, is_cancel, mined_in, sent_record};
use crate::payments::{Outcome, Reason, keep, pay};

/// Time that a fill may wait for funds before its deposit goes back.
const WAIT_FOR_FUNDS_MILLIS: i64 = 120_000;

/// Applies a mined transaction of one of our wallets. If it is not a payment of ours, somebody else holds the key.
pub(crate) fn mined(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    sent: &SentTx,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let chain = handle.id();
    let Some(stored) = payments::at_nonce(tx, chain, sent.from, sent.nonce)? else {
        if handle.is_treasury_lane(sent.from) {
            // Our nonces follow those of transactions sent by hand.
            lanes::raise_nonce(tx, chain, sent.from, sent.nonce.saturating_add(1))?;
            return Ok(Vec::new());
        }
        // A transaction below the next nonce is one that `recover` has accounted for.
        let lane = lanes::all(tx, chain)?.into_iter().find(|lane| lane.wallet == sent.from);
        if lane.is_some_and(|lane| sent.nonce >= lane.next_nonce) {
            foreign(tx, handle, sent)?;
        }
        return Ok(Vec::new());
    };
    let request = requests::lock_about(tx, about(&stored))?;
    let ours = is_attempt(&stored, sent);
    if !ours && !handle.is_treasury_lane(sent.from) {
        foreign(tx, handle, sent)?;
    }
    // A token that returns `false` leaves a successful receipt and moves nothing. Anything that did move was paid: a
    // payment that arrived short is for a person to look at, never a reason to pay again.
    let (currency, owed) = owed(&stored, request.as_ref());
    let arrived = sent.paid(currency, stored.payment.recipient, handle.chain.router);
    // Only a bare transfer of a token can succeed without paying: every other payment reverts unless all of it
    // happened. One that succeeded has paid even if it left no trace, and must not be paid again.
    // On the venue accounts and assets are numbers alike, and leave no logs.
    let bare = handle.venue.is_none() && stored.payment.target == stored.payment.currency;
    let cancelled = is_cancel(&stored, sent);
    let paid = ours && !cancelled && sent.success && (!bare || !arrived.is_zero());
    // Calls of the user's spend what was paid before it reaches the recipient.
    let spent = request.as_ref().is_some_and(|request| !request.quote.ask.options.calls.is_empty());
    if paid && !spent && handle.venue.is_none() && arrived < owed.units() {
        error!(chain.id = %chain, tx = %sent.hash, %arrived, %owed, "a payment arrived short: does the token take a fee?");
    }
    let event = if paid { payment::Event::Mined } else { payment::Event::Reverted };
    let state = payment::step(stored.state, event)?;
    payments::set_state(tx, stored.id, state, context.now)?;
    payments::set_mined(tx, stored.id, Some(mined_in(head, sent, ours)))?;
    if let Some(request) = request.as_ref().filter(|_| ours && !cancelled) {
        keep_record(tx, handle, head, (&stored, sent), request, paid, context)?;
    }
    if state != PaymentState::Mined {
        warn!(chain.id = %chain, tx = %sent.hash, "a payment failed; it is void once its block is final");
        return Ok(Vec::new());
    }
    if let Subject::Sweep(id) = stored.payment.subject {
        sweeps::apply(tx, id, sweep::Event::Mined)?;
    }
    let Some(mut request) = request else { return Ok(Vec::new()) };
    let event = match stored.payment.purpose() {
        Purpose::Fill => Event::FillMined,
        Purpose::Refund => Event::RefundMined,
        // The return of a deposit that is a child request.
        Purpose::Return | Purpose::Payout if request.state == RequestState::Refunding => Event::RefundMined,
        Purpose::Return | Purpose::Claim | Purpose::Refill | Purpose::Payout | Purpose::Sweep => {
            return Ok(Vec::new());
        }
        Purpose::Relay => return relay::mined(tx, handle, head, sent, &mut request, context),
        Purpose::Excess => {
            excess::returned(tx, &request, sent.hash, stored.payment.amount, context)?;
            return Ok(Vec::new());
        }
    };
    let amount = stored.payment.amount.to_string();
    let figures = MinedFigures { chain: chain.0, tx: sent.hash, block: head.number, amount };
    let before = request.state;
    let paid = advance(tx, &mut request, event, &figures, context)?;
    if request.state == RequestState::Success && before != RequestState::Success {
        fast_fill::touch(tx, request.order_id, Moment::Filled, context)?;
    }
    Ok(paid)
}

/// Keeps a transaction of ours as listings show it. A relay is the user's own.
fn keep_record(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    (stored, sent): (&PaymentRow, &SentTx),
    request: &Request,
    paid: bool,
    context: &PayContext,
) -> Result<(), SolverError> {
    if stored.payment.purpose() != Purpose::Relay {
        return Ok(records::put(tx, &sent_record(handle, head, sent, request.id, paid))?);
    }
    relay::in_block(tx, request, paid, context)?;
    Ok(records::put(tx, &relay::record(handle, head, sent, request, paid))?)
}

/// The request that a payment is about. A relay is the user's own transaction, and no payment of the request.
fn about(stored: &PaymentRow) -> Option<RequestId> {
    match stored.payment.subject {
        Subject::Relay(request) => Some(request),
        _ => stored.payment.request,
    }
}

/// The currency and amount that a payment must bring its recipient: those it spends or, with a swap on the way, the
/// swap's minimum output.
fn owed(stored: &PaymentRow, request: Option<&Request>) -> (Address, Amount) {
    let payment = &stored.payment;
    let traded = request.filter(|_| payment.purpose() == Purpose::Fill).map(|request| &request.quote);
    match traded.filter(|quote| quote.destination_swap.is_some()) {
        Some(quote) => (quote.ask.destination.address.packed().unwrap_or_default(), quote.figures.minimum),
        None => (payment.currency, payment.amount),
    }
}

fn foreign(tx: &mut Tx<'_>, handle: &ChainHandle, sent: &SentTx) -> Result<(), SolverError> {
    let why = format!(
        "transaction {} used nonce {} of this wallet and is not ours: another process has its key",
        sent.hash, sent.nonce
    );
    quarantine(tx, handle, sent.from, &why)
}

/// Takes a lane out of use until a person has looked at it.
pub(crate) fn quarantine(tx: &mut Tx<'_>, handle: &ChainHandle, wallet: Address, why: &str) -> Result<(), SolverError> {
    error!(chain.id = %handle.id(), %wallet, "{why}");
    counter!("causeway_lanes_quarantined_total", "chain" => handle.id().to_string()).increment(1);
    lanes::quarantine(tx, handle.id(), wallet, Some(why))?;
    Ok(())
}

/// Looks at what a final sweep has left at its address.
fn sweep_stands(tx: &mut Tx<'_>, id: SweepId, context: &PayContext) -> Result<(), SolverError> {
    match sweeps::fell_short(tx, id)? {
        None => Ok(()),
        // It was for a part of what was there.
        Some(short) if !short.brought.is_zero() && sweeps::is_of_open(tx, id)? => {
            Ok(arrivals::keep_rest(tx, id, short.rest, context.now)?)
        }
        // A reorg may have put it before a transfer that it was to take. Which one that is, the balance tells: all of
        // them wait again, and have left where it is zero. Only money that is there is ever swept.
        Some(_) => Ok(arrivals::unswept(tx, id)?),
    }
}

/// Applies the finality of a payment's block: the payment stands, or it is proven void and its order is free. In a
/// block that is not ours it proves nothing.
pub(crate) fn finalise(
    tx: &mut Tx<'_>,
    stored: &PaymentRow,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let mut request = requests::lock_about(tx, about(stored))?;
    if finality::undo_payment(tx, stored, context)? {
        return Ok(Vec::new());
    }
    let state = payment::step(stored.state, payment::Event::Finalised)?;
    payments::set_state(tx, stored.id, state, context.now)?;
    if let (Purpose::Relay, Some(request)) = (stored.payment.purpose(), &mut request) {
        return relay::ended(tx, stored, state, request, context);
    }
    if state != PaymentState::Void {
        return match stored.payment.subject {
            Subject::Fill(_) => {
                sponsorship::settle(tx, stored.payment.order(), context)?;
                excess::give_back(tx, stored.payment.order(), context)
            }
            Subject::Claim(_) => claims::ended(tx, stored, state, context),
            Subject::Sweep(id) => sweep_stands(tx, id, context).map(|()| Vec::new()),
            Subject::Refund(_)
            | Subject::Return { .. }
            | Subject::Excess(_)
            | Subject::Refill(_)
            | Subject::Payout { .. }
            | Subject::Relay(_) => Ok(Vec::new()),
        };
    }
    settlements::free(tx, stored.payment.order(), stored.id)?;
    risk::release(tx, stored.payment.order())?;
    if let Some(request) = request.as_ref().filter(|_| is_refused_on_venue(stored)) {
        reverts::remember(tx, &request.quote, context.now)?;
    }
    let event = match stored.payment.subject {
        Subject::Fill(_) if was_ahead(tx, request.as_ref())? => {
            fast_fill::touch(tx, stored.payment.order(), Moment::Failed { payment: stored }, context)?;
            Event::FastFillVoid
        }
        Subject::Fill(_) if stored.cancelled => Event::FillVoid { reason: FailReason::TransactionNotIncluded },
        Subject::Fill(_) => Event::FillVoid { reason: reverts::reason(tx, stored, request.as_ref())? },
        Subject::Refund(_) => Event::RefundVoid,
        Subject::Claim(_) => return claims::ended(tx, stored, state, context),
        // The allocator learns of it by itself, from the depository's nonces.
        Subject::Payout { .. } => return Ok(Vec::new()),
        // The operator asks again, and a relay has ended above.
        Subject::Refill(_) | Subject::Relay(_) => return Ok(Vec::new()),
        Subject::Sweep(id) => {
            sweeps::apply(tx, id, sweep::Event::Failed)?;
            arrivals::unswept(tx, id)?;
            return Ok(Vec::new());
        }
        Subject::Return { .. } => {
            refunds::return_again(tx, &stored.payment)?;
            return Ok(Vec::new());
        }
        Subject::Excess(_) => {
            return match request {
                Some(request) => excess::give_back(tx, request.order_id, context),
                None => Ok(Vec::new()),
            };
        }
    };
    let Some(request) = request.as_mut() else { return Ok(Vec::new()) };
    let paid = advance(tx, request, event, &(), context)?;
    let owed = dues::find(tx, &stored.payment.subject)?.is_some();
    losses::forget(tx, stored.payment.order(), owed)?;
    Ok(paid)
}

/// True for a fill that the venue took and did not execute. No replay says whose doing that was, as on a chain: its
/// balance and its fee were good when it was taken, which leaves the recipient.
fn is_refused_on_venue(stored: &PaymentRow) -> bool {
    stored.payment.chain == domain::venue::CHAIN && stored.payment.purpose() == Purpose::Fill && !stored.cancelled
}

/// True if the fill was made ahead of a deposit that is still to come. False once the request was a success: a
/// recipient that was paid once is owed it again, whatever became of the deposit.
fn was_ahead(tx: &mut Tx<'_>, request: Option<&Request>) -> Result<bool, SolverError> {
    let Some(request) = request.filter(|request| request.state != RequestState::Success) else { return Ok(false) };
    let empty = deposits::of_order(tx, request.order_id)?.is_none();
    Ok(empty && fast_fills::of_order(tx, request.order_id)?.is_some())
}

/// Tries a due row again, or gives it up if the order's time or our funds have run out.
pub(crate) fn retry(
    tx: &mut Tx<'_>,
    head: Head,
    due: &Due,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let mut request = requests::lock_about(tx, due.request)?;
    let Some(due) = dues::find(tx, &due.subject)? else { return Ok(Vec::new()) };
    let open = request.as_ref().is_some_and(|request| !request.state.is_terminal());
    if let (Purpose::Relay, Some(request)) = (due.purpose(), &mut request)
        && let Some(paid) = relay::give_up(tx, request, head.timestamp(), context)?
    {
        return Ok(paid);
    }
    if let (Purpose::Fill, true, Some(request)) = (due.purpose(), open, &mut request)
        && let Some(reason) = deposit::fill_too_late(&request.quote, head.timestamp())
    {
        return advance(tx, request, Event::CannotFill { reason }, &(), context);
    }
    match (pay(tx, &due, request.as_ref().map(|request| &request.quote), context)?, &mut request) {
        (Outcome::Paid(payment), _) => Ok(vec![*payment]),
        (Outcome::NotNow(Reason::Inventory), Some(request))
            if due.purpose() == Purpose::Fill && open && waited(&due, context) =>
        {
            let reason = FailReason::SolverBalanceTooLow;
            advance(tx, request, Event::CannotFill { reason }, &(), context)
        }
        (Outcome::NotNow(reason), _) => {
            keep(tx, &due, &reason, context)?;
            if reason == Reason::NeedsPerson && !dues::is_left_to_depository(tx, &due.subject)? {
                error!(chain.id = %due.chain, request.id = due.request.map(display), "a payment failed as often as it may, and waits for a person");
                dues::park(tx, &due.subject)?;
            }
            Ok(Vec::new())
        }
        (Outcome::Worthless(_), _) if due.purpose() == Purpose::Excess => {
            dues::remove(tx, &due.subject)?;
            Ok(Vec::new())
        }
        (Outcome::CannotFill(reason), Some(request)) => {
            advance(tx, request, Event::CannotFill { reason }, &(), context)
        }
        (Outcome::Worthless(reason), Some(request)) => {
            advance(tx, request, Event::RefundImpossible { reason: Some(reason) }, &(), context)
        }
        (Outcome::Settled, _) | (Outcome::Worthless(_) | Outcome::CannotFill(_), None) => {
            dues::remove(tx, &due.subject)?;
            Ok(Vec::new())
        }
    }
}

/// Gives up a fill on a chain that stands still or is paused once its time is over by a block of the origin: no block
/// of its own chain would tell. Until then it waits.
pub(crate) fn expire_halted(
    tx: &mut Tx<'_>,
    head: Head,
    due: &Due,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let request = requests::lock_about(tx, due.request)?;
    let Some(due) = dues::find(tx, &due.subject)? else { return Ok(Vec::new()) };
    let Some(mut request) = request.filter(|request| !request.state.is_terminal()) else { return Ok(Vec::new()) };
    if let Some(reason) = deposit::fill_too_late(&request.quote, head.timestamp()) {
        return advance(tx, &mut request, Event::CannotFill { reason }, &(), context);
    }
    let paused = context.on(due.chain).and_then(|(handle, _)| handle.health.paused());
    let reason = paused.map_or(Reason::Halted, |why| Reason::Paused(why.to_string()));
    keep(tx, &due, &reason, context)?;
    Ok(Vec::new())
}

fn waited(due: &Due, context: &PayContext) -> bool {
    context.now.millis().saturating_sub(due.since.millis()) > WAIT_FOR_FUNDS_MILLIS
}

#[derive(Serialize)]
struct MinedFigures {
    chain: u64,
    tx: B256,
    block: u64,
    amount: String,
}
