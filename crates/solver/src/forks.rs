//! When the chain changes its mind: walk back to the fork, undo, and let the walk go forward again.

use std::sync::Arc;

use domain::payment;
use evm::{At, Head};
use metrics::counter;
use store::blocks::Cursor;
use store::payments::Stored;
use store::{Tx, blocks, deposits, payments};
use tracing::warn;

use crate::error::SolverError;
use crate::follow::KEPT_BLOCKS;
use crate::site::Site;
use crate::solver::{Means, Solver};

/// Rows undone in one unit.
const BATCH: i64 = 64;

/// Whether a head at or below the cursor is a block we have taken in: a node that lags is not a fork.
pub async fn is_known(solver: &Solver, site: &Site, at: Cursor, head: Head) -> Result<bool, SolverError> {
    if head.hash == at.hash {
        return Ok(true);
    }
    let chain = site.id();
    let recent = solver.store.read(move |tx| blocks::recent(tx, chain, kept())).await?;
    if recent.iter().any(|block| block.hash == head.hash) {
        return Ok(true);
    }
    // Older than everything we kept, or a fork. The chain itself says which block is canonical now.
    let canonical = site.nodes.header(At::Number(at.number)).await?;
    Ok(canonical.is_some_and(|header| header.hash == at.hash))
}

fn kept() -> i64 {
    i64::try_from(KEPT_BLOCKS).unwrap_or(i64::MAX)
}

/// Goes back to the last block we share with the chain.
pub async fn undo(solver: &Arc<Solver>, site: &Arc<Site>, at: Cursor) -> Result<Cursor, SolverError> {
    let chain = site.id();
    let recent = solver.store.read(move |tx| blocks::recent(tx, chain, kept())).await?;
    let mut fork = None;
    for block in &recent {
        let canonical = site.nodes.header(At::Number(block.number)).await?;
        if canonical.is_some_and(|header| header.hash == block.hash) {
            fork = Some(*block);
            break;
        }
    }
    let fork = fork.ok_or(SolverError::DeepFork { chain, kept: recent.len() })?;
    let depth = at.number.saturating_sub(fork.number);
    warn!(chain.id = %chain, fork = fork.number, depth, "chain {chain} was reorganised, {depth} blocks are undone");
    counter!("causeway_reorgs_total", "chain" => chain.to_string()).increment(1);
    loop {
        let means = solver.means();
        let (paid, more) = solver.store.write(move |tx| undo_batch(tx, chain, fork.number, &means)).await?;
        solver.hand_over(paid);
        if !more {
            break;
        }
    }
    solver.crash("reorg.undone");
    solver.store.write(move |tx| blocks::rewind(tx, chain, fork)).await?;
    site.taken.send_replace(fork.number);
    Ok(fork)
}

/// Undoes some of what stood above the fork. Says whether there is more; doing it twice is harmless.
fn undo_batch(
    tx: &mut Tx<'_>,
    chain: domain::ids::ChainId,
    fork: u64,
    means: &Means,
) -> Result<(Vec<Stored>, bool), SolverError> {
    let gone = deposits::above(tx, chain, fork, BATCH)?;
    let unmined = payments::above(tx, chain, fork, BATCH)?;
    let mut paid = Vec::new();
    for stored in &gone {
        paid.extend(crate::deposits::vanish(tx, stored, means)?);
    }
    for stored in &unmined {
        // The same bytes go out again; the request does not go back.
        let state = payment::step(stored.state, payment::Event::Unmined)?;
        payments::set_state(tx, stored.id, state, means.now)?;
        payments::set_mined(tx, stored.id, None)?;
    }
    Ok((paid, !gone.is_empty() || !unmined.is_empty()))
}
