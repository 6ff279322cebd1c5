//! Keeping the facts that listings filter by: written shortly after each change of a request, so that the way from
//! deposit to fill does not pay for them.

use std::sync::Arc;
use std::time::Duration;

use domain::catalog::Catalog;
use futures::future::try_join_all;
use store::{StoreError, listing};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::error::Chained;
use crate::solver::Solver;

/// Requests whose facts are read in one go.
const REQUESTS_PER_ROUND: u16 = 64;
/// Requests whose facts are written side by side. Each is a unit of its own, so that a fill waits for four at most.
const WRITES_AT_ONCE: usize = 4;
/// The longest that a change is missing from listings.
const INTERVAL: Duration = Duration::from_millis(250);
const RETRY_DELAY: Duration = Duration::from_secs(5);

pub(crate) async fn run(solver: Arc<Solver>, stop: CancellationToken) {
    let chains = solver.chains.values().map(|handle| handle.chain.clone());
    let catalog = Arc::new(Catalog::new(chains.collect()).unwrap_or_default());
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match refresh(&solver, &catalog).await {
            Ok(count) if count == usize::from(REQUESTS_PER_ROUND) => Duration::ZERO,
            Ok(_) => INTERVAL,
            Err(error) => {
                warn!(error = %Chained(&error), "the facts of requests could not be written for listings");
                RETRY_DELAY
            }
        };
    }
}

async fn refresh(solver: &Solver, catalog: &Arc<Catalog>) -> Result<usize, StoreError> {
    let catalog = catalog.clone();
    // Not among the listings: two that take long would keep changes out of all the others.
    let stale = solver.store.read(move |tx| listing::stale(tx, &catalog, REQUESTS_PER_ROUND)).await?;
    for some in stale.chunks(WRITES_AT_ONCE) {
        let write = |fresh: &listing::Fresh| {
            let fresh = fresh.clone();
            solver.store.write(move |tx| listing::put(tx, &fresh))
        };
        try_join_all(some.iter().map(write)).await?;
    }
    Ok(stale.len())
}
