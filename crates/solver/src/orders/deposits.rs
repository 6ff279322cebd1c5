//! Deposits: each deposit in a block becomes a row and, if it pays for an order, a payment in the same commit.

use alloy::primitives::B256;
use domain::deposit::{self, Facts, State, Verdict};
use domain::fail::FailReason;
use domain::ids::{OrderId, RequestId, SweepId};
use domain::money::{Amount, UsdMicros};
use domain::quote::Quote;
use domain::request::{Event, State as RequestState};
use evm::{Head, Id, SeenDeposit, calldata};
use serde::Serialize;
use store::deposits::{Deposit, DepositId, DepositRow};
use store::payments::PaymentRow;
use store::records::{Direction, Record};
use store::requests::Request;
use store::{Tx, deposit_addresses, deposits, records, relays, requests, settlements, sweeps};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::holds::fast_fill::{self, Moment};
use crate::lifecycle::remember;
use crate::orders::advance::advance;
use crate::orders::{children, excess, losses};
use crate::payments::parties;

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
        Some(id) => request_of(tx, OrderId(id), context)?,
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
            // In another block its transaction may have done something else: the old deposit is undone first.
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
    let named = match &request {
        Some(request) => Some(request.id),
        None => going_back(tx, &stored)?.map(|(parent, _)| parent),
    };
    if let Some(named) = named {
        records::put(tx, &record(handle, head, seen, named))?;
    }
    if !listed {
        if handle.venue.is_none() {
            refuse(tx, &stored, request.as_ref(), FailReason::OriginCurrencyMismatch, context)?;
            return Ok(Vec::new());
        }
        // Another asset of the venue is somebody's money, unlike a token that anybody can make: it goes back.
        deposits::set_state(tx, stored.id, deposit::step(stored.state, deposit::Event::Confirmed)?)?;
        return refuse(tx, &stored, request.as_ref(), FailReason::IncorrectDepositCurrency, context);
    }
    if stored.deposit.ripe_at > head.number {
        return Ok(Vec::new());
    }
    confirm(tx, &stored, request.as_mut(), context)
}

/// The request of an order, locked. One that was forgotten with its address is there again, because anybody may sweep a
/// strict address: the senders behind the deposit are looked for, and it goes back under its request.
fn request_of(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<Option<Request>, SolverError> {
    if let Some(request) = requests::lock_order(tx, order)? {
        return Ok(Some(request));
    }
    match deposit_addresses::forgotten_with(tx, order)? {
        Some(address) => remember(tx, address, context.terms.deposit_addresses.watch, context),
        None => Ok(None),
    }
}

/// True for a deposit that is noted. Anyone can make a token that claims transfers to us: an unlisted token counts only
/// if our own contract saw the deposit, and a transfer of zero is not a deposit.
pub(crate) fn counts(handle: &ChainHandle, seen: &SeenDeposit) -> bool {
    // Nobody can make an asset of the venue: whatever arrives there has moved, and goes back if it is the wrong one.
    let listed = handle.venue.is_some() || handle.chain.token(seen.currency).is_some();
    !seen.amount.is_zero() && (listed || matches!(seen.id, Id::Event(_)))
}

/// True for a deposit that is acted on by the word of one node. One that pays for no order has no known worth.
pub(crate) fn is_small(tx: &mut Tx<'_>, handle: &ChainHandle, seen: &SeenDeposit) -> Result<bool, SolverError> {
    let limit = handle.settings.one_node_below;
    let Some(id) = seen.id.candidate().filter(|_| limit > UsdMicros::default()) else { return Ok(false) };
    let request = requests::lock_order(tx, OrderId(id))?;
    let worth = |request: Request| request.quote.deposit_worth(&handle.chain, seen.currency, Amount::new(seen.amount));
    Ok(request.map(worth).is_some_and(|worth| worth < limit))
}

/// The transaction as listings show it. A fee that is not known yet is read later, off this path.
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
        block_time: head.timestamp(),
        succeeded: true,
        gone: false,
        failure: None,
    }
}

/// Confirms a deposit that has its confirmations: it counts from here on.
pub fn confirm(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    request: Option<&mut Request>,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let deposit = &stored.deposit;
    // A transfer in the block of its own sweep is found behind the walk. The next block asks again.
    if parties::are_sought(tx, deposit, context)? {
        return Ok(Vec::new());
    }
    deposits::set_state(tx, stored.id, deposit::step(stored.state, deposit::Event::Confirmed)?)?;
    // A blocked deposit is kept, not returned: a person decides what to do with it.
    if context.screening.blocks(deposit.parties()) {
        return refuse(tx, stored, None, FailReason::BlockedWallet, context);
    }
    let Some(request) = request else {
        let (parent, reason) = match going_back(tx, stored)? {
            Some((parent, reason)) => (requests::lock(tx, parent)?, reason),
            None => (None, FailReason::OrphanedDepositRefund),
        };
        return refuse(tx, stored, parent.as_ref(), reason, context);
    };
    let facts = Facts {
        chain: deposit.chain,
        currency: deposit.currency,
        amount: deposit.amount,
        payer: deposit.payer,
        sender: deposit.sender,
        swept: is_our_sweep(tx, request, deposit, context)?,
        relayed: is_relayed(tx, request, deposit, context)?,
        block_time: deposit.block_time,
    };
    let ahead = fast_fill::is_ahead(tx, request)?;
    let event = match deposit::judge(&request.quote, &facts)? {
        // The order is filled already: the deposit is never refunded. The slot is decided below.
        Verdict::Fill { .. } | Verdict::Refund { .. } if ahead => {
            Event::DepositAccepted { output: request.quote.figures.paid }
        }
        Verdict::Unrecognized { reason } if ahead && fast_fill::is_of_the_order(reason) => {
            Event::DepositAccepted { output: request.quote.figures.paid }
        }
        Verdict::Unrecognized { reason } => return refuse(tx, stored, Some(request), reason, context),
        // The quote demands a refund, to try out what a refund looks like.
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
    fast_fill::touch(tx, request.order_id, Moment::Landed, context)?;
    advance(tx, request, event, &Figures::of(deposit), context)
}

/// True if the deposit came in a call of ours to the factory of deposit addresses, and is what that sweep was decided
/// for. A stranger's calls run in fills of ours too, and may sweep or deposit whatever they like; and a reorg may put
/// our sweep before the payment that it was for, so that it brings a stranger's dust. Neither is our word that nothing
/// more is expected.
fn is_our_sweep(
    tx: &mut Tx<'_>,
    request: &Request,
    deposit: &Deposit,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some((handle, _)) = context.on(deposit.chain).filter(|_| request.quote.ask.options.is_strict()) else {
        return Ok(false);
    };
    let Some(factory) = handle.chain.deposit_address_factory else { return Ok(false) };
    if !handle.addresses().contains(&deposit.sender) {
        return Ok(false);
    }
    let is_sweep = |record: &Record| {
        record.direction == Direction::In
            && (record.chain, record.tx) == (deposit.chain, deposit.tx)
            && record.target == Some(factory)
    };
    let Some(record) = records::of_request(tx, request.id)?.into_iter().find(is_sweep) else { return Ok(false) };
    let Some(sweep) = calldata::trailing_id(&record.data) else { return Ok(false) };
    let expected = sweeps::expected(tx, SweepId(sweep), request.order_id)?;
    Ok(expected.is_some_and(|expected| deposit.amount >= expected))
}

/// True if a relayer of ours sent the deposit by this request's own relay. A stranger's calls run in relays too, and
/// may deposit under any order: the transaction has to be the one that was signed for.
fn is_relayed(
    tx: &mut Tx<'_>,
    request: &Request,
    deposit: &Deposit,
    context: &PayContext,
) -> Result<bool, SolverError> {
    match context.on(deposit.chain) {
        Some((handle, _)) if handle.is_relayer(deposit.sender) => {
            Ok(relays::brought(tx, request.id, (deposit.chain, deposit.tx), handle.chain.approval_proxy)?)
        }
        _ => Ok(false),
    }
}

/// The request under which a deposit goes back that was swept from an open address for no order, and why.
fn going_back(tx: &mut Tx<'_>, stored: &DepositRow) -> Result<Option<(RequestId, FailReason)>, SolverError> {
    match stored.deposit.order_id {
        Some(order) => Ok(sweeps::returned(tx, order)?),
        None => Ok(None),
    }
}

/// The reason why a quote that has expired is not filled any more.
fn ended(quote: &Quote, context: &PayContext) -> Option<FailReason> {
    deposit::fill_too_late(quote, context.chain_time(quote.terms.as_ref()?.payout.chain))
}

/// Refuses a deposit that pays for no order: it is returned once it is final. If it names one, it is a child request.
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

/// Makes the deposit the one that pays the order's input. A deposit that was tied before stays tied.
fn tie(tx: &mut Tx<'_>, id: DepositId, order: OrderId) -> Result<bool, SolverError> {
    if deposits::use_as_input(tx, id, order)? {
        return Ok(true);
    }
    Ok(deposits::of_order(tx, order)?.is_some_and(|tied| tied.id == id))
}

/// Undoes a deposit whose block a reorg took away.
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
    let worth = request
        .map_or(UsdMicros::default(), |request| request.quote.deposit_worth(&handle.chain, seen.currency, amount));
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
        block_time: head.timestamp(),
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

/// Inputs of the rules, kept with the event.
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
