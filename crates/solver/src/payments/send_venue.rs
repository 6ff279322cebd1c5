//! The lane task of the venue's account: it sends committed transfers in the order of their nonces.
//!
//! The venue takes nonces in turn and each once, so the account's next nonce says what became of everything before it.
//! A pass looks it up first and sends only a transfer whose nonce is the next: one that was perhaps taken is never sent
//! on a guess. The walk reads what became of the others.

use std::sync::Arc;
use std::time::Duration;

use domain::deposit::fill_too_late;
use domain::payment::State;
use domain::request::State as RequestState;
use domain::venue::AccountIndex;
use metrics::counter;
use store::payments::{Attempt, PaymentRow, Purpose};
use store::refused_recipients::{self, Recipient};
use store::{Tx, payments, requests, venue_txs};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use venue::{Sent, VenueError};

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, key_of};
use crate::payments::send::note_sent;
use crate::solver::Solver;

/// Payments of the lane that one pass looks at. The window is smaller.
const MAX_PAYMENTS_PER_PASS: i64 = 64;
/// Attempts that a payment may get. Each lives ten minutes.
const MAX_ATTEMPTS: u32 = 1_024;
/// Time before its expiry at which an attempt that was not taken is replaced.
const RENEW_BEFORE_MILLIS: u64 = 60_000;
/// Time after which a payment that the venue does not take is given up.
const UNTAKEN_TIMEOUT: Duration = Duration::from_secs(300);

/// Sends when a payment is handed over, and looks again after every round of the walk.
pub async fn run(
    solver: Arc<Solver>,
    handle: Arc<ChainHandle>,
    mut inbox: mpsc::Receiver<PaymentRow>,
    stop: CancellationToken,
) {
    let Some(venue) = &handle.venue else { return };
    let mut rounds = handle.health.taken.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            payment = inbox.recv() => {
                if payment.is_none() {
                    return;
                }
                // One pass sends all that are there.
                while inbox.try_recv().is_ok() {}
            }
            changed = rounds.changed() => if changed.is_err() { return },
        }
        if let Err(error) = pass(&solver, &handle, venue).await {
            warn!(chain.id = %handle.id(), error = %Chained(&error), "the venue's lane could not look after its payments");
        }
    }
}

async fn pass(solver: &Arc<Solver>, handle: &ChainHandle, venue: &VenueChain) -> Result<(), SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    let queue = solver.store.read(move |tx| payments::unmined(tx, chain, wallet, MAX_PAYMENTS_PER_PASS)).await?;
    if queue.is_empty() {
        return Ok(());
    }
    // A payment that is out waits for the walk to find it; only one that is still to be sent may use what is left of
    // the quota to payments.
    let to_send = queue.iter().any(|stored| stored.state == State::Decided);
    let next = match to_send {
        true => venue.client.next_nonce_to_send(venue.account, venue.key_index).await?,
        false => venue.client.next_nonce(venue.account, venue.key_index).await?,
    };
    let mut next = next.get();
    for stored in queue {
        if stored.payment.nonce < next {
            // The venue has it, or something else in its place: the walk finds out.
            continue;
        }
        if stored.payment.nonce > next {
            warn!(chain.id = %chain, nonce = stored.payment.nonce, next, "a payment waits for a nonce that the venue does not know");
            return Ok(());
        }
        let ended = is_ended(solver, handle, &stored).await?;
        let Some(current) = renewed(solver, handle, venue, stored, ended).await? else { return Ok(()) };
        match send(solver, handle, venue, &current).await? {
            Outcome::Taken => {
                next = next.saturating_add(1);
                // The first transfer to an account tells what ours cost: without that, every one offers what users pay.
                if let Ok(to) = AccountIndex::unpacked(current.payment.target) {
                    let _ = solver.venue_accounts.read(venue, to, solver.now()).await;
                }
            }
            Outcome::Unknown => return Ok(()),
            Outcome::Refused => {
                let to = AccountIndex::unpacked(current.payment.target);
                if let Ok(to) = to {
                    solver.venue_accounts.learn_fee(venue, to, solver.now()).await;
                }
                // A transfer that the venue will not have must not hold up all behind it.
                if !current.cancelled && is_old(solver, &current) {
                    remember(solver, &current).await?;
                    renewed(solver, handle, venue, current, true).await?;
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The venue's word on a payment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    Refused,
    Unknown,
}

/// Sends one payment, and notes that it is out.
async fn send(
    solver: &Arc<Solver>,
    handle: &ChainHandle,
    venue: &VenueChain,
    stored: &PaymentRow,
) -> Result<Outcome, SolverError> {
    let signed = venue.sign(stored)?;
    let digest = signed.hash(venue.client.network());
    solver.crash("payment.signed");
    let sent = venue.client.send(&signed).await;
    solver.crash("payment.sent");
    match sent {
        Sent::Taken => {}
        Sent::Refused(error) => {
            counter!("causeway_sends_refused_total", "chain" => handle.id().to_string()).increment(1);
            warn!(request.id = stored.payment.request.map(display), nonce = stored.payment.nonce, %error, "the venue does not take a payment yet");
            let for_good = matches!(error, VenueError::Refused { .. }) && !error.is_invalid_nonce();
            return Ok(if for_good { Outcome::Refused } else { Outcome::Unknown });
        }
        Sent::Unknown(error) => {
            // It may have been taken. The next pass looks its nonce up before anything is sent.
            debug!(request.id = stored.payment.request.map(display), nonce = stored.payment.nonce, %error, "a payment may have been taken");
            return Ok(Outcome::Unknown);
        }
    }
    if stored.payment.purpose() == Purpose::Fill && stored.state == State::Decided {
        handle.health.fill_time.took(solver.now().millis().saturating_sub(stored.created_at.millis()));
    }
    let (id, context) = (stored.id, solver.context());
    let unit = move |tx: &mut Tx<'_>| {
        let Some(stored) = payments::find(tx, id)? else { return Ok(()) };
        venue_txs::note(tx, key_of(digest), &digest.to_string())?;
        note_sent(tx, &stored, key_of(digest), &context)
    };
    solver.store.write(unit).await?;
    Ok(Outcome::Taken)
}

/// The payment with an attempt that can be sent: the last one, or a new one under the same nonce where that is about to
/// expire, offers too little, or is given up. None if it cannot be sent now.
async fn renewed(
    solver: &Arc<Solver>,
    handle: &ChainHandle,
    venue: &VenueChain,
    stored: PaymentRow,
    gives_up: bool,
) -> Result<Option<PaymentRow>, SolverError> {
    let Some(snapshot) = solver.market.current(handle.id()).ok() else { return Ok(None) };
    let cancels = stored.cancelled || gives_up;
    let offer = venue.offer(snapshot.time);
    let ends = snapshot.time.saturating_mul(1_000).saturating_add(RENEW_BEFORE_MILLIS) >= stored.fees.max_tip;
    let cheap = stored.state == State::Decided && stored.fees.max_fee < offer.max_fee;
    if !ends && !cheap && cancels == stored.cancelled {
        return Ok(Some(stored));
    }
    // A payment waits where the venue asks for more than the operator allows, like one that is not made yet.
    if stored.attempts >= MAX_ATTEMPTS || u128::from(offer.max_fee) > handle.settings.max_fee_cap {
        return Ok(None);
    }
    let (id, ordinal, at) = (stored.id, stored.attempts + 1, solver.now());
    let unit = move |tx: &mut Tx<'_>| {
        let open = payments::find(tx, id)?.is_some_and(|current| {
            matches!(current.state, State::Decided | State::Sent) && current.attempts + 1 == ordinal
        });
        if open {
            payments::attempt(tx, id, Attempt { ordinal, fees: offer, cancels }, at)?;
        }
        Ok::<_, SolverError>(open)
    };
    let written = solver.store.write(unit).await?;
    if cancels && !stored.cancelled {
        warn!(
            request.id = stored.payment.request.map(display),
            nonce = stored.payment.nonce,
            "giving up a payment on the venue"
        );
        counter!("causeway_cancels_total", "chain" => handle.id().to_string()).increment(1);
        solver.crash("cancel.committed");
    }
    solver.crash("bump.committed");
    let renewed = PaymentRow { fees: offer, attempts: ordinal, attempted_at: at, cancelled: cancels, ..stored };
    Ok(written.then_some(renewed))
}

/// Notes a recipient whom the venue does not let us pay: the next fill to it would stand in everybody's way again.
async fn remember(solver: &Arc<Solver>, refused: &PaymentRow) -> Result<(), SolverError> {
    let payment = &refused.payment;
    if payment.purpose() != Purpose::Fill {
        return Ok(());
    }
    let recipient = Recipient { chain: payment.chain, currency: payment.currency, address: payment.recipient };
    let now = solver.now();
    solver.store.write(move |tx: &mut Tx<'_>| Ok(refused_recipients::note(tx, recipient, now)?)).await
}

/// True for a payment that was not taken for so long that it blocks its lane.
fn is_old(solver: &Solver, stored: &PaymentRow) -> bool {
    let age = solver.now().millis().saturating_sub(stored.created_at.millis());
    age > i64::try_from(UNTAKEN_TIMEOUT.as_millis()).unwrap_or(i64::MAX)
}

/// True for a fill whose order cannot be filled any more, by the venue's clock.
async fn is_ended(solver: &Arc<Solver>, handle: &ChainHandle, stored: &PaymentRow) -> Result<bool, SolverError> {
    let (Purpose::Fill, Some(id)) = (stored.payment.purpose(), stored.payment.request) else { return Ok(false) };
    let now = solver.context().chain_time(handle.id());
    let request = solver.store.read(move |tx| requests::find(tx, id)).await?;
    Ok(request.is_some_and(|request| {
        let open = matches!(request.state, RequestState::Pending | RequestState::Submitted);
        open && fill_too_late(&request.quote, now).is_some()
    }))
}
