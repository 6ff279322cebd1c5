//! Reorgs: find the fork, undo the blocks above it, and let the walk go forward again.

use std::sync::Arc;

use alloy::primitives::B256;
use domain::alarm::Alarm;
use domain::ids::ChainId;
use domain::{payment, sweep};
use evm::{Head, Verdict, Wait};
use metrics::counter;
use store::blocks::Cursor;
use store::payments::{PaymentRow, Subject};
use store::{Tx, blocks, deposits, payments, records, requests, same_chain, sweeps, treasury_transfers};
use tracing::warn;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Depth to which a fork is searched for: a deeper one stops the chain.
pub(super) const KEPT_BLOCKS: u64 = 512;
/// Rows undone in one unit.
const ROWS_PER_COMMIT: i64 = 64;

/// True if a head at or below the cursor was applied before, or is so old that only a lagging node can announce it.
pub(crate) async fn is_known(solver: &Solver, handle: &ChainHandle, head: Head) -> Result<bool, SolverError> {
    let recent = recent(solver, handle).await?;
    let oldest = recent.last().map_or(0, |block| block.number);
    Ok(head.number < oldest || recent.iter().any(|block| block.hash == head.hash))
}

async fn recent(solver: &Solver, handle: &ChainHandle) -> Result<Vec<Cursor>, SolverError> {
    let chain = handle.id();
    let kept = i64::try_from(KEPT_BLOCKS).unwrap_or(i64::MAX);
    Ok(solver.store.read(move |tx| blocks::recent(tx, chain, kept)).await?)
}

/// Goes back to the last block we share with the chain. A chain that takes back final blocks is stopped; one node
/// alone cannot cause that. While the nodes have not settled on that block, the cursor stays: finality is counted from
/// it, and a search that went back half the way would find a deep fork shallow.
pub(crate) async fn undo(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, at: Cursor) -> Result<Cursor, SolverError> {
    let recent = recent(solver, handle).await?;
    let last = at.number.saturating_sub(handle.settings.finality);
    let standing = at.number.saturating_sub(handle.health.unagreed());
    let mut fork = None;
    for block in recent.iter().take_while(|block| block.number >= last) {
        // One node alone does not take back a block that most had.
        let votes = handle.nodes.header_votes(block.number).await?;
        match votes.verdict(block.hash, block.number <= standing) {
            Verdict::TakenBack => {}
            Verdict::Undecided => return Ok(at),
            Verdict::Stands => {
                fork = Some(*block);
                break;
            }
        }
    }
    let Some(fork) = fork else { return Err(deep(handle, &recent, last).await) };
    if fork.number == at.number {
        return Ok(fork);
    }
    rewind(solver, handle, at, fork).await?;
    Ok(fork)
}

/// Goes back to the last block that most nodes had, if others than those walked since have more nodes behind them: one
/// node may have led us there alone. Nothing was confirmed or made final in them.
pub(crate) async fn leave_unagreed(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    at: Cursor,
) -> Result<Option<Cursor>, SolverError> {
    let (chain, ahead) = (handle.id(), handle.health.unagreed());
    let Some(number) = at.number.checked_sub(ahead).filter(|_| ahead > 0) else { return Ok(None) };
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, SolverError>((blocks::hash_of(tx, chain, number)?, blocks::hash_of(tx, chain, number + 1)?))
    };
    let (Some(hash), Some(first)) = solver.store.read(read).await? else { return Ok(None) };
    let fork = Cursor { number, hash };
    if !is_outvoted(handle, fork, first).await? {
        return Ok(None);
    }
    handle.nodes.distrust_leader();
    rewind(solver, handle, at, fork).await?;
    Ok(Some(fork))
}

/// True if the block after this one is outvoted, or if most nodes have another one by its hash, whatever they show by
/// its number.
async fn is_outvoted(handle: &ChainHandle, fork: Cursor, ours: B256) -> Result<bool, SolverError> {
    let number = fork.number.saturating_add(1);
    let votes = handle.nodes.header_votes(number).await?;
    if votes.verdict(ours, false) == Verdict::TakenBack {
        return Ok(true);
    }
    if votes.agreed().is_some() {
        return Ok(false);
    }
    let others = votes.candidates(|_| false).into_iter().filter(|head| head.hash != ours);
    for head in others.filter(|head| head.parent_hash == fork.hash) {
        let read = handle.nodes.agreed_block(number, head.hash, &handle.watch, Wait::Briefly).await?;
        if read.is_some_and(|read| read.stands) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn rewind(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, at: Cursor, fork: Cursor) -> Result<(), SolverError> {
    let chain = handle.id();
    let depth = at.number.saturating_sub(fork.number);
    warn!(chain.id = %chain, fork = fork.number, depth, "chain {chain} was reorganised, {depth} blocks are undone");
    counter!("causeway_reorgs_total", "chain" => chain.to_string()).increment(1);
    // The cursor goes back first: after a crash here, the next start undoes the rows above it.
    solver.store.write(move |tx| blocks::rewind(tx, chain, fork)).await?;
    undo_above(solver, handle, fork.number).await?;
    solver.crash("reorg.undone");
    handle.health.rewound(depth, fork.number);
    Ok(())
}

/// The error for a fork that takes back final blocks: if one node still has ours, or does not answer, the nodes
/// disagree; else the fork is deep.
async fn deep(handle: &ChainHandle, recent: &[Cursor], last: u64) -> SolverError {
    let (chain, finality) = (handle.id(), handle.settings.finality);
    // The deepest block that could be undone, or the deepest we know: a lagging node has it as well.
    let ours = recent.iter().take_while(|block| block.number >= last).last();
    let Some(ours) = ours else { return SolverError::DeepFork { chain, finality } };
    let said = handle.nodes.header_from_each(ours.number).await;
    let given_up = |head: &Option<Head>| head.is_none_or(|head| head.hash != ours.hash);
    if said.iter().all(|answer| answer.as_ref().is_ok_and(given_up)) {
        return SolverError::DeepFork { chain, finality };
    }
    warn!(chain.id = %chain, block = ours.number, "a node is on another fork than ours, but not all nodes are");
    counter!("causeway_disputes_total", "chain" => chain.to_string()).increment(1);
    let what = format!("the nodes are on different forks at block {}, which was final", ours.number);
    handle.health.alarms.raise(Alarm::NodesDisagree, what);
    SolverError::Disputed { chain }
}

/// Undoes everything that was stored from blocks above this one.
pub(crate) async fn undo_above(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, fork: u64) -> Result<(), SolverError> {
    let chain = handle.id();
    loop {
        let context = solver.context();
        let undone = solver.store.write(move |tx| undo_batch(tx, chain, fork, &context)).await;
        let (paid, more) = undone.map_err(|error| match error {
            // Final rows cannot be undone.
            SolverError::Deposit(_) | SolverError::Payment(_) => {
                SolverError::DeepFork { chain, finality: handle.settings.finality }
            }
            other => other,
        })?;
        solver.hand_over(paid);
        if !more {
            return Ok(());
        }
    }
}

/// Undoes one batch of rows. True if there are more; undoing twice is harmless.
fn undo_batch(
    tx: &mut Tx<'_>,
    chain: ChainId,
    fork: u64,
    context: &PayContext,
) -> Result<(Vec<PaymentRow>, bool), SolverError> {
    records::gone_above(tx, chain, fork)?;
    if !treasury_transfers::gone_above(tx, chain, fork, context.now)? || !same_chain::gone_above(tx, chain, fork)? {
        let finality = context.on(chain).map_or(0, |(handle, _)| handle.settings.finality);
        return Err(SolverError::DeepFork { chain, finality });
    }
    let gone = deposits::above(tx, chain, fork, ROWS_PER_COMMIT)?;
    let unmined = payments::above(tx, chain, fork, ROWS_PER_COMMIT)?;
    let mut paid = Vec::new();
    for stored in &gone {
        paid.extend(crate::orders::deposits::vanish(tx, stored, context)?);
    }
    for stored in &unmined {
        // The same bytes are sent again; the request keeps its state.
        requests::lock_about(tx, stored.payment.request)?;
        let state = payment::step(stored.state, payment::Event::Unmined)?;
        payments::set_state(tx, stored.id, state, context.now)?;
        payments::set_mined(tx, stored.id, None)?;
        if let Subject::Sweep(id) = stored.payment.subject {
            sweeps::apply(tx, id, sweep::Event::Unmined)?;
        }
    }
    Ok((paid, !gone.is_empty() || !unmined.is_empty()))
}
