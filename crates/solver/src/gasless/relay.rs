//! The life of a relay: one commit says that it is ours to send and decides its payment; the chain says the rest.

use std::time::Duration;

use alloy::primitives::Address;
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::ledger::{Cause, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::money::Amount;
use domain::payment::State as PaymentState;
use domain::relay::Event as RelayEvent;
use domain::request::{Event, State as RequestState};
use domain::time::Timestamp;
use evm::{Head, SentTx};
use serde_json::json;
use store::dues::Due;
use store::ledger::{self, Opened};
use store::payments::{PaymentRow, Subject};
use store::records::{Direction, Record};
use store::relays::Relay;
use store::requests::Request;
use store::{Tx, deposits, dues, fast_fills, payments, records, relays, same_chain};
use tracing::{info, warn};

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::holds::worth;
use crate::orders::advance::advance;
use crate::payments::give_up::is_too_late;
use crate::payments::mined::sent_record;
use crate::payments::{Outcome, pay};
use crate::solver::Solver;

/// Hold for the gas of a relay, as a multiple of what it costs at today's fees: a bump offers more.
const HOLD_TIMES: u64 = 2;

/// The reason why a relay does not begin.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// The request has a relay.
    Already,
    /// The account has another relay under way.
    Busy,
    /// The wallet that is to pay for it does not cover it.
    TooLow {
        needed: UsdcMicros,
    },
    /// The price of gas is not known at the moment.
    Unpriced,
    Failed(SolverError),
}

impl<E: Into<SolverError>> From<E> for NotBegun {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Begins a relay of a request that the unit has locked, at the cost of `payer`'s app balance, if one is named.
pub(crate) fn begin(
    tx: &mut Tx<'_>,
    request: &mut Request,
    relay: &Relay,
    payer: Option<(Address, Amount)>,
    context: &PayContext,
) -> Result<Option<PaymentRow>, NotBegun> {
    if !relays::begin(tx, relay, context.now)? {
        return Err(match relays::find(tx, relay.request)? {
            Some(_) => NotBegun::Already,
            None => NotBegun::Busy,
        });
    }
    if let Some((wallet, cost)) = payer {
        hold(tx, request, relay, (wallet, cost), context)?;
    }
    let figures = json!({ "chain": relay.chain.0, "relayer": relay.relayer, "gas": relay.gas });
    advance(tx, request, Event::Relayed, &figures, context)?;
    Ok(send(tx, request, relay, context)?)
}

/// Sets the gas aside: twice its cost, in the ledger's currency.
fn hold(
    tx: &mut Tx<'_>,
    request: &Request,
    relay: &Relay,
    (wallet, cost): (Address, Amount),
    context: &PayContext,
) -> Result<(), NotBegun> {
    let charged = worth::charge(context, (relay.chain, Address::ZERO), cost)?.ok_or(NotBegun::Unpriced)?;
    let times = i64::try_from(HOLD_TIMES).unwrap_or(i64::MAX);
    let amount = UsdcMicros(charged.0.saturating_mul(times).max(1));
    let hold = Hold { id: hold_id(request), wallet, amount, request: Some(request.id) };
    match ledger::open_hold(tx, &hold, context.now)? {
        Opened::Now => Ok(()),
        Opened::Already(_) => Err(NotBegun::Already),
        Opened::TooLow(_) => Err(NotBegun::TooLow { needed: amount }),
    }
}

fn hold_id(request: &Request) -> HoldId {
    HoldId::first(HoldKind::Relay, request.id.0)
}

/// Decides the payment, or keeps it as due.
fn send(
    tx: &mut Tx<'_>,
    request: &Request,
    relay: &Relay,
    context: &PayContext,
) -> Result<Option<PaymentRow>, SolverError> {
    let due = Due {
        subject: Subject::Relay(request.id),
        request: Some(request.id),
        chain: relay.chain,
        currency: Address::ZERO,
        recipient: relay.target,
        amount: Amount::ZERO,
        since: context.now,
    };
    match pay(tx, &due, Some(&request.quote), context)? {
        Outcome::Paid(payment) => Ok(Some(*payment)),
        Outcome::NotNow(reason) => {
            dues::put(tx, &due, &reason.to_string(), context.now)?;
            Ok(None)
        }
        Outcome::Settled | Outcome::Worthless(_) | Outcome::CannotFill(_) => {
            Err(SolverError::InvariantViolated("a relay was sent before it was signed for"))
        }
    }
}

/// Hands a committed relay to its lane or, where its payment waits, wakes the worker.
pub(crate) async fn hand_over(solver: &Solver, paid: Option<PaymentRow>) {
    solver.crash("relay.committed");
    if paid.is_none()
        // If the wake-up is lost, the worker finds the relay at the next block.
        && let Err(error) = solver.store.wake().await
    {
        warn!(error = %Chained(&error), "the worker was not woken for a relay");
    }
    solver.hand_over(paid.into_iter().collect());
}

/// Gives up a relay that waited until its signature was of no use: it ends before a block could have it. None while it
/// may still be sent.
pub(crate) fn give_up(
    tx: &mut Tx<'_>,
    request: &mut Request,
    time: Timestamp,
    context: &PayContext,
) -> Result<Option<Vec<PaymentRow>>, SolverError> {
    let block_time = |relay: &Relay| context.on(relay.chain).map_or(Duration::ZERO, |(handle, _)| handle.block_time());
    let late = |relay: &Relay| is_too_late(relay.deadline, time, block_time(relay));
    let Some(stored) = relays::find(tx, request.id)?.filter(|stored| late(&stored.relay)) else { return Ok(None) };
    warn!(request.id = %request.id, chain.id = %stored.relay.chain, "a relay could not be sent while its signature was good");
    dues::remove(tx, &Subject::Relay(request.id))?;
    // It cost us nothing.
    relays::apply(tx, request.id, RelayEvent::GivenUp, context.now)?;
    settle(tx, request, None, context)?;
    void(tx, request, FailReason::SignatureExpired, context).map(Some)
}

/// Ends a request whose relay is void, unless something else stands for its deposit: a fast fill, or another deposit.
fn void(
    tx: &mut Tx<'_>,
    request: &mut Request,
    reason: FailReason,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let is_same_chain = request.quote.terms.is_none();
    if is_same_chain
        && request.state == RequestState::Success
        && !records::has_succeeded(tx, request.id, Direction::In)?
    {
        // A reorg took the success away, and the same bytes failed where they landed again.
        return advance(tx, request, Event::Executed { success: false }, &(), context);
    }
    let stands = !is_same_chain
        && (fast_fills::of_order(tx, request.order_id)?.is_some() || deposits::is_paid_for(tx, request.order_id)?);
    let event = if stands { Event::RelayGone } else { Event::RelayVoid { reason } };
    advance(tx, request, event, &(), context)
}

/// A relayed transaction is in a block. A deposit counts by itself; a same-chain transfer ends here.
pub(crate) fn mined(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    sent: &SentTx,
    request: &mut Request,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    records::put(tx, &record(handle, head, sent, request, true))?;
    if request.quote.terms.is_some() {
        return Ok(Vec::new());
    }
    if !request.quote.figures.fees.app.is_empty() {
        same_chain::put(tx, request.id, handle.id(), sent.hash, head.number)?;
    }
    let figures = json!({ "chain": handle.id().0, "tx": sent.hash, "block": head.number });
    advance(tx, request, Event::Executed { success: true }, &figures, context)
}

/// Notes that a block has a relay: another one of the account may begin, or waits a while because this one failed.
pub(crate) fn in_block(
    tx: &mut Tx<'_>,
    request: &Request,
    succeeded: bool,
    context: &PayContext,
) -> Result<(), SolverError> {
    // A call that brought no deposit has cost us its gas, whatever else it did.
    let paid = request.quote.terms.is_none() || deposits::is_paid_for(tx, request.order_id)?;
    let event = if succeeded && paid { RelayEvent::Landed } else { RelayEvent::Failed };
    Ok(relays::apply(tx, request.id, event, context.now)?)
}

/// A relayed transaction as listings show it: the user's own, on the origin.
pub(crate) fn record(handle: &ChainHandle, head: Head, sent: &SentTx, request: &Request, succeeded: bool) -> Record {
    Record { direction: Direction::In, ..sent_record(handle, head, sent, request.id, succeeded) }
}

/// Ends a relay when the block of its payment is final, or the payment is proven void. The gas is charged either way,
/// to whoever pays for it.
pub(crate) fn ended(
    tx: &mut Tx<'_>,
    stored: &PaymentRow,
    state: PaymentState,
    request: &mut Request,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let burnt = payments::fee_of(tx, stored.id)?;
    settle(tx, request, burnt.map(|fee| (stored, fee)), context)?;
    if state != PaymentState::Void {
        in_block(tx, request, true, context)?;
        // The call succeeded and brought no deposit: nothing more will come of it.
        let unpaid = request.quote.terms.is_some() && !deposits::is_paid_for(tx, request.order_id)?;
        return match unpaid {
            true => void(tx, request, FailReason::TransactionReverted, context),
            false => Ok(Vec::new()),
        };
    }
    let event = if stored.cancelled { RelayEvent::GivenUp } else { RelayEvent::Failed };
    relays::apply(tx, request.id, event, context.now)?;
    let failure = records::last_failure(tx, request.id, stored.payment.chain, Direction::In)?;
    let reason = match (&failure, stored.cancelled) {
        (_, true) => FailReason::TransactionNotIncluded,
        (Some(failure), false) => failure.reason,
        (None, false) => FailReason::TransactionReverted,
    };
    if let Some(failure) = failure.filter(|_| !stored.cancelled) {
        store::requests::set_details(tx, request.id, &failure.details)?;
    }
    void(tx, request, reason, context)
}

/// Ends the hold for the gas, if there is one: the burnt part is spent and the rest is free.
fn settle(
    tx: &mut Tx<'_>,
    request: &Request,
    burnt: Option<(&PaymentRow, Amount)>,
    context: &PayContext,
) -> Result<(), SolverError> {
    let Some(open) = ledger::open_hold_of(tx, HoldKind::Relay, request.id.0)? else { return Ok(()) };
    let hold = open.hold;
    let charged = match burnt {
        None => UsdcMicros::ZERO,
        // Without a price all of the hold is spent: it was twice the cost.
        Some((stored, fee)) => {
            worth::charge(context, (stored.payment.chain, Address::ZERO), fee)?.unwrap_or(hold.amount).min(hold.amount)
        }
    };
    if charged <= UsdcMicros::ZERO {
        ledger::void_hold(tx, hold.id, context.now)?;
        return Ok(());
    }
    let entry = Entry::new(Cause::Relay { hold: hold.id }, hold.wallet, charged.negated(), hold.request)?;
    ledger::post_hold(tx, hold.id, &[entry], context.now)?;
    info!(request.id = %request.id, wallet = %hold.wallet, usdc_micros = charged.0, "the gas of a relay is charged");
    Ok(())
}

/// The order id in place of which a request without an order has its own id.
pub(crate) fn order_of(request: &Request) -> OrderId {
    if request.quote.terms.is_some() { request.order_id } else { OrderId(request.id.0) }
}
