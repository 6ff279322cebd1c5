//! Reads what users' transactions cost them, for listings: off the way from deposit to fill, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use domain::money::Amount;
use store::records;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::error::{Chained, SolverError};
use crate::site::Site;
use crate::solver::Solver;

/// Receipts read in one round.
const BATCH: i64 = 32;
const PAUSE: Duration = Duration::from_secs(2);

pub async fn run(solver: Arc<Solver>, site: Arc<Site>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        if let Err(failure) = round(&solver, &site).await {
            debug!(chain.id = %site.id(), error = %Chained(&failure), "fees are not known yet");
        }
    }
}

async fn round(solver: &Arc<Solver>, site: &Arc<Site>) -> Result<(), SolverError> {
    let chain = site.id();
    for hash in solver.store.read(move |tx| records::without_fee(tx, chain, BATCH)).await? {
        // One that a reorg removed has none; it is asked for again, and listed without.
        let Some(receipt) = site.nodes.receipt(hash).await? else { continue };
        let fee = Amount::new(receipt.fee());
        solver.store.write(move |tx| records::set_fee(tx, chain, hash, fee)).await?;
    }
    Ok(())
}
