//! Payments on the venue that failed, once more: each is judged again by all of its attempts before it is void.
//!
//! A payment that is void is made again, or its deposit goes back. The venue's word that it failed is an hour old by
//! then, and a restored database may not have known the attempt that was executed.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::alarm::Alarm;
use domain::payment::{self, State};
use domain::venue::TxStatus;
use evm::Head;
use market::Snapshot;
use metrics::counter;
use store::payments::{Attempt, PaymentRow};
use store::{Tx, payments, venue_txs};
use tracing::{debug, error};
use venue::{Digest, VenueError};

use crate::chain::venue_payments::{Found, judge, settled};
use crate::chain::void_cap::{self, VoidCap};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::VenueChain;
use crate::solver::Solver;

/// Failed payments looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 1_024;
/// Failed payments judged in one round: reading shares the quota with the walk.
const MAX_READS_PER_ROUND: usize = 8;

/// A failed payment as the venue shows it when it is to be void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Void,
    /// An attempt was executed after all.
    Paid,
    /// An attempt may still be executed.
    Open,
    /// The venue no longer shows that it failed.
    Doubtful,
}

/// The failed payments that may become void now.
pub(super) async fn verified(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    head: Head,
) -> Result<BTreeSet<i64>, SolverError> {
    let (chain, mut void) = (handle.id(), BTreeSet::new());
    let Some(last) = head.number.checked_sub(handle.settings.finality) else { return Ok(void) };
    let read = move |tx: &mut Tx<'_>| {
        let mut failed = Vec::new();
        for stored in payments::ripe(tx, chain, last, MAX_ROWS_PER_ROUND)? {
            if stored.state == State::Reverted {
                let attempts = payments::attempts(tx, stored.id)?;
                let name = match payments::tx_of(tx, stored.id)? {
                    Some(key) => venue_txs::digest(tx, key)?.and_then(|text| text.parse::<Digest>().ok()),
                    None => None,
                };
                failed.push((stored, attempts, name));
            }
        }
        Ok::<_, SolverError>(failed)
    };
    let failed = solver.store.read(read).await?;
    let due = failed.into_iter().filter(|(stored, ..)| venue.doubtful_voids.is_due(stored.id.0, head.time));
    let due: Vec<_> = due.take(MAX_READS_PER_ROUND).collect();
    if due.is_empty() {
        return Ok(void);
    }
    let snapshot = solver.market.latest(chain);
    let mut cap = read_cap(solver, handle, snapshot.clone()).await?;
    for (stored, attempts, name) in due {
        let verdict = match verdict(venue, &stored, &attempts, name, head).await {
            Ok(verdict) => verdict,
            // It says something that cannot be read.
            Err(SolverError::Venue(VenueError::Invalid(_) | VenueError::Json(_) | VenueError::TooLarge(_))) => {
                Verdict::Doubtful
            }
            Err(SolverError::Venue(error)) => {
                // Its history may be longer than the quota: the next round begins with the others.
                debug!(%error, "failed payments on the venue wait to be read once more");
                venue.doubtful_voids.put_off(stored.id.0, head.time);
                return Ok(void);
            }
            Err(error) => return Err(error),
        };
        let worth = || void_cap::worth(snapshot.as_deref(), stored.payment.currency, stored.payment.amount);
        match verdict {
            Verdict::Void if !cap.take(worth()) => wait(handle, venue, &stored, head),
            Verdict::Void => {
                venue.doubtful_voids.ended(stored.id.0);
                void.insert(stored.id.0);
            }
            Verdict::Paid => paid_after_all(solver, handle, &stored).await?,
            Verdict::Open => venue.doubtful_voids.put_off(stored.id.0, head.time),
            Verdict::Doubtful => doubt(handle, venue, &stored, head),
        }
    }
    Ok(void)
}

/// The rest of the cap on this hour's void payments: that of the chain's risk.
async fn read_cap(
    solver: &Solver,
    handle: &ChainHandle,
    snapshot: Option<Arc<Snapshot>>,
) -> Result<VoidCap, SolverError> {
    let (chain, cap, now) = (handle.id(), handle.settings.risk.open, solver.now());
    let worth = move |currency, amount| void_cap::worth(snapshot.as_deref(), currency, amount);
    solver.store.read(move |tx| VoidCap::read(tx, chain, cap, now, &worth)).await
}

async fn verdict(
    venue: &VenueChain,
    stored: &PaymentRow,
    attempts: &[Attempt],
    name: Option<Digest>,
    head: Head,
) -> Result<Verdict, SolverError> {
    let found = judge(venue, stored, attempts, head).await?;
    // A payment that `recover` imported is known by its transaction, and not by an attempt.
    if let (Found::Nothing, Some(name)) = (&found, name)
        && let Some(tx) = venue.client.transaction(name).await?
        && let Some(tx) = settled(&venue.client, tx).await?
    {
        return Ok(verdict_on(&Found::Ended { tx: Box::new(tx), cancels: false }));
    }
    Ok(verdict_on(&found))
}

fn verdict_on(found: &Found) -> Verdict {
    match found {
        // A cancellation that was executed pays nobody.
        Found::Ended { tx, cancels: false } if tx.status == TxStatus::Executed => Verdict::Paid,
        Found::Ended { .. } | Found::Rejected { .. } => Verdict::Void,
        Found::Open => Verdict::Open,
        Found::Nothing => Verdict::Doubtful,
    }
}

/// Takes the failure of a payment back: the walk finds its transaction as that of every other payment on its way.
async fn paid_after_all(solver: &Arc<Solver>, handle: &ChainHandle, stored: &PaymentRow) -> Result<(), SolverError> {
    let (id, now) = (stored.id, solver.now());
    let what =
        format!("the venue showed payment {} as failed, and shows it as executed now: it is not made again", id.0);
    error!(chain.id = %handle.id(), request.id = stored.payment.request.map(display), "{what}");
    handle.health.alarms.raise(Alarm::FinalBlockDiffers, what);
    let unit = move |tx: &mut Tx<'_>| {
        let Some(stored) = payments::find(tx, id)?.filter(|stored| stored.state == State::Reverted) else {
            return Ok(());
        };
        payments::set_state(tx, id, payment::step(stored.state, payment::Event::Unmined)?, now)?;
        payments::set_mined(tx, id, None)?;
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await
}

/// Leaves a payment as it is that would be void beyond the cap.
fn wait(handle: &ChainHandle, venue: &VenueChain, stored: &PaymentRow, head: Head) {
    venue.doubtful_voids.put_off(stored.id.0, head.time);
    counter!("causeway_voids_capped_total", "chain" => handle.id().to_string()).increment(1);
    let what = format!(
        "payment {} failed by the venue's word, and more than the cap has failed within an hour: it is neither void nor made \
         again for now",
        stored.id.0
    );
    handle.health.alarms.raise(Alarm::VoidsCapped, what);
}

fn doubt(handle: &ChainHandle, venue: &VenueChain, stored: &PaymentRow, head: Head) {
    if venue.doubtful_voids.begun(stored.id.0, head.time) {
        counter!("causeway_voids_doubtful_total", "chain" => handle.id().to_string()).increment(1);
    }
    let what =
        format!("the venue no longer shows that payment {} failed: it is neither void nor made again", stored.id.0);
    handle.health.alarms.raise(Alarm::FinalBlockDiffers, what);
}

#[cfg(test)]
mod tests {
    use venue::VenueTx;

    use super::*;

    #[test]
    fn a_payment_is_void_only_while_the_venue_shows_that_nobody_was_paid() {
        let ended = |status, cancels| {
            let hash = "1".repeat(80).parse().unwrap();
            Found::Ended { tx: Box::new(VenueTx { hash, status, queued_at: 1, transfer: None }), cancels }
        };
        let Found::Ended { tx, cancels } = ended(TxStatus::Rejected, false) else { unreachable!("it has ended") };
        for (found, verdict) in [
            (ended(TxStatus::Failed, false), Verdict::Void),
            (Found::Rejected { tx, cancels }, Verdict::Void),
            (ended(TxStatus::Executed, true), Verdict::Void),
            (ended(TxStatus::Executed, false), Verdict::Paid),
            (Found::Open, Verdict::Open),
            (Found::Nothing, Verdict::Doubtful),
        ] {
            assert_eq!(verdict_on(&found), verdict, "{found:?}");
        }
    }
}
