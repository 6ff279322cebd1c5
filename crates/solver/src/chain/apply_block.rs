//! A block's events: its deposits and payments, rows that ripen under it, and dues that may now be paid.
//!
//! Events commit together where they can. If that fails they commit one by one, and the one that fails by itself is set
//! aside with an error a person will see, so that it never stops its chain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use alloy::primitives::Address;
use domain::alarm::Alarm;
use domain::deposit::State as DepositState;
use domain::fail::FailReason;
use domain::ids::ChainId;
use domain::payment::State as PaymentState;
use domain::time::Timestamp;
use evm::{AgreedBlock, AgreedTx, Block, Head, SeenDeposit, SeenTreasuryTransfer, SentTx};
use metrics::{counter, gauge};
use store::deposits::DepositId;
use store::dues::Due;
use store::payments::PaymentRow;
use store::{Tx, blocks, deposits, dues, fast_fills, lanes, losses, payments, treasury_transfers};
use tracing::error;

use crate::chain::events::{BlockEvent, apply};
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::orders::same_chain;
use crate::payments::lane::committed;
use crate::payments::mined::uses_up_nonce;
use crate::solver::Solver;

/// Events that share a commit: small, so that the first fill of a big block leaves early.
const EVENTS_PER_COMMIT: usize = 16;
/// Rows looked up for one block. The rest have their turn at the next.
const MAX_ROWS_PER_BLOCK: i64 = 1_024;
/// Due rows that are tried even if no lane has room.
const MAX_RETRIES_WITHOUT_ROOM: i64 = 64;
/// Deposits considered for a return, per block.
const MAX_RETURNS_PER_BLOCK: i64 = 64;
/// Fills that wait for one halted or paused chain, considered per block.
const MAX_SWEPT_PER_BLOCK: i64 = 256;
/// Deposits confirmed per block: many, so that dust does not hold up the rest.
const MAX_CONFIRMED_PER_BLOCK: i64 = 4_096;

/// A number of blocks, for a gauge.
#[allow(clippy::cast_precision_loss, reason = "a gauge of blocks, not of money")]
pub fn lag(blocks: u64) -> f64 {
    blocks as f64
}

/// Applies a block. Applying it twice is harmless. True if the block has to be read again: its nodes do not agree yet
/// on an event, or on the block, and who showed it may have hidden an event that leaves no log.
pub async fn apply_block(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    agreed: &AgreedBlock,
) -> Result<bool, SolverError> {
    let head = agreed.block.head;
    let open = apply_events(solver, handle, agreed, |event| event).await?;
    // Confirmations and finality are counted in blocks that most nodes have.
    let unagreed = handle.health.walked(head.number, agreed.stands);
    gauge!("causeway_unagreed_blocks", "chain" => handle.id().to_string()).set(lag(unagreed));
    if agreed.stands {
        apply_ripe(solver, handle, head, Finals::All).await?;
    } else {
        // Whoever shows the block may be alone with it, and with its time.
        let now = u64::try_from(solver.now().secs()).unwrap_or_default();
        retry_due(solver, handle, Head { time: head.time.min(now), ..head }).await?;
    }
    publish_committed(solver, handle, head.number).await?;
    Ok(open || agreed.refuted || !agreed.stands)
}

/// Publishes the amounts on their way out, which quotes may not promise again, and the lanes that have unmined
/// payments.
pub(crate) async fn publish_committed(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    number: u64,
) -> Result<(), SolverError> {
    let of = handle.clone();
    let (committed, wallets) = solver.store.read(move |tx| committed(tx, &of, number)).await?;
    handle.health.commit(committed);
    handle.health.set_unmined(wallets);
    Ok(())
}

/// Applies transactions of our own, as the venue shows them.
pub(crate) async fn apply_sent(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    sent: Vec<SentTx>,
) -> Result<(), SolverError> {
    apply_all(solver, handle, head, sent.into_iter().map(BlockEvent::Mined).collect()).await
}

/// Applies the events of a doubtful block that the walk has passed, as far as its nodes agree by now. True if it is
/// still doubtful.
pub async fn apply_late_block(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    agreed: &AgreedBlock,
) -> Result<bool, SolverError> {
    apply_events(solver, handle, agreed, |event| BlockEvent::Late(Box::new(event))).await
}

async fn apply_events(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    agreed: &AgreedBlock,
    wrap: fn(BlockEvent) -> BlockEvent,
) -> Result<bool, SolverError> {
    let block = &agreed.block;
    // Before a deposit is told of: who pays again at once needs another allowance.
    handle.moved_money.note(movers(block), Instant::now());
    let deposits = block.deposits.iter().cloned().map(BlockEvent::Deposit);
    let unseconded = agreed.unseconded.iter().cloned().map(BlockEvent::Unseconded);
    apply_all(solver, handle, block.head, deposits.chain(unseconded).map(wrap).collect()).await?;
    if !block.deposits.is_empty() {
        counter!("causeway_deposits_seen_total", "chain" => handle.id().to_string())
            .increment(block.deposits.len() as u64);
        solver.crash("deposit.committed");
    }
    apply_all(solver, handle, block.head, block.sent.iter().cloned().map(BlockEvent::Mined).map(wrap).collect())
        .await?;
    if block.sent.iter().any(|sent| !sent.success) {
        handle.health.failed.notify_one();
    }
    if block.sent.iter().any(uses_up_nonce) {
        solver.crash("cancel.mined");
    }
    let (executed, open) = same_chain::find(solver, handle, block).await?;
    apply_all(solver, handle, block.head, executed.into_iter().map(BlockEvent::Executed).map(wrap).collect()).await?;
    let transfers = block.treasury_transfers.iter().cloned().map(BlockEvent::TreasuryTransfer);
    apply_all(solver, handle, block.head, transfers.map(wrap).collect()).await?;
    Ok(open || agreed.open)
}

/// Owners whose money a block has moved.
fn movers(block: &Block) -> impl Iterator<Item = Address> {
    let deposits = block.deposits.iter().flat_map(|seen| [seen.payer, seen.sender, seen.depositor]);
    deposits.chain(block.named.iter().map(|named| named.from))
}

/// The rows that become final when their block is deep enough.
#[derive(Clone, Debug)]
pub(crate) enum Finals {
    All,
    /// Deposits, and payments that failed, if they were read once more.
    Only {
        deposits: BTreeSet<i64>,
        voids: BTreeSet<i64>,
    },
}

impl Finals {
    fn admits(&self, id: DepositId) -> bool {
        match self {
            Self::All => true,
            Self::Only { deposits, .. } => deposits.contains(&id.0),
        }
    }

    fn admits_payment(&self, stored: &PaymentRow) -> bool {
        match self {
            Self::All => true,
            Self::Only { voids, .. } => stored.state != PaymentState::Reverted || voids.contains(&stored.id.0),
        }
    }
}

/// Applies what ripens under a block: confirmations, finality, dues, losses and returns.
pub(crate) async fn apply_ripe(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    finals: Finals,
) -> Result<(), SolverError> {
    let (chain, number) = (handle.id(), head.number);
    let (finality, window) = (handle.settings.finality, handle.settings.window);
    let halted: Vec<ChainId> = solver
        .chains
        .iter()
        .filter(|&(&other, there)| {
            other != chain && (solver.market.current(other).is_err() || there.health.paused().is_some())
        })
        .map(|(&other, _)| other)
        .collect();
    let (returned, transferred) = (handle.health.last_return(), handle.health.last_transfer());
    let lost_before = Timestamp::from_millis(solver.now().millis().saturating_sub(handle.settings.lost_after_millis));
    let (ripe, last, last_transfer) = solver
        .store
        .read(move |tx| {
            let (mut ripe, mut last_transfer) = (Vec::new(), None);
            let seen = deposits::to_confirm(tx, chain, number, MAX_CONFIRMED_PER_BLOCK)?;
            ripe.extend(seen.into_iter().map(|stored| BlockEvent::DepositConfirmed(stored.id)));
            if let Some(last) = number.checked_sub(finality) {
                let confirmed = deposits::ripe(tx, chain, DepositState::Confirmed, last, MAX_ROWS_PER_BLOCK)?;
                let deep = confirmed.into_iter().filter(|stored| finals.admits(stored.id));
                ripe.extend(deep.map(|stored| BlockEvent::DepositFinal(stored.id)));
                let mined = payments::ripe(tx, chain, last, MAX_ROWS_PER_BLOCK)?;
                let mined = mined.into_iter().filter(|stored| finals.admits_payment(stored));
                ripe.extend(mined.map(|stored| BlockEvent::PaymentFinal(stored.id)));
                if let Some(time) = blocks::time_of(tx, chain, last)? {
                    ripe.extend(losses::ripe(tx, chain, time, MAX_ROWS_PER_BLOCK)?.into_iter().map(BlockEvent::Loss));
                }
                let transfers = treasury_transfers::ripe(tx, chain, last, transferred, MAX_ROWS_PER_BLOCK)?;
                last_transfer = transfers.last().copied();
                ripe.extend(transfers.into_iter().map(BlockEvent::TreasuryTransferFinal));
            }
            let unpriced = fast_fills::unpriced(tx, chain, MAX_ROWS_PER_BLOCK)?;
            ripe.extend(unpriced.into_iter().map(BlockEvent::Unpriced));
            let failed = fast_fills::failed_on(tx, chain, MAX_ROWS_PER_BLOCK)?;
            ripe.extend(failed.into_iter().map(BlockEvent::FailedFastFill));
            ripe.extend(payable(tx, chain, window)?.into_iter().map(BlockEvent::Due));
            for &other in &halted {
                let waiting = dues::fills_from(tx, chain, other, MAX_SWEPT_PER_BLOCK)?;
                ripe.extend(waiting.into_iter().map(BlockEvent::WaitsForHalted));
            }
            ripe.extend(deposits::lost(tx, chain, lost_before, MAX_ROWS_PER_BLOCK)?.into_iter().map(BlockEvent::Lost));
            // Returns come last: nobody waits for them, and they must not displace events that somebody waits for.
            let returns = deposits::to_return(tx, chain, returned, MAX_RETURNS_PER_BLOCK)?;
            let last = returns.last().map(|stored| stored.id);
            ripe.extend(returns.into_iter().map(|stored| BlockEvent::Return(stored.id)));
            Ok::<_, SolverError>((ripe, last, last_transfer))
        })
        .await?;
    if let Some(last) = last {
        handle.health.set_last_return(last);
    }
    if let Some(last) = last_transfer {
        handle.health.set_last_transfer(last);
    }
    apply_all(solver, handle, head, ripe).await?;
    solver.past_prices.read_wanted(handle, solver.market.latest(chain).as_deref());
    Ok(())
}

/// Applies deposits that the walk was not shown. Their block is final by now, and their further events follow at the
/// next block, as for every other deposit.
pub async fn apply_late(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    deposits: Vec<SeenDeposit>,
) -> Result<(), SolverError> {
    apply_all(solver, handle, head, deposits.into_iter().map(BlockEvent::Deposit).collect()).await
}

/// The same for treasury transfers.
pub async fn apply_late_treasury_transfers(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    treasury_transfers: Vec<SeenTreasuryTransfer>,
) -> Result<(), SolverError> {
    apply_all(solver, handle, head, treasury_transfers.into_iter().map(BlockEvent::TreasuryTransfer).collect()).await
}

/// Applies a transaction of our own that the walk was not shown, or whose unit failed.
pub async fn apply_late_payment(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    found: AgreedTx,
) -> Result<(), SolverError> {
    apply_all(solver, handle, found.head, vec![BlockEvent::MissedPayment(found.sent)]).await
}

/// Tries the due rows without waiting for the next block.
pub async fn retry_due(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, head: Head) -> Result<(), SolverError> {
    let (chain, window) = (handle.id(), handle.settings.window);
    let due = solver.store.read(move |tx| payable(tx, chain, window)).await?;
    apply_all(solver, handle, head, due.into_iter().map(BlockEvent::Due).collect()).await
}

/// Due rows that may find a lane. If all lanes are full, only a few are tried, in turn: some may end without a payment.
fn payable(tx: &mut Tx<'_>, chain: ChainId, window: u64) -> Result<Vec<Due>, SolverError> {
    let room = i64::try_from(lanes::room(tx, chain, window)?).unwrap_or(MAX_ROWS_PER_BLOCK);
    Ok(dues::on(tx, chain, room.saturating_add(MAX_RETRIES_WITHOUT_ROOM).min(MAX_ROWS_PER_BLOCK))?)
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
                // The database is out of reach, which says nothing about the event: the chain waits for it.
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

/// Sets aside an event that cannot be processed, where a person will find it.
async fn set_aside(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    head: Head,
    event: &BlockEvent,
    failure: &SolverError,
) -> Result<(), SolverError> {
    error!(chain.id = %handle.id(), block = head.number, ?event, error = %Chained(failure), "set aside an event that cannot be processed");
    counter!("causeway_set_aside_total", "chain" => handle.id().to_string()).increment(1);
    let what = format!("an event of block {} could not be processed: {}", head.number, Chained(failure));
    handle.health.alarms.raise(Alarm::EventSetAside, what);
    let event = if let BlockEvent::Late(late) = event { &**late } else { event };
    let (BlockEvent::Deposit(seen) | BlockEvent::Unseconded(seen)) = event else { return Ok(()) };
    let (handle, seen, now) = (handle.clone(), seen.clone(), solver.now());
    let unit = move |tx: &mut Tx<'_>| {
        let row = crate::orders::deposits::as_row(&handle, head, &seen, None);
        if let Some(id) = deposits::insert(tx, &row, now)? {
            deposits::refuse(tx, id, FailReason::Unknown)?;
        }
        Ok(())
    };
    solver.store.write(unit).await
}
