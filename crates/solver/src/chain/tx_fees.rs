//! Fees of users' transactions, for listings: read off the path from deposit to fill, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use domain::money::Amount;
use store::records;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Receipts read in one round.
const MAX_RECEIPTS_PER_ROUND: i64 = 32;
const ROUND_INTERVAL: Duration = Duration::from_secs(2);

pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
        if let Err(failure) = round(&solver, &handle).await {
            debug!(chain.id = %handle.id(), error = %Chained(&failure), "fees are not known yet");
        }
    }
}

async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<(), SolverError> {
    let chain = handle.id();
    for hash in solver.store.read(move |tx| records::without_fee(tx, chain, MAX_RECEIPTS_PER_ROUND)).await? {
        // A transaction that a reorg removed has no receipt; it is asked for again, and listed without a fee.
        let Some(receipt) = handle.nodes.receipt(hash).await? else { continue };
        let fee = Amount::new(receipt.fee());
        solver.store.write(move |tx| records::set_fee(tx, chain, hash, fee)).await?;
    }
    Ok(())
}
