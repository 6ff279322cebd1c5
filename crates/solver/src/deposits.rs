//! Taking in deposits: what a block shows becomes a row, and where it pays for an order, a payment in the same commit.

use alloy::primitives::{Address, B256, keccak256};
use domain::deposit::{self, Facts, State, Verdict};
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::{Amount, UsdMicros};
use domain::quote::Quote;
use domain::request::{Event, State as RequestState};
use domain::time::Timestamp;
use evm::{Head, Id, SeenDeposit};
use serde::Serialize;
use store::deposits::{Deposit, DepositId, DepositRow, ReturnDue};
use store::dues::Due;
use store::payments::{Payment, PaymentRow, Purpose};
use store::records::{Direction, Record};
use store::requests::Request;
use store::{Tx, depository_ledger, deposits, payouts, records, requests, settlements};
use tracing::error;

use crate::advance::advance;
use crate::chain_handle::ChainHandle;
use crate::children;
use crate::error::SolverError;
use crate::excess;
use crate::fast_fill;
use crate::follow::block_time;
use crate::losses;
use crate::payments::{Outcome, Reason, pay};
use crate::solver::PayContext;

/// Takes in one deposit of a block. Reading the same block again changes nothing.
pub fn apply(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    seen: &SeenDeposit,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    if !counts(handle, seen) {
        return Ok(Vec::new());
    }
    let listed = handle.chain.token(seen.currency).is_some();
    let mut request = match seen.id.candidate() {
        Some(id) => requests::lock_order(tx, OrderId(id))?,
        None => None,
    };
    let deposit = as_row(handle, head, seen, request.as_ref());
    let stored = match deposits::insert(tx, &deposit, context.now)? {
        Some(id) => DepositRow { id, state: State::Seen, deposit, refused: None },
        None => {
            let known = deposits::find(tx, deposit.chain, deposit.tx, deposit.ordinal)?;
            let known = known.ok_or(SolverError::InvariantViolated("a deposit is there and is not"))?;
            if known.deposit.block_hash == deposit.block_hash && known.state != State::Gone {
                return Ok(Vec::new());
            }
            // In another block its transaction may have done something else: the old sight is undone first.
            if known.state != State::Gone {
                vanish(tx, &known, context)?;
                request = match request {
                    Some(request) => requests::lock(tx, request.id)?,
                    None => None,
                };
            }
            let state = deposit::step(State::Gone, deposit::Event::Landed)?;
            deposits::moved(tx, known.id, &deposit, state)?;
            DepositRow { id: known.id, state, deposit, refused: None }
        }
    };
    if let Some(request) = &request {
        records::put(tx, &record(handle, head, seen, request.id))?;
    }
    if !listed {
        refuse(tx, &stored, request.as_ref(), FailReason::OriginCurrencyMismatch, context)?;
        return Ok(Vec::new());
    }
    if stored.deposit.ripe_at > head.number {
        return Ok(Vec::new());
    }
    confirm(tx, &stored, request.as_mut(), context)
}

/// Anyone can make a token that claims transfers to us. What is no currency of ours is noted only where our own contract
/// saw it, and a transfer of nothing is not a deposit.
pub(crate) fn counts(handle: &ChainHandle, seen: &SeenDeposit) -> bool {
    let listed = handle.chain.token(seen.currency).is_some();
    !seen.amount.is_zero() && (listed || matches!(seen.id, Id::Event(_)))
}

/// The transaction as listings show it. What it cost its sender is read later, off this way.
fn record(handle: &ChainHandle, head: Head, seen: &SeenDeposit, request: RequestId) -> Record {
    Record {
        request,
        direction: Direction::In,
        chain: handle.id(),
        tx: seen.tx,
        sender: seen.sender,
        target: seen.to,
        value: Amount::new(seen.value),
        data: seen.input.clone(),
        fee: seen.fee.map(Amount::new),
        block_number: head.number,
        block_hash: head.hash,
        block_time: block_time(head),
        succeeded: true,
        gone: false,
        failure: None,
    }
}

/// Enough blocks stand on a deposit: it counts from here on.
pub fn confirm(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    request: Option<&mut Request>,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let deposit = &stored.deposit;
    deposits::set_state(tx, stored.id, deposit::step(stored.state, deposit::Event::Confirmed)?)?;
    // Held, not returned: what to do with it is for a person to decide.
    if [deposit.payer, deposit.sender, deposit.depositor].iter().any(|who| context.screening.blocked.contains(who)) {
        return refuse(tx, stored, None, FailReason::BlockedWallet, context);
    }
    let Some(request) = request else { return refuse(tx, stored, None, FailReason::OrphanedDepositRefund, context) };
    let facts = Facts {
        chain: deposit.chain,
        currency: deposit.currency,
        amount: deposit.amount,
        payer: deposit.payer,
        sender: deposit.sender,
        block_time: deposit.block_time,
    };
    let ahead = fast_fill::is_ahead(tx, request)?;
    let event = match deposit::judge(&request.quote, &facts)? {
        // Filled already: whether this takes the slot is decided below, and it is never refunded.
        Verdict::Fill { .. } | Verdict::Refund { .. } if ahead => {
            Event::DepositAccepted { output: request.quote.figures.paid }
        }
        Verdict::Unrecognized { reason } if ahead && fast_fill::is_of_the_order(reason) => {
            Event::DepositAccepted { output: request.quote.figures.paid }
        }
        Verdict::Unrecognized { reason } => return refuse(tx, stored, Some(request), reason, context),
        // A command, where such commands are taken: for trying out what a refund looks like.
        Verdict::Fill { .. } if context.forces_refund(&request.quote) => {
            Event::DepositRefused { reason: FailReason::ManualAdminRefund }
        }
        Verdict::Fill { .. } if excess::is_too_much(&request.quote, deposit, context)? => {
            Event::DepositRefused { reason: FailReason::Slippage }
        }
        Verdict::Fill { output } => match ended(&request.quote, context) {
            Some(reason) => Event::DepositRefused { reason },
            None => Event::DepositAccepted { output },
        },
        Verdict::Refund { reason } => Event::DepositRefused { reason },
    };
    if request.state == RequestState::Failed && deposits::of_order(tx, request.order_id)?.is_none() {
        return refuse(tx, stored, Some(request), FailReason::OrderIsCancelled, context);
    }
    if !losses::takes_place(tx, stored, request)? {
        return refuse(tx, stored, Some(request), FailReason::DepositedAmountTooLowToFill, context);
    }
    if !tie(tx, stored.id, request.order_id)? {
        return refuse(tx, stored, Some(request), FailReason::DoubleSpend, context);
    }
    losses::recover(tx, stored, request, context)?;
    fast_fill::landed(tx, stored, request, context)?;
    advance(tx, request, event, &Figures::of(deposit), context)
}

/// Why what was promised for a while is not made good any more.
fn ended(quote: &Quote, context: &PayContext) -> Option<FailReason> {
    deposit::fill_too_late(quote, fast_fill::destination_time(quote.terms.as_ref()?, context))
}

/// A deposit that pays for no order is sent back once it is final; one that names an order is a request of its own.
fn refuse(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    named: Option<&Request>,
    reason: FailReason,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    deposits::refuse(tx, stored.id, reason)?;
    if let Some(parent) = named {
        children::open(tx, parent, stored, reason, context)?;
    }
    Ok(Vec::new())
}

/// Makes the deposit the one that pays the order's input. One that is already tied, by an earlier sight, still is.
fn tie(tx: &mut Tx<'_>, id: DepositId, order: OrderId) -> Result<bool, SolverError> {
    if deposits::use_as_input(tx, id, order)? {
        return Ok(true);
    }
    Ok(deposits::of_order(tx, order)?.is_some_and(|tied| tied.id == id))
}

/// A final deposit that pays for no order goes back to whom it names: whoever paid chose that name. It keeps waiting
/// until it is paid, or until it turns out that nothing is owed.
pub fn return_to_depositor(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    stored: &DepositRow,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let (deposit, key) = (&stored.deposit, key(&stored.deposit));
    let reason = stored.refused.filter(|reason| is_returnable(*reason));
    let custodial = context.screening.custodial.contains(&deposit.depositor);
    let nobody = handle.cannot_receive(deposit.depositor) || custodial;
    let (Some(reason), false) = (reason, nobody) else {
        deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        children::cannot_return(tx, stored, custodial, context)?;
        return Ok(Vec::new());
    };
    // A database that was lost may have had it returned out of the depository: what it signed for is read first.
    if payouts::imported(tx, deposit.chain)? > 0 {
        return Ok(Vec::new());
    }
    if depository_ledger::goes_back(tx, key)? {
        deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        return Ok(Vec::new());
    }
    // The order of a deposit we do not know may have been filled by a database we no longer have.
    if reason == FailReason::OrphanedDepositRefund
        && let Some(order) = deposit.claim
        && settlements::outcome(tx, order)?.is_some()
    {
        if settlements::is_final(tx, order)? {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        }
        return Ok(Vec::new());
    }
    let due = Due {
        purpose: Purpose::Return,
        subject: subject(stored.id),
        request: requests::lock(tx, children::id(stored))?.map_or(RequestId(B256::ZERO), |child| child.id),
        order: OrderId(key),
        chain: deposit.chain,
        currency: deposit.currency,
        recipient: deposit.depositor,
        amount: deposit.amount,
        since: context.now,
    };
    match pay(tx, &due, None, context)? {
        Outcome::Paid(payment) => {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
            Ok(vec![*payment])
        }
        Outcome::NotNow(reason @ (Reason::NeedsPerson | Reason::TooLarge)) => {
            error!(chain.id = %deposit.chain, tx = %deposit.tx, "a deposit is left to the allocator to return, or to a person where there is none: {reason}");
            deposits::set_return_due(tx, stored.id, ReturnDue::Parked)?;
            Ok(Vec::new())
        }
        // One made by a database we no longer have may still turn out void.
        Outcome::Settled if !settlements::is_final(tx, due.order)? => Ok(Vec::new()),
        Outcome::Settled | Outcome::Worthless(_) | Outcome::CannotFill(_) => {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
            children::cannot_return(tx, stored, false, context)?;
            Ok(Vec::new())
        }
        Outcome::NotNow(_) => Ok(Vec::new()),
    }
}

/// A return that failed on the chain waits again.
pub fn return_again(tx: &mut Tx<'_>, payment: &Payment) -> Result<(), SolverError> {
    let id = i64::from_be_bytes(payment.subject.0[24..].try_into().expect("a slice of eight bytes"));
    deposits::set_return_due(tx, DepositId(id), ReturnDue::Yes)?;
    Ok(())
}

/// The deposit's row as the subject of its return.
fn subject(id: DepositId) -> B256 {
    B256::left_padding_from(&id.0.to_be_bytes())
}

/// What the depositor did wrong by mistake. What a person has to look at stays where it is.
const fn is_returnable(reason: FailReason) -> bool {
    matches!(
        reason,
        FailReason::DoubleSpend
            | FailReason::OrderIsCancelled
            | FailReason::OrphanedDepositRefund
            | FailReason::OriginCurrencyMismatch
            | FailReason::DepositChainMismatch
            | FailReason::DepositedAmountTooLowToFill
    )
}

/// A deposit's name in 32 bytes, the same in whatever block it stands.
pub(crate) fn key(deposit: &Deposit) -> B256 {
    return_key(deposit.chain, deposit.tx, deposit.ordinal)
}

/// What the return of a deposit carries where others carry an order's id.
pub(crate) fn return_key(chain: ChainId, tx: B256, ordinal: u32) -> B256 {
    let mut bytes = Vec::with_capacity(44);
    bytes.extend_from_slice(&chain.0.to_be_bytes());
    bytes.extend_from_slice(tx.as_slice());
    bytes.extend_from_slice(&ordinal.to_be_bytes());
    keccak256(bytes)
}

/// A reorg took the deposit's block away.
pub fn vanish(tx: &mut Tx<'_>, stored: &DepositRow, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    deposits::set_state(tx, stored.id, deposit::step(stored.state, deposit::Event::Vanished)?)?;
    deposits::set_gone_at(tx, stored.id, context.now)?;
    children::vanish(tx, stored, context)?;
    let Some(order) = stored.deposit.order_id else { return Ok(Vec::new()) };
    let Some(mut request) = requests::lock_order(tx, order)? else { return Ok(Vec::new()) };
    let tied = deposits::of_order(tx, order)?.is_some_and(|tied| tied.id == stored.id);
    if !tied {
        return Ok(Vec::new());
    }
    // The slot is free for the deposit to land again, or for another one to take.
    deposits::release(tx, stored.id)?;
    let fill_decided = settlements::outcome(tx, order)?.is_some();
    if fill_decided {
        losses::open(tx, stored, &request, context)?;
    }
    advance(tx, &mut request, Event::DepositGone { fill_decided }, &Figures::of(&stored.deposit), context)
}

pub(crate) fn as_row(handle: &ChainHandle, head: Head, seen: &SeenDeposit, request: Option<&Request>) -> Deposit {
    let amount = Amount::new(seen.amount);
    let worth = request.map_or(UsdMicros::default(), |request| worth(&request.quote, handle, seen.currency, amount));
    let confirmations = u64::from(handle.chain.confirmations_for(worth));
    let order_id = match seen.id {
        Id::Event(id) => Some(OrderId(id)),
        // Trailing bytes that only look like an id must not lock money under it.
        Id::Calldata(id) => request.is_some().then_some(OrderId(id)),
        Id::None => None,
    };
    Deposit {
        chain: handle.id(),
        tx: seen.tx,
        ordinal: seen.ordinal,
        log_index: seen.log_index,
        block_number: head.number,
        block_hash: head.hash,
        block_time: Timestamp::from_secs(i64::try_from(head.time).unwrap_or(i64::MAX)),
        order_id,
        claim: seen.id.candidate().map(OrderId),
        depositor: seen.depositor,
        payer: seen.payer,
        sender: seen.sender,
        currency: seen.currency,
        amount,
        ripe_at: head.number.saturating_add(confirmations.saturating_sub(1)),
    }
}

/// What a deposit is worth at the price it was quoted with. What has no such price is worth the most there is.
pub(crate) fn worth(quote: &Quote, handle: &ChainHandle, currency: Address, amount: Amount) -> UsdMicros {
    let quoted = quote.terms.as_ref().is_some_and(|terms| terms.deposit.address.evm() == Some(currency));
    let token = handle.chain.token(currency).filter(|_| quoted);
    let worth = token.and_then(|token| quote.figures.prices.deposit.usd_floor(amount, token.decimals).ok());
    worth.unwrap_or(UsdMicros(i64::MAX))
}

/// What the rules looked at, kept with the event.
#[derive(Serialize)]
struct Figures {
    chain: u64,
    tx: B256,
    block: u64,
    amount: String,
}

impl Figures {
    fn of(deposit: &Deposit) -> Self {
        let amount = deposit.amount.to_string();
        Self { chain: deposit.chain.0, tx: deposit.tx, block: deposit.block_number, amount }
    }
}
