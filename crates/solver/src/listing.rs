//! Keeping the facts that listings filter by: written shortly after a request begins and again when it ends, so that the
//! way from deposit to fill does not pay for them.

use std::sync::Arc;
use std::time::Duration;

use domain::catalog::Catalog;
use store::{StoreError, listing};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::error::Chained;
use crate::solver::Solver;

/// Requests in one commit: a few milliseconds of the writer's time.
const REQUESTS_PER_COMMIT: u16 = 100;
/// The longest that a request is missing from listings.
const INTERVAL: Duration = Duration::from_millis(250);
const RETRY_DELAY: Duration = Duration::from_secs(5);

pub async fn run(solver: Arc<Solver>, stop: CancellationToken) {
    let chains = solver.chains.values().map(|handle| handle.chain.clone());
    let catalog = Arc::new(Catalog::new(chains.collect()).unwrap_or_default());
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match refresh(&solver, &catalog).await {
            Ok(count) if count == usize::from(REQUESTS_PER_COMMIT) => Duration::ZERO,
            Ok(_) => INTERVAL,
            Err(error) => {
                warn!(error = %Chained(&error), "the facts of requests could not be written for listings");
                RETRY_DELAY
            }
        };
    }
}

async fn refresh(solver: &Solver, catalog: &Arc<Catalog>) -> Result<usize, StoreError> {
    if !solver.store.read(listing::any_unlisted).await? {
        return Ok(0);
    }
    let catalog = catalog.clone();
    solver.store.write(move |tx| listing::refresh(tx, &catalog, REQUESTS_PER_COMMIT)).await
}
