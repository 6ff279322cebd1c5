//! Doubtful blocks: the walk has passed them, and an event in them was shown by too few nodes. They are read again
//! until their nodes agree, and the events that enough of them show by then are applied.
//!
//! A node that was down or behind settles them when it is back. A node that lies does not: its event stays where it is,
//! applied by nobody, and the contradiction is reported by the nodes themselves.

use std::sync::Arc;
use std::time::Duration;

use evm::Wait;
use metrics::gauge;
use store::doubtful_blocks::{self, DoubtfulBlock};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::chain::apply_block::{apply_late_block, lag};
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;

const MAX_BLOCKS_PER_ROUND: i64 = 16;
const ROUND_INTERVAL: Duration = Duration::from_millis(500);
const MAX_PAUSE_MILLIS: i64 = 30_000;
/// Time after which a block is left to a person.
const GIVEN_UP_AFTER_MILLIS: i64 = 7 * 24 * 3_600_000;

/// Reads doubtful blocks again until told to stop.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let mut trouble = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
        match round(&solver, &handle).await {
            Ok(()) => trouble.clear(),
            Err(failure) => {
                let text = Chained(&failure).to_string();
                if text != trouble {
                    warn!(chain.id = %handle.id(), error = %text, "doubtful blocks cannot be read again for now");
                    trouble = text;
                }
            }
        }
    }
}

async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<(), SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut store::Tx<'_>| {
        let count = doubtful_blocks::count(tx, chain)?;
        Ok::<_, SolverError>((count, doubtful_blocks::next(tx, chain, MAX_BLOCKS_PER_ROUND)?))
    };
    let (count, blocks) = solver.store.read(read).await?;
    gauge!("causeway_doubtful_blocks", "chain" => chain.to_string()).set(lag(count));
    for doubtful in blocks {
        let now = solver.now().millis();
        if now.saturating_sub(doubtful.asked.millis()) >= pause_millis(&doubtful) {
            read_again(solver, handle, doubtful).await?;
        }
    }
    Ok(())
}

/// A block is asked for often at first and then ever more rarely.
fn pause_millis(doubtful: &DoubtfulBlock) -> i64 {
    (doubtful.asked.millis().saturating_sub(doubtful.since.millis()) / 4).min(MAX_PAUSE_MILLIS)
}

async fn read_again(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    DoubtfulBlock { block, since, .. }: DoubtfulBlock,
) -> Result<(), SolverError> {
    let chain = handle.id();
    let open = match handle.nodes.agreed_block(block.number, block.hash, &handle.watch, Wait::ForAll).await {
        Ok(Some(agreed)) if agreed.block.head.number == block.number => {
            apply_late_block(solver, handle, &agreed).await? || !agreed.stands
        }
        // Nobody shows it at the moment.
        Ok(_) | Err(_) => true,
    };
    let now = solver.now();
    let old = now.millis().saturating_sub(since.millis()) > GIVEN_UP_AFTER_MILLIS;
    if open && old {
        error!(chain.id = %chain, block = block.number, hash = %block.hash, "nodes do not agree about block {}: an event in it is left to a person", block.number);
    }
    let unit = move |tx: &mut store::Tx<'_>| match open && !old {
        true => doubtful_blocks::asked(tx, chain, block, now),
        false => doubtful_blocks::remove(tx, chain, block),
    };
    Ok(solver.store.write(unit).await?)
}
