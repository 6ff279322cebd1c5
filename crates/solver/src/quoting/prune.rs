//! Pruning of quotes nobody acted on, and of answers kept long enough.

use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use store::{StoreError, contracts, idempotency, refused_recipients, requests};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::context::refused_recipients::refused_since;
use crate::error::Chained;
use crate::solver::Solver;

/// Time for which known contracts are kept: longer than the life of any quote.
const CONTRACTS_KEPT_MILLIS: i64 = 200 * 86_400_000;

/// Largest lead of our clock over the newest block that is believed.
const AHEAD_OF_CHAINS: Duration = Duration::from_secs(3_600);

/// Time for which an answer is kept under its caller's idempotency key.
const ANSWERS_KEPT_MILLIS: i64 = 24 * 3_600_000;

/// Deletes quotes nobody acted on, and answers kept long enough, in small batches, for as long as the service runs.
pub async fn run(solver: Arc<Solver>, stop: CancellationToken) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let now = solver.now();
        // A promise is kept until the chains say that it has ended, however far ahead our own clock is.
        let expired = chain_time(&solver).plus(AHEAD_OF_CHAINS).min(now);
        let forgotten = Timestamp::from_millis(now.millis().saturating_sub(CONTRACTS_KEPT_MILLIS));
        let kept_since = Timestamp::from_millis(now.millis().saturating_sub(ANSWERS_KEPT_MILLIS));
        let unit = move |tx: &mut store::Tx<'_>| {
            contracts::prune(tx, forgotten)?;
            refused_recipients::prune(tx, refused_since(now))?;
            let more = idempotency::prune(tx, kept_since)?;
            Ok::<_, StoreError>(requests::prune_quotes(tx, expired)? || more)
        };
        pause = match solver.store.write(unit).await {
            Ok(true) => Duration::from_millis(50),
            Ok(false) => Duration::from_secs(60),
            Err(error) => {
                warn!(error = %Chained(&error), "old quotes could not be deleted");
                Duration::from_secs(60)
            }
        };
    }
}

/// The time of the newest block of all chains; long ago where none is known.
fn chain_time(solver: &Solver) -> Timestamp {
    let times = solver.chains.keys().filter_map(|chain| solver.market.latest(*chain));
    let newest = times.filter_map(|snapshot| i64::try_from(snapshot.time).ok()).max();
    Timestamp::from_secs(newest.unwrap_or_default())
}
