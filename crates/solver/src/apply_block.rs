//! What a block gives occasion for: deposits in it, our payments in it, what ripens under it, what was due and may now
//! be paid.
//!
//! Occasions commit together where they can. If that fails they commit one by one, and the one that fails by itself is
//! set aside with an error a person will see, so that it never stops its chain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use domain::deposit::{self, State as DepositState};
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::payment::{self, State as PaymentState};
use domain::request::{Event, State as RequestState};
use domain::time::Timestamp;
use evm::{Block, Head, SeenDeposit, SeenTreasuryTransfer, SentTx};
use metrics::counter;
use serde::Serialize;
use store::deposits::{DepositId, ReturnDue};
use store::dues::Due;
use store::payments::{Mined, PaymentId, PaymentRow, Purpose};
use store::records::{Direction, Record};
use store::requests::Request;
use store::treasury_transfers::TreasuryTransferId;
use store::{
    Tx, blocks, deposits, dues, fast_fills, lanes, losses, payments, records, requests, risk, settlements,
    treasury_transfers,
};
use tracing::{error, warn};

use crate::advance::advance;
use crate::chain_handle::ChainHandle;
use crate::error::{Chained, SolverError};
use crate::excess;
use crate::follow::block_time;
use crate::payments::{Outcome, Reason, keep, pay};
use crate::same_chain::{self, SameChainTx};
use crate::solver::{PayContext, Solver};

/// Occasions that share a commit: small, so that the first fill of a big block leaves early.
const EVENTS_PER_COMMIT: usize = 16;
/// Rows looked up for one block. What is left has its turn at the next.
const MAX_ROWS_PER_BLOCK: i64 = 1_024;
/// Payments that are tried even if no lane has room.
const MAX_RETRIES_WITHOUT_ROOM: i64 = 64;
/// Deposits looked at for sending back, on one block.
const MAX_RETURNS_PER_BLOCK: i64 = 64;
/// Confirmed deposits taken up on one block at the most: many, so that dust does not hold up the rest.
const MAX_CONFIRMED_PER_BLOCK: i64 = 4_096;
/// How long a fill may wait for funds before the deposit goes back.
const WAIT_FOR_FUNDS_MILLIS: i64 = 120_000;

#[derive(Clone, Debug)]
enum BlockEvent {
    Deposit(SeenDeposit),
    Executed(SameChainTx),
    Mined(SentTx),
    DepositConfirmed(DepositId),
    DepositFinal(DepositId),
    Return(DepositId),
    PaymentFinal(PaymentId),
    Due(Due),
    /// The deposit of a request has stayed away.
    Lost(RequestId),
    /// The order was paid out, and its deposit has stayed away.
    Loss(OrderId),
    /// Something reached the treasury.
    TreasuryTransfer(SeenTreasuryTransfer),
    TreasuryTransferFinal(TreasuryTransferId),
}

/// Takes in a block. Doing it twice is harmless.
pub async fn apply_block(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, block: &Block) -> Result<(), SolverError> {
    let deposits = block.deposits.iter().cloned().map(BlockEvent::Deposit).collect();
    apply_all(solver, handle, block.head, deposits).await?;
    if !block.deposits.is_empty() {
        counter!("causeway_deposits_seen_total", "chain" => handle.id().to_string())
            .increment(block.deposits.len() as u64);
        solver.crash("deposit.committed");
    }
    apply_all(solver, handle, block.head, block.sent.iter().cloned().map(BlockEvent::Mined).collect()).await?;
    if block.sent.iter().any(|sent| !sent.success) {
        handle.failed.notify_one();
    }
    if block.sent.iter().any(uses_up_nonce) {
        solver.crash("cancel.mined");
    }
    let executed = same_chain::find(solver, handle, block).await?;
    apply_all(solver, handle, block.head, executed.into_iter().map(BlockEvent::Executed).collect()).await?;
    apply_all(
        solver,
        handle,
        block.head,
        block.treasury_transfers.iter().cloned().map(BlockEvent::TreasuryTransfer).collect(),
    )
    .await?;
    let (chain, number) = (handle.id(), block.head.number);
    let (finality, window) = (handle.settings.finality, handle.settings.window);
    let lost_before = Timestamp::from_millis(solver.now().millis().saturating_sub(handle.settings.lost_after_millis));
    let ripe = solver
        .store
        .read(move |tx| {
            let mut ripe = Vec::new();
            let seen = deposits::to_confirm(tx, chain, number, MAX_CONFIRMED_PER_BLOCK)?;
            ripe.extend(seen.into_iter().map(|stored| BlockEvent::DepositConfirmed(stored.id)));
            if let Some(last) = number.checked_sub(finality) {
                let confirmed = deposits::ripe(tx, chain, DepositState::Confirmed, last, MAX_ROWS_PER_BLOCK)?;
                ripe.extend(confirmed.into_iter().map(|stored| BlockEvent::DepositFinal(stored.id)));
                let mined = payments::ripe(tx, chain, last, MAX_ROWS_PER_BLOCK)?;
                ripe.extend(mined.into_iter().map(|stored| BlockEvent::PaymentFinal(stored.id)));
                if let Some(time) = blocks::time_of(tx, chain, last)? {
                    ripe.extend(losses::ripe(tx, chain, time, MAX_ROWS_PER_BLOCK)?.into_iter().map(BlockEvent::Loss));
                }
                ripe.extend(
                    treasury_transfers::ripe(tx, chain, last, MAX_ROWS_PER_BLOCK)?
                        .into_iter()
                        .map(BlockEvent::TreasuryTransferFinal),
                );
            }
            ripe.extend(payable(tx, chain, window)?.into_iter().map(BlockEvent::Due));
            ripe.extend(deposits::lost(tx, chain, lost_before, MAX_ROWS_PER_BLOCK)?.into_iter().map(BlockEvent::Lost));
            // Last: what nobody waits for must not take the place of what somebody does.
            ripe.extend(
                deposits::to_return(tx, chain, MAX_RETURNS_PER_BLOCK)?
                    .into_iter()
                    .map(|stored| BlockEvent::Return(stored.id)),
            );
            Ok::<_, SolverError>(ripe)
        })
        .await?;
    apply_all(solver, handle, block.head, ripe).await?;
    let of = handle.clone();
    let (committed, wallets) = solver.store.read(move |tx| committed(tx, &of, number)).await?;
    handle.commit(committed);
    handle.set_unmined(wallets);
    Ok(())
}

/// Takes in deposits that the walk was not shown. They are in a block that is final by now, and what follows from them
/// follows at the next block, as for every other.
pub async fn apply_late(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    deposits: Vec<SeenDeposit>,
) -> Result<(), SolverError> {
    apply_all(solver, handle, head, deposits.into_iter().map(BlockEvent::Deposit).collect()).await
}

/// The same for what reached the treasury.
pub async fn apply_late_treasury_transfers(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    treasury_transfers: Vec<SeenTreasuryTransfer>,
) -> Result<(), SolverError> {
    apply_all(solver, handle, head, treasury_transfers.into_iter().map(BlockEvent::TreasuryTransfer).collect()).await
}

/// Tries what is due without waiting for the next block.
pub async fn retry_due(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, head: Head) -> Result<(), SolverError> {
    let (chain, window) = (handle.id(), handle.settings.window);
    let due = solver.store.read(move |tx| payable(tx, chain, window)).await?;
    apply_all(solver, handle, head, due.into_iter().map(BlockEvent::Due).collect()).await
}

/// What is due and may find a lane. Where all are full only a few are tried, in turn: something else may have come of them.
fn payable(tx: &mut Tx<'_>, chain: ChainId, window: u64) -> Result<Vec<Due>, SolverError> {
    let room = i64::try_from(lanes::room(tx, chain, window)?).unwrap_or(MAX_ROWS_PER_BLOCK);
    Ok(dues::on(tx, chain, room.saturating_add(MAX_RETRIES_WITHOUT_ROOM).min(MAX_ROWS_PER_BLOCK))?)
}

/// By currency, and the wallets it goes out of.
type Committed = (BTreeMap<Address, Amount>, BTreeSet<Address>);

/// What quotes may not promise again: payments the block does not know of, and what is still due.
pub fn committed(tx: &mut Tx<'_>, handle: &ChainHandle, block: u64) -> Result<Committed, SolverError> {
    let mut sums: BTreeMap<Address, Amount> = BTreeMap::new();
    let chain = handle.id();
    let mut outstanding = payments::outstanding(tx, chain, block)?;
    let wallets = outstanding.iter().map(|payment| payment.wallet).collect();
    // What the treasury sends to our wallets is not promised to anybody.
    outstanding.retain(|payment| !handle.is_treasury_lane(payment.wallet));
    let tokens = outstanding.iter().filter(|payment| !payment.currency.is_zero());
    let tokens = tokens.map(|payment| (payment.currency, payment.amount));
    // Native currency also goes along with tokens.
    let native = outstanding.iter().map(|payment| (Address::ZERO, payment.value));
    for (currency, amount) in tokens.chain(native).chain(dues::amounts(tx, chain)?) {
        let sum = sums.entry(currency).or_default();
        *sum = sum.checked_add(amount)?;
    }
    Ok((sums, wallets))
}

async fn apply_all(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    events: Vec<BlockEvent>,
) -> Result<(), SolverError> {
    for chunk in events.chunks(EVENTS_PER_COMMIT) {
        let Err(failure) = commit(solver, handle, head, chunk.to_vec()).await else { continue };
        if failure.is_transient() {
            return Err(failure);
        }
        for event in chunk {
            match commit(solver, handle, head, vec![event.clone()]).await {
                Ok(()) => {}
                // The database is away, which says nothing about the occasion: the chain waits for it.
                Err(failure) if failure.is_transient() => return Err(failure),
                Err(failure) => set_aside(solver, handle, head, event, &failure).await?,
            }
        }
    }
    Ok(())
}

async fn commit(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    events: Vec<BlockEvent>,
) -> Result<(), SolverError> {
    let (handle, context) = (handle.clone(), solver.context());
    let unit = move |tx: &mut Tx<'_>| {
        let mut paid = Vec::new();
        for event in &events {
            paid.extend(apply(tx, &handle, head, event, &context)?);
        }
        Ok::<_, SolverError>(paid)
    };
    let paid = solver.store.write(unit).await?;
    solver.hand_over(paid);
    Ok(())
}

/// Keeps what cannot be processed where a person will find it.
async fn set_aside(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    event: &BlockEvent,
    failure: &SolverError,
) -> Result<(), SolverError> {
    error!(chain.id = %handle.id(), block = head.number, ?event, error = %Chained(failure), "set aside what cannot be processed");
    counter!("causeway_set_aside_total", "chain" => handle.id().to_string()).increment(1);
    let BlockEvent::Deposit(seen) = event else { return Ok(()) };
    let (handle, seen, now) = (handle.clone(), seen.clone(), solver.now());
    let unit = move |tx: &mut Tx<'_>| {
        let row = crate::deposits::as_row(&handle, head, &seen, None);
        if let Some(id) = deposits::insert(tx, &row, now)? {
            deposits::refuse(tx, id, FailReason::Unknown)?;
        }
        Ok(())
    };
    solver.store.write(unit).await
}

/// Rows are read again inside the unit: something may have happened to them since they were looked up.
fn apply(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    event: &BlockEvent,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    match event {
        BlockEvent::Deposit(seen) => crate::deposits::apply(tx, handle, head, seen, context),
        BlockEvent::Executed(done) => same_chain::apply(tx, head, handle, done, context),
        BlockEvent::Mined(sent) => mined(tx, handle, head, sent, context),
        BlockEvent::DepositConfirmed(id) => {
            let Some(stored) = deposits::get(tx, *id)?.filter(|stored| stored.state == DepositState::Seen) else {
                return Ok(Vec::new());
            };
            let mut request = match stored.deposit.order_id {
                Some(order) => requests::lock_order(tx, order)?,
                None => None,
            };
            crate::deposits::confirm(tx, &stored, request.as_mut(), context)
        }
        BlockEvent::DepositFinal(id) => {
            let Some(stored) = deposits::get(tx, *id)? else { return Ok(Vec::new()) };
            // Whoever makes the fill final meanwhile waits, and sees that the deposit is.
            if let Some(order) = stored.deposit.order_id {
                requests::lock_order(tx, order)?;
            }
            deposits::set_state(tx, *id, deposit::step(stored.state, deposit::Event::Finalised)?)?;
            // Only the deposit that pays for the order: anybody's dust becomes final too.
            if let Some(order) = stored.deposit.order_id
                && deposits::of_order(tx, order)?.is_some_and(|tied| tied.id == *id)
            {
                risk::release(tx, order)?;
                crate::sponsor::settle(tx, order, context)?;
                return excess::give_back(tx, order, context);
            }
            if stored.refused.is_some() {
                deposits::set_return_due(tx, *id, ReturnDue::Yes)?;
            }
            Ok(Vec::new())
        }
        BlockEvent::Return(id) => match deposits::get(tx, *id)? {
            Some(stored) => crate::deposits::return_to_depositor(tx, handle, &stored, context),
            None => Ok(Vec::new()),
        },
        BlockEvent::PaymentFinal(id) => match payments::find(tx, *id)? {
            Some(stored) => finalise(tx, &stored, context),
            None => Ok(Vec::new()),
        },
        BlockEvent::TreasuryTransfer(seen) => {
            crate::funding::apply(tx, handle, head, seen, context).map(|()| Vec::new())
        }
        BlockEvent::TreasuryTransferFinal(id) => crate::funding::credit(tx, handle, *id, context).map(|()| Vec::new()),
        BlockEvent::Due(due) => retry(tx, head, due, context),
        BlockEvent::Lost(id) => match requests::lock(tx, *id)? {
            // Filled ahead of its deposit, it has another reason to wait.
            Some(request) if fast_fills::of_order(tx, request.order_id)?.is_some() => Ok(Vec::new()),
            Some(mut request) if deposits::of_order(tx, request.order_id)?.is_none() => {
                advance(tx, &mut request, Event::DepositLost, &(), context)
            }
            Some(_) | None => Ok(Vec::new()),
        },
        BlockEvent::Loss(order) => {
            crate::losses::book(tx, *order, context)?;
            Ok(Vec::new())
        }
    }
}

/// A transaction of one of our wallets is in a block: ours, or somebody else holds the key.
fn mined(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    sent: &SentTx,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let chain = handle.id();
    let Some(stored) = payments::at_nonce(tx, chain, sent.from, sent.nonce)? else {
        if handle.is_treasury_lane(sent.from) {
            // Ours go behind what is sent by hand.
            lanes::raise_nonce(tx, chain, sent.from, sent.nonce.saturating_add(1))?;
            return Ok(Vec::new());
        }
        // Below the next nonce it is one that `recover` has accounted for.
        let lane = lanes::all(tx, chain)?.into_iter().find(|lane| lane.wallet == sent.from);
        if lane.is_some_and(|lane| sent.nonce >= lane.next_nonce) {
            foreign(tx, handle, sent)?;
        }
        return Ok(Vec::new());
    };
    let request = requests::lock(tx, stored.payment.request)?;
    let ours = is_attempt(&stored, sent);
    if !ours && !handle.is_treasury_lane(sent.from) {
        foreign(tx, handle, sent)?;
    }
    // A token that returns `false` leaves a successful receipt and moves nothing. Anything that did move was paid: a
    // payment that arrived short is for a person to look at, never a reason to pay again.
    let (currency, owed) = owed(&stored, request.as_ref());
    let arrived = sent.paid(currency, stored.payment.recipient, handle.chain.router);
    // Only a bare transfer of a token can succeed without paying: everything else we send reverts unless all of it
    // happened. What left no trace was paid all the same, and must not be paid again.
    let bare = stored.payment.target == stored.payment.currency;
    let cancelled = is_cancel(&stored, sent);
    let paid = ours && !cancelled && sent.success && (!bare || !arrived.is_zero());
    if paid && arrived < owed.units() {
        error!(chain.id = %chain, tx = %sent.hash, %arrived, %owed, "a payment arrived short: does the token take a fee?");
    }
    let event = if paid { payment::Event::Mined } else { payment::Event::Reverted };
    let state = payment::step(stored.state, event)?;
    payments::set_state(tx, stored.id, state, context.now)?;
    payments::set_mined(tx, stored.id, Some(mined_in(head, sent, ours)))?;
    if ours
        && !cancelled
        && let Some(request) = &request
    {
        records::put(tx, &sent_record(handle, head, sent, request.id, paid))?;
    }
    if state != PaymentState::Mined {
        warn!(chain.id = %chain, tx = %sent.hash, "a payment failed; it is void once its block is final");
        return Ok(Vec::new());
    }
    let Some(mut request) = request else { return Ok(Vec::new()) };
    let event = match stored.payment.purpose {
        Purpose::Fill => Event::FillMined,
        Purpose::Refund => Event::RefundMined,
        // Of a deposit that has become a request of its own.
        Purpose::Return | Purpose::Payout if request.state == RequestState::Refunding => Event::RefundMined,
        Purpose::Return | Purpose::Claim | Purpose::Refill | Purpose::Payout => return Ok(Vec::new()),
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
        crate::fast_fill::filled(tx, &request, context)?;
    }
    Ok(paid)
}

/// Where a nonce of ours was used. A stranger's fee is not kept: it would come off the refund of whoever was to be paid.
pub fn mined_in(head: Head, sent: &SentTx, ours: bool) -> Mined {
    let fee = ours.then(|| Amount::new(sent.fee));
    Mined { tx: sent.hash, block_number: head.number, block_hash: head.hash, fee }
}

/// A transaction of ours as listings show it. One that moved nothing failed, whatever its receipt says.
pub(crate) fn sent_record(
    handle: &ChainHandle,
    head: Head,
    sent: &SentTx,
    request: RequestId,
    succeeded: bool,
) -> Record {
    Record {
        request,
        direction: Direction::Out,
        chain: handle.id(),
        tx: sent.hash,
        sender: sent.from,
        target: sent.to,
        value: Amount::new(sent.value),
        data: sent.input.clone(),
        fee: Some(Amount::new(sent.fee)),
        block_number: head.number,
        block_hash: head.hash,
        block_time: block_time(head),
        succeeded,
        gone: false,
        failure: None,
    }
}

/// What a payment must bring its recipient: what it spends or, where that is traded on the way, what it is traded for.
fn owed(stored: &PaymentRow, request: Option<&Request>) -> (Address, Amount) {
    let payment = &stored.payment;
    let traded = request.filter(|_| payment.purpose == Purpose::Fill).map(|request| &request.quote);
    match traded.filter(|quote| quote.destination_swap.is_some()) {
        Some(quote) => (quote.ask.destination.address.evm().unwrap_or_default(), quote.figures.minimum),
        None => (payment.currency, payment.amount),
    }
}

/// Same nonce and same contents: one of our attempts, whatever fees it was mined with.
pub(crate) fn is_attempt(stored: &PaymentRow, sent: &SentTx) -> bool {
    let PaymentRow { payment, .. } = stored;
    let contents = (Some(payment.target), payment.value.units(), &payment.data);
    contents == (sent.to, sent.value, &sent.input) as (Option<Address>, U256, &Bytes) || is_cancel(stored, sent)
}

/// The transfer of nothing to itself that uses up the nonce of a payment that was given up.
fn is_cancel(stored: &PaymentRow, sent: &SentTx) -> bool {
    stored.cancelled && uses_up_nonce(sent)
}

fn uses_up_nonce(sent: &SentTx) -> bool {
    sent.to == Some(sent.from) && sent.value.is_zero() && sent.input.is_empty()
}

fn foreign(tx: &mut Tx<'_>, handle: &ChainHandle, sent: &SentTx) -> Result<(), SolverError> {
    let why = format!(
        "transaction {} used nonce {} of this wallet and is not ours: another process has its key",
        sent.hash, sent.nonce
    );
    error!(chain.id = %handle.id(), wallet = %sent.from, "{why}");
    counter!("causeway_lanes_quarantined_total", "chain" => handle.id().to_string()).increment(1);
    lanes::quarantine(tx, handle.id(), sent.from, Some(&why))?;
    Ok(())
}

/// The block of a payment is final: it stands, or it is void by proof and its order is free.
fn finalise(tx: &mut Tx<'_>, stored: &PaymentRow, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    let mut request = requests::lock(tx, stored.payment.request)?;
    let state = payment::step(stored.state, payment::Event::Finalised)?;
    payments::set_state(tx, stored.id, state, context.now)?;
    if state != PaymentState::Void {
        return match stored.payment.purpose {
            Purpose::Fill => {
                crate::sponsor::settle(tx, stored.payment.order, context)?;
                excess::give_back(tx, stored.payment.order, context)
            }
            Purpose::Claim => crate::claims::ended(tx, stored, state, context),
            Purpose::Refund | Purpose::Return | Purpose::Excess | Purpose::Refill | Purpose::Payout => Ok(Vec::new()),
        };
    }
    settlements::free(tx, stored.payment.order, stored.id)?;
    risk::release(tx, stored.payment.order)?;
    let event = match stored.payment.purpose {
        Purpose::Fill if was_ahead(tx, request.as_ref())? => Event::FastFillVoid,
        Purpose::Fill if stored.cancelled => Event::FillVoid { reason: FailReason::TransactionNotIncluded },
        Purpose::Fill => Event::FillVoid { reason: crate::reverts::reason(tx, stored, request.as_ref())? },
        Purpose::Refund => Event::RefundVoid,
        Purpose::Claim => return crate::claims::ended(tx, stored, state, context),
        // The allocator finds out by itself, from the depository's nonces.
        Purpose::Payout => return Ok(Vec::new()),
        // Whoever asked asks again.
        Purpose::Refill => return Ok(Vec::new()),
        Purpose::Return => {
            crate::deposits::return_again(tx, &stored.payment)?;
            return Ok(Vec::new());
        }
        Purpose::Excess => {
            return match request {
                Some(request) => excess::give_back(tx, request.order_id, context),
                None => Ok(Vec::new()),
            };
        }
    };
    let Some(request) = request.as_mut() else { return Ok(Vec::new()) };
    let paid = advance(tx, request, event, &(), context)?;
    let owed = dues::find(tx, stored.payment.purpose, stored.payment.subject)?.is_some();
    crate::losses::forget(tx, stored.payment.order, owed)?;
    Ok(paid)
}

/// Whether the fill was made ahead of a deposit that is still to come. A recipient that was paid once is owed it again
/// whatever became of the deposit.
fn was_ahead(tx: &mut Tx<'_>, request: Option<&Request>) -> Result<bool, SolverError> {
    let Some(request) = request.filter(|request| request.state != RequestState::Success) else { return Ok(false) };
    let empty = deposits::of_order(tx, request.order_id)?.is_none();
    Ok(empty && fast_fills::of_order(tx, request.order_id)?.is_some())
}

/// Tries again what could not be paid, or gives up on it where the order's time or our funds have run out.
fn retry(tx: &mut Tx<'_>, head: Head, due: &Due, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    let mut request = requests::lock(tx, due.request)?;
    let Some(due) = dues::find(tx, due.purpose, due.subject)? else { return Ok(Vec::new()) };
    let open = request.as_ref().is_some_and(|request| !request.state.is_terminal());
    if let (Purpose::Fill, true, Some(request)) = (due.purpose, open, &mut request)
        && let Some(reason) = deposit::fill_too_late(&request.quote, block_time(head))
    {
        return advance(tx, request, Event::CannotFill { reason }, &(), context);
    }
    match (pay(tx, &due, request.as_ref().map(|request| &request.quote), context)?, &mut request) {
        (Outcome::Paid(payment), _) => Ok(vec![*payment]),
        (Outcome::NotNow(Reason::Inventory), Some(request))
            if due.purpose == Purpose::Fill && open && waited(&due, context) =>
        {
            let reason = FailReason::SolverBalanceTooLow;
            advance(tx, request, Event::CannotFill { reason }, &(), context)
        }
        (Outcome::NotNow(reason), _) => {
            keep(tx, &due, &reason, context)?;
            if reason == Reason::NeedsPerson && !dues::is_left_to_depository(tx, due.purpose, due.subject)? {
                error!(chain.id = %due.chain, request.id = %due.request, "a payment failed twice and waits for a person");
                dues::park(tx, due.purpose, due.subject)?;
            }
            Ok(Vec::new())
        }
        (Outcome::Worthless(_), _) if due.purpose == Purpose::Excess => {
            dues::remove(tx, due.purpose, due.subject)?;
            Ok(Vec::new())
        }
        (Outcome::CannotFill(reason), Some(request)) => {
            advance(tx, request, Event::CannotFill { reason }, &(), context)
        }
        (Outcome::Worthless(reason), Some(request)) => {
            advance(tx, request, Event::RefundImpossible { reason }, &(), context)
        }
        (Outcome::Settled, _) | (Outcome::Worthless(_) | Outcome::CannotFill(_), None) => {
            dues::remove(tx, due.purpose, due.subject)?;
            Ok(Vec::new())
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_transaction_costs_the_payment_its_fee() {
        let head = Head { number: 7, hash: B256::repeat_byte(7), parent_hash: B256::ZERO, time: 0, base_fee: 0 };
        let sent = SentTx {
            from: Address::repeat_byte(0xcc),
            nonce: 3,
            hash: B256::repeat_byte(1),
            index: 0,
            to: None,
            value: U256::ZERO,
            input: Bytes::new(),
            success: true,
            gas_used: 21_000,
            effective_gas_price: 10,
            fee: U256::from(210_000),
            logs: Vec::new(),
        };
        assert_eq!(mined_in(head, &sent, true).fee, Some(Amount::new(sent.fee)));
        let foreign = mined_in(head, &sent, false);
        assert_eq!((foreign.tx, foreign.block_number, foreign.fee), (sent.hash, 7, None));
    }
}
