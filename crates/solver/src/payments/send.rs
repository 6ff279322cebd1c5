//! Lane tasks: each signs and sends the payments committed for its wallet, and keeps sending until they are mined.
//!
//! A node's "accepted" proves nothing. Only a block does, and the walk reports it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{B256, Bytes, U256};
use domain::money::Amount;
use domain::payment::{self, State};
use domain::request::Event;
use evm::{Sent, SignedTx, TxFields};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use metrics::counter;
use store::payments::{Attempt, Fees, Payment, PaymentId, PaymentRow, Purpose};
use store::{Tx, payments, requests};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::lifecycle::transition;
use crate::payments::give_up::{self, Refused};
use crate::solver::Solver;

/// Payments of a lane that one pass looks at. The window is smaller.
const MAX_PAYMENTS_PER_PASS: i64 = 256;
/// Payments sent again at once.
const MAX_CONCURRENT_SENDS: usize = 16;
/// Attempts that a payment may get; each offers an eighth more than the last, so this is plenty.
const MAX_ATTEMPTS: u32 = 24;

/// The longest time between two passes that send in vain.
const MAX_IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Sends payments from the inbox at once, and looks after unmined ones at every block. Neither waits for the other: a
/// slow node must not hold up the next payment.
pub async fn run(
    solver: Arc<Solver>,
    handle: Arc<ChainHandle>,
    lane: usize,
    mut inbox: mpsc::Receiver<PaymentRow>,
    stop: CancellationToken,
) {
    let mut blocks = handle.health.taken.subscribe();
    let mut sending = FuturesUnordered::new();
    let mut looking = FuturesUnordered::new();
    let mut looked: Option<Instant> = None;
    let mut idle_passes = 0u32;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            payment = inbox.recv() => match payment {
                Some(payment) => sending.push(deliver(&solver, &handle, lane, payment)),
                None => return,
            },
            Some(()) = sending.next(), if !sending.is_empty() => {}
            Some(idle) = looking.next(), if !looking.is_empty() => idle_passes = if idle { idle_passes + 1 } else { 0 },
            changed = blocks.changed() => {
                if changed.is_err() {
                    return;
                }
                // One pass at a time, and old blocks that are being caught up with count as one.
                let recent = looked.is_some_and(|at| at.elapsed() < pass_interval(handle.block_time(), idle_passes));
                if looking.is_empty() && !recent {
                    looked = Some(Instant::now());
                    looking.push(look(&solver, &handle, lane));
                }
            }
        }
    }
}

/// The least time between two passes. It doubles with each idle one: while the walk catches up, its payments are mined
/// and not yet seen, and sending them again takes the nodes' time from the walk.
fn pass_interval(block_time: Duration, idle_passes: u32) -> Duration {
    let shortest = block_time / 2;
    shortest.saturating_mul(1 << idle_passes.min(16)).min(MAX_IDLE_INTERVAL.max(shortest))
}

/// True if the pass was idle: it sent, and every nonce is used already.
async fn look(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, lane: usize) -> bool {
    look_after(solver, handle, lane).await.unwrap_or_else(|error| {
        warn!(chain.id = %handle.id(), error = %Chained(&error), "a lane could not look after its payments");
        false
    })
}

async fn deliver(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, lane: usize, payment: PaymentRow) {
    if let Err(error) = send(solver, handle, lane, &payment).await {
        warn!(
            request.id = payment.payment.request.map(display), chain.id = %handle.id(), error = %Chained(&error),
            "a payment could not be sent, trying again later"
        );
    }
}

/// Signs and sends one payment to every node at once, then notes that it is out. True if its nonce is used already.
pub(crate) async fn send(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    lane: usize,
    stored: &PaymentRow,
) -> Result<bool, SolverError> {
    let signed = sign(handle, lane, stored)?;
    solver.crash("payment.signed");
    let sent = handle.nodes.send_raw(&signed.bytes, |_| solver.crash("payment.sent_one_node")).await;
    solver.crash("payment.sent");
    if sent.is_spent() {
        debug!(chain.id = %handle.id(), nonce = stored.payment.nonce, "the nonce of the payment is used");
        return Ok(true);
    }
    if !sent.is_held() {
        // A used nonce is no verdict: the walk finds the transaction that used it, or the search for missed payments.
        counter!("causeway_sends_refused_total", "chain" => handle.id().to_string()).increment(1);
        warn!(
            request.id = stored.payment.request.map(display), chain.id = %handle.id(), nonce = stored.payment.nonce,
            outcomes = ?sent.outcomes, "no node holds the payment yet"
        );
        if sent.is_refused() && stored.payment.purpose() == Purpose::Relay && !stored.cancelled {
            give_up_refused(solver, handle, lane, stored, &sent).await?;
        }
        return Ok(false);
    }
    if stored.payment.purpose() == Purpose::Fill && stored.state == State::Decided {
        handle.health.fill_time.took(solver.now().millis().saturating_sub(stored.created_at.millis()));
    }
    let (id, hash, context) = (stored.id, signed.hash, solver.context());
    solver
        .store
        .write(move |tx| {
            let Some(stored) = payments::find(tx, id)? else { return Ok(()) };
            note_sent(tx, &stored, hash, &context)
        })
        .await?;
    Ok(false)
}

/// Gives up a relay that the nodes refuse as it is, if its time has come: permits of others wait behind it.
async fn give_up_refused(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    lane: usize,
    stored: &PaymentRow,
    sent: &Sent,
) -> Result<(), SolverError> {
    let refused = Refused {
        for_good: sent.is_refused_for_good(),
        raw_call: give_up::is_raw_call(handle, &stored.payment),
        block_time: handle.block_time(),
        now: solver.now(),
    };
    let row = stored.clone();
    let unit = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(give_up::give_up_refused(tx, &row, refused)?);
    if stored.attempts >= 2 * MAX_ATTEMPTS || !solver.store.write(unit).await? {
        return Ok(());
    }
    if let Some(cancelled) = bump(solver, handle, stored, true).await? {
        // The next pass sends it again, and notes whether a node holds it.
        let signed = sign(handle, lane, &cancelled)?;
        handle.nodes.send_raw(&signed.bytes, |_| ()).await;
    }
    Ok(())
}

pub(super) fn note_sent(
    tx: &mut Tx<'_>,
    stored: &PaymentRow,
    hash: B256,
    context: &PayContext,
) -> Result<(), SolverError> {
    // The request is locked before its payment is touched, as everywhere.
    let request = requests::lock_about(tx, stored.payment.request)?;
    let state = payment::step(stored.state, payment::Event::Sent)?;
    if state != State::Sent {
        return Ok(());
    }
    payments::set_state(tx, stored.id, state, context.now)?;
    payments::set_hash(tx, stored.id, hash)?;
    if let (Purpose::Fill, Some(mut request)) = (stored.payment.purpose(), request) {
        let next = transition(tx, &mut request, Event::FillSent, &hash, context)?;
        if next.is_some_and(|next| next.due.is_some()) {
            return Err(SolverError::InvariantViolated("a fill that is sent makes another payment due"));
        }
    }
    Ok(())
}

fn sign(handle: &ChainHandle, lane: usize, stored: &PaymentRow) -> Result<SignedTx, SolverError> {
    let wallet = handle.lanes.wallet(lane).ok_or(SolverError::InvariantViolated("a lane without a wallet"))?;
    let payment = &stored.payment;
    if wallet.address != payment.wallet {
        return Err(SolverError::InvariantViolated("a payment in another wallet's lane"));
    }
    let key = wallet.key.as_ref().ok_or(SolverError::InvariantViolated("a lane without its key"))?;
    if stored.cancelled {
        return Ok(key.sign(&TxFields {
            chain: payment.chain,
            nonce: payment.nonce,
            to: payment.wallet,
            value: U256::ZERO,
            data: Bytes::new(),
            // Some chains count data into gas, so that even a transfer of nothing takes more than the usual 21,000.
            gas: handle.chain.fill_gas.native_limit,
            max_fee: stored.fees.max_fee.into(),
            max_priority_fee: stored.fees.max_tip.into(),
            authorizations: Vec::new(),
        }));
    }
    if handle.is_treasury_lane(wallet.address) && !is_refill(handle, payment) {
        return Err(SolverError::InvariantViolated("the treasury signs top-ups of our wallets, and nothing else"));
    }
    let read = |list: &Bytes| serde_json::from_slice::<Vec<evm::SignedAuthorization>>(list);
    let authorizations = stored.authorizations.as_ref().map(read).transpose();
    let authorizations =
        authorizations.map_err(|_| SolverError::InvariantViolated("authorizations that nobody can read"))?;
    Ok(key.sign(&TxFields {
        chain: payment.chain,
        nonce: payment.nonce,
        to: payment.target,
        value: payment.value.units(),
        data: payment.data.clone(),
        gas: payment.gas,
        max_fee: stored.fees.max_fee.into(),
        max_priority_fee: stored.fees.max_tip.into(),
        authorizations: authorizations.unwrap_or_default(),
    }))
}

/// True if a payment sends native currency to one of our own wallets, and no more than the wallet should have. The
/// treasury's key signs nothing else, whatever the database holds.
fn is_refill(handle: &ChainHandle, payment: &Payment) -> bool {
    let most = handle.settings.gas_levels.map_or(Amount::ZERO, |levels| levels.target);
    payment.purpose() == Purpose::Refill
        && handle.refilled_wallets().any(|wallet| wallet == payment.target)
        && payment.value <= most
}

/// Runs at every block: payments that should have been mined and were not are sent again, in order; the head is bumped
/// when it has waited too long. True if every nonce it sent is used already.
async fn look_after(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, lane: usize) -> Result<bool, SolverError> {
    let wallet = handle.lanes.wallet(lane).ok_or(SolverError::InvariantViolated("a lane without a wallet"))?.address;
    if !handle.health.has_unmined(wallet) {
        return Ok(false);
    }
    let chain = handle.id();
    let mut queue = solver.store.read(move |tx| payments::unmined(tx, chain, wallet, MAX_PAYMENTS_PER_PASS)).await?;
    let given_up = give_up_ending(solver, handle, &mut queue).await?;
    let Some(head) = queue.first() else { return Ok(false) };
    let waited = |stored: &PaymentRow| solver.now().millis().saturating_sub(stored.attempted_at.millis());
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    if waited(head) < millis(handle.block_time() * 2) {
        // No payment should have been mined yet. One that no node has taken is sent again, unless it was sent just now.
        let untaken =
            |stored: &PaymentRow| stored.state == State::Decided && waited(stored) >= millis(handle.block_time());
        queue.retain(|stored| given_up.contains(&stored.id) || untaken(stored));
        return send_again(solver, handle, lane, &queue).await;
    }
    let bump_after = millis(handle.settings.bump_after);
    let cancels = head.cancelled || give_up::is_untaken(handle, head, solver.now());
    let due = waited(head) >= bump_after || (cancels && !head.cancelled);
    // A cancellation has attempts of its own: the payment that is given up has used up its own.
    let most = if cancels { 2 * MAX_ATTEMPTS } else { MAX_ATTEMPTS };
    if due
        && head.attempts < most
        && let Some(bumped) = bump(solver, handle, head, cancels).await?
    {
        queue[0] = bumped;
    }
    send_again(solver, handle, lane, &queue).await
}

/// Sends payments again in the order of their nonces, a few at a time. True if there are some and all nonces are used.
async fn send_again(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    lane: usize,
    queue: &[PaymentRow],
) -> Result<bool, SolverError> {
    if queue.is_empty() {
        return Ok(false);
    }
    let chain = handle.id();
    debug!(chain.id = %chain, lane, count = queue.len(), "sending unmined payments again");
    counter!("causeway_resends_total", "chain" => chain.to_string()).increment(queue.len() as u64);
    let sends: Vec<_> = queue.iter().map(|stored| send(solver, handle, lane, stored)).collect();
    stream::iter(sends)
        .buffered(MAX_CONCURRENT_SENDS)
        .try_fold(true, |all, spent| std::future::ready(Ok(all && spent)))
        .await
}

/// Gives up the fills of a lane whose orders are about to end, and relays whose signatures are, wherever they stand in
/// it: one behind others may not have its turn in time.
pub(crate) async fn give_up_ending(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    queue: &mut [PaymentRow],
) -> Result<Vec<PaymentId>, SolverError> {
    let timed = |it: &PaymentRow| matches!(it.payment.purpose(), Purpose::Fill | Purpose::Relay) && !it.cancelled;
    let timed: Vec<PaymentRow> = queue.iter().filter(|it| timed(it)).cloned().collect();
    if timed.is_empty() {
        return Ok(Vec::new());
    }
    let (time, block_time) = (solver.context().chain_time(handle.id()), handle.block_time());
    let ending = solver.store.read(move |tx| give_up::ending(tx, &timed, time, block_time)).await?;
    let mut given_up = Vec::new();
    for stored in queue.iter_mut().filter(|stored| ending.contains(&stored.id) && stored.attempts < 2 * MAX_ATTEMPTS) {
        if let Some(cancelled) = bump(solver, handle, stored, true).await? {
            given_up.push(stored.id);
            *stored = cancelled;
        }
    }
    Ok(given_up)
}

/// The hash of one attempt of a payment. Signatures are deterministic: it is the hash under which the attempt was sent.
pub(crate) fn attempt_hash(handle: &ChainHandle, stored: &PaymentRow, attempt: Attempt) -> Result<B256, SolverError> {
    let lane = handle.lanes.all().position(|wallet| wallet.address == stored.payment.wallet);
    let lane = lane.ok_or(SolverError::InvariantViolated("a payment without a lane"))?;
    let stored = PaymentRow { fees: attempt.fees, cancelled: attempt.cancels, ..stored.clone() };
    Ok(sign(handle, lane, &stored)?.hash)
}

/// Bumps a payment, or cancels it. Nodes take a replacement only if both fees are an eighth above those they hold.
async fn bump(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    stored: &PaymentRow,
    cancels: bool,
) -> Result<Option<PaymentRow>, SolverError> {
    let more = |fee: u64| fee.saturating_add(fee / 8).saturating_add(1);
    let current = solver.market.latest(handle.id()).map_or(0, |snapshot| snapshot.max_fee());
    let max_fee = more(stored.fees.max_fee).max(u64::try_from(current).unwrap_or(u64::MAX));
    let cap = if cancels { handle.settings.max_fee_cap.saturating_mul(2) } else { handle.settings.max_fee_cap };
    if u128::from(max_fee) > cap {
        return Ok(None);
    }
    let fees = Fees { max_fee, max_tip: more(stored.fees.max_tip).min(max_fee) };
    let (id, ordinal, now) = (stored.id, stored.attempts + 1, solver.now());
    let written = solver
        .store
        .write(move |tx| {
            // A payment that was mined meanwhile, or bumped by an earlier run, gets no new offer.
            let current = payments::find(tx, id)?;
            let open = current.is_some_and(|stored| {
                matches!(stored.state, State::Decided | State::Sent) && stored.attempts + 1 == ordinal
            });
            if open {
                payments::attempt(tx, id, Attempt { ordinal, fees, cancels }, now)?;
            }
            Ok::<_, SolverError>(open)
        })
        .await?;
    if cancels && !stored.cancelled {
        warn!(request.id = stored.payment.request.map(display), chain.id = %handle.id(), nonce = stored.payment.nonce, "giving up a payment");
        counter!("causeway_cancels_total", "chain" => handle.id().to_string()).increment(1);
        solver.crash("cancel.committed");
    }
    solver.crash("bump.committed");
    counter!("causeway_bumps_total", "chain" => handle.id().to_string()).increment(1);
    Ok(written.then(|| PaymentRow { fees, attempts: ordinal, attempted_at: now, cancelled: cancels, ..stored.clone() }))
}

/// Default time before a bump: six blocks, and at least twelve seconds.
pub fn default_bump_after(block_time: Duration) -> Duration {
    (block_time * 6).max(Duration::from_secs(12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_send_in_vain_come_further_apart() {
        let (fast, slow) = (Duration::from_millis(200), Duration::from_secs(12));
        assert_eq!(pass_interval(fast, 0), Duration::from_millis(100));
        assert_eq!(pass_interval(fast, 3), Duration::from_millis(800));
        assert_eq!(pass_interval(fast, u32::MAX), MAX_IDLE_INTERVAL);
        assert_eq!(pass_interval(slow, u32::MAX), Duration::from_secs(6), "a slow chain is looked at once a block");
    }
}
