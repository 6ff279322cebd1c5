//! Receipts of a request's transactions, for listings: their fees and the balances they changed. They are read off the
//! path from deposit to fill, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use domain::money::Amount;
use evm::{NativeMovers, SentValue, balance_changes};
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
    let mut position = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
        match round(&solver, &handle, position).await {
            Ok(next) => position = next,
            Err(failure) => debug!(chain.id = %handle.id(), error = %Chained(&failure), "receipts are not known yet"),
        }
    }
}

/// Reads the receipts after a position and returns the next: those without one are asked for again in their turn, and
/// keep no other waiting.
async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, position: i64) -> Result<i64, SolverError> {
    let chain = handle.id();
    let movers = NativeMovers { router: handle.chain.router, wrapped: handle.chain.dex.map(|dex| dex.wrapped) };
    let unread = solver.store.read(move |tx| records::unread(tx, chain, position, MAX_RECEIPTS_PER_ROUND)).await?;
    let full = i64::try_from(unread.len()).is_ok_and(|count| count == MAX_RECEIPTS_PER_ROUND);
    let next = unread.last().filter(|_| full).map_or(0, records::Unread::number);
    for unread in unread {
        // A transaction that a reorg removed has no receipt, or one in another block, and is listed without a fee.
        let Some(receipt) = handle.nodes.receipt(unread.tx).await? else { continue };
        if receipt.block_hash != unread.block_hash {
            continue;
        }
        let sent = SentValue { from: unread.sender, to: unread.target, value: unread.value.units() };
        let (fee, changes) = (Amount::new(receipt.fee()), balance_changes(&receipt, sent, movers));
        solver.store.write(move |tx| records::set_read(tx, &unread, fee, &changes)).await?;
    }
    Ok(next)
}
