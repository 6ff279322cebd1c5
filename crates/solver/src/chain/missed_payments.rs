//! Missed payments: unmined by our rows, and their nonce is used in a block that the walk has passed. The node that was
//! asked did not show the transaction, or the unit that applied it failed.
//!
//! All attempts of such a payment are looked up by their hashes, and the one that a majority of nodes shows is applied.
//! The rows and the chain keep what failed, so nothing is lost with a process; each payment is tried again at growing
//! intervals. Nodes that show none of the attempts may be behind, or may have pruned the transaction: only after
//! several looks, and once the nonce was used in a block that is final, is the nonce taken for somebody else's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use evm::{AgreedTx, At};
use metrics::counter;
use store::blocks::Cursor;
use store::payments::{PaymentId, PaymentRow};
use store::{Tx, blocks, lanes, payments};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::chain::apply_block::apply_late_payment;
use crate::chain::payment_events::quarantine;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::payments::send::attempt_hash;
use crate::solver::Solver;

/// Payments of a lane looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 16;
/// The most rounds between two tries of one payment.
const MAX_ROUNDS_APART: u32 = 256;

/// Looks in which none of a payment's attempts was shown, before its nonce is taken for somebody else's. They are at
/// growing intervals, so that a node that is briefly behind has caught up by the last of them.
const MIN_VAIN_LOOKS: u32 = 6;

/// The tries of one payment.
#[derive(Debug)]
struct Try {
    /// Rounds until it is tried again.
    left: u32,
    /// Rounds to the try after that.
    apart: u32,
    /// Looks that a majority answered, and in which no attempt was shown.
    vain: u32,
    /// The height by which its nonce was used, as first seen.
    used_by: u64,
}

#[derive(Debug, Default)]
struct Tries(BTreeMap<i64, Try>);

impl Tries {
    /// True if a payment is tried in this round; the next try is twice as far away as this one was. `walked` is the
    /// height at which its nonce is used.
    fn is_due(&mut self, id: PaymentId, walked: u64) -> bool {
        let tried = self.0.entry(id.0).or_insert(Try { left: 0, apart: 1, vain: 0, used_by: walked });
        if tried.left > 0 {
            tried.left -= 1;
            return false;
        }
        tried.left = tried.apart;
        tried.apart = tried.apart.saturating_mul(2).min(MAX_ROUNDS_APART);
        true
    }

    /// Notes that a majority of nodes shows none of the attempts. True if that is enough to take the nonce for somebody
    /// else's: it was said often, and the block that used the nonce is final.
    fn is_foreign(&mut self, id: PaymentId, walked: u64, finality: u64) -> bool {
        let Some(tried) = self.0.get_mut(&id.0) else { return false };
        tried.vain = tried.vain.saturating_add(1);
        tried.vain >= MIN_VAIN_LOOKS && walked >= tried.used_by.saturating_add(finality)
    }

    fn forget_all_but(&mut self, missed: &[PaymentId]) {
        self.0.retain(|id, _| missed.contains(&PaymentId(*id)));
    }
}

/// Looks for missed payments until told to stop.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let pause = (handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    counter!("causeway_payments_missed_total", "chain" => handle.id().to_string()).absolute(0);
    let mut tries = Tries::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if let Err(failure) = round(&solver, &handle, &mut tries).await {
            debug!(chain.id = %handle.id(), error = %Chained(&failure), "missed payments cannot be looked for now");
        }
    }
}

async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, tries: &mut Tries) -> Result<(), SolverError> {
    let mut missed = Vec::new();
    for wallet in handle.lanes.all().map(|wallet| wallet.address) {
        if handle.health.has_unmined(wallet) {
            missed.extend(look(solver, handle, wallet, tries).await?);
        }
    }
    tries.forget_all_but(&missed);
    Ok(())
}

/// Looks at one lane; the payments that are missed there.
async fn look(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    wallet: Address,
    tries: &mut Tries,
) -> Result<Vec<PaymentId>, SolverError> {
    let chain = handle.id();
    // Read together: the transactions of a block are applied before the cursor reaches it.
    let read = move |tx: &mut Tx<'_>| {
        let unmined = payments::unmined(tx, chain, wallet, MAX_ROWS_PER_ROUND)?;
        Ok::<_, SolverError>((blocks::cursor(tx, chain)?, unmined))
    };
    let (Some(cursor), unmined) = solver.store.read(read).await? else { return Ok(Vec::new()) };
    if unmined.is_empty() {
        return Ok(Vec::new());
    }
    let used = handle.nodes.quorum_nonce(majority(handle), wallet, At::Hash(cursor.hash)).await?;
    let mut missed = Vec::new();
    for stored in unmined.into_iter().filter(|stored| stored.payment.nonce < used) {
        missed.push(stored.id);
        if !tries.is_due(stored.id, cursor.number) {
            continue;
        }
        match find(solver, handle, &stored, cursor).await {
            Ok(Search::Found(found)) => {
                counter!("causeway_payments_missed_total", "chain" => chain.to_string()).increment(1);
                error!(chain.id = %chain, tx = %found.sent.hash, nonce = stored.payment.nonce, "a payment was mined and not applied: it is now");
                apply_late_payment(solver, handle, *found).await?;
            }
            Ok(Search::Later) => {}
            Ok(Search::NotShown) if tries.is_foreign(stored.id, cursor.number, handle.settings.finality) => {
                set_apart(solver, handle, &stored).await?;
            }
            Ok(Search::NotShown) => {
                warn!(chain.id = %chain, nonce = stored.payment.nonce, "a nonce was used, and no attempt of its payment is shown: looking again");
            }
            // Nodes that disagree about one payment do not hold up the others.
            Err(failure) => {
                warn!(chain.id = %chain, nonce = stored.payment.nonce, error = %Chained(&failure), "a missed payment cannot be looked up now");
            }
        }
    }
    Ok(missed)
}

enum Search {
    Found(Box<AgreedTx>),
    /// It is above the cursor now: the walk will meet it.
    Later,
    /// The nonce was used, and a majority of nodes shows none of the attempts.
    NotShown,
}

async fn find(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    stored: &PaymentRow,
    cursor: Cursor,
) -> Result<Search, SolverError> {
    let id = stored.id;
    for attempt in solver.store.read(move |tx| payments::attempts(tx, id)).await? {
        let hash = attempt_hash(handle, stored, attempt)?;
        match handle.nodes.quorum_tx(majority(handle), hash).await? {
            Some(found) if found.head.number <= cursor.number => return Ok(Search::Found(Box::new(found))),
            Some(_) => return Ok(Search::Later),
            None => {}
        }
    }
    Ok(Search::NotShown)
}

/// Nothing is concluded about the payment: its lane is left to a person.
async fn set_apart(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, stored: &PaymentRow) -> Result<(), SolverError> {
    let (chain, wallet, nonce) = (handle.id(), stored.payment.wallet, stored.payment.nonce);
    if handle.is_treasury_lane(wallet) {
        warn!(chain.id = %chain, nonce, "a nonce of the treasury was used by hand in a block that was not shown");
        return Ok(());
    }
    let handle = handle.clone();
    let unit = move |tx: &mut Tx<'_>| {
        let lane = lanes::all(tx, chain)?.into_iter().find(|lane| lane.wallet == wallet);
        if lane.is_some_and(|lane| lane.quarantined.is_some()) {
            return Ok(());
        }
        let why = format!("nonce {nonce} of this wallet was used, and by none of our attempts: find out by whom");
        quarantine(tx, &handle, wallet, &why)
    };
    solver.store.write(unit).await
}

fn majority(handle: &ChainHandle) -> usize {
    handle.nodes.len() / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_that_cannot_be_taken_in_is_tried_again_at_growing_intervals() {
        let mut tries = Tries::default();
        let id = PaymentId(1);
        let rounds: Vec<u32> = (0..1_000).filter(|_| tries.is_due(id, 7)).collect();
        assert_eq!(rounds[..5], [0, 2, 5, 10, 19]);
        let last: Vec<u32> = rounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(last.iter().all(|apart| *apart <= MAX_ROUNDS_APART + 1), "{last:?}");
        tries.forget_all_but(&[]);
        assert!(tries.is_due(id, 7), "one that is missed anew is looked at at once");
    }

    /// The rounds in which a nonce is taken for somebody else's, if no attempt is shown in any of them. A round takes
    /// four blocks.
    fn foreign(finality: u64, rounds: u32) -> Vec<u32> {
        let (mut tries, id) = (Tries::default(), PaymentId(1));
        let mut is_foreign = |round: &u32| {
            let walked = 1_000 + 4 * u64::from(*round);
            tries.is_due(id, walked) && tries.is_foreign(id, walked, finality)
        };
        (0..rounds).filter(|round| is_foreign(round)).collect()
    }

    #[test]
    fn a_nonce_is_not_taken_for_somebody_elses_by_a_node_that_is_behind() {
        // Looks are in rounds 0, 2, 5, 10, 19, 36, 69, 134, …
        assert_eq!(foreign(10, 100), [36, 69], "said often enough");
        assert_eq!(foreign(200, 100), [69], "and final");
        assert_eq!(foreign(1_000, 200), [0; 0], "not before");
        assert_eq!(foreign(0, 3), [0; 0], "nor at once where blocks are final at once");
    }

    #[test]
    fn looks_in_vain_are_forgotten_once_a_payment_is_missed_no_more() {
        let (mut tries, id) = (Tries::default(), PaymentId(1));
        for _ in 1..MIN_VAIN_LOOKS {
            tries.is_due(id, 1_000);
            assert!(!tries.is_foreign(id, 2_000, 10));
        }
        tries.forget_all_but(&[]);
        assert!(tries.is_due(id, 2_000) && !tries.is_foreign(id, 3_000, 10));
    }
}
