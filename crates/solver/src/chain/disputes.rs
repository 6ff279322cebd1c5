//! Payments that wait while the nodes of a chain disagree about its blocks: how the wait begins, how it ends, and who
//! is told.

use std::future::pending;
use std::time::Duration;

use evm::Verdict;
use store::blocks::Cursor;
use store::{blocks, chain_states};
use tokio::time::Instant;
use tracing::warn;

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Pause between two questions about the blocks in dispute: a chain that makes no block has no other way out.
const ASK_INTERVAL: Duration = Duration::from_secs(2);

/// Payments that wait for a block that most nodes have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispute {
    /// The last block walked when the wait began. Only a block above it shows by itself that those in dispute are
    /// passed.
    from: u64,
    /// The last block walked when the nodes were last asked. A node that is always some blocks behind has it by now.
    walked: u64,
    ask_at: Instant,
}

impl Dispute {
    pub(crate) fn new(handle: &ChainHandle, at: Cursor) -> Self {
        // A block may have been counted whose cursor was not committed: it says nothing about this dispute.
        let from = at.number.max(handle.health.standing());
        Self { from, walked: at.number, ask_at: Instant::now() + ASK_INTERVAL }
    }

    /// True once most nodes have a block above those in dispute, whether or not they have the blocks after it; or,
    /// every few seconds, if most show the block of the walk.
    pub(crate) async fn is_over(
        &mut self,
        solver: &Solver,
        handle: &ChainHandle,
        at: Cursor,
    ) -> Result<bool, SolverError> {
        if handle.health.standing() > self.from {
            return Ok(true);
        }
        if Instant::now() < self.ask_at {
            return Ok(false);
        }
        self.ask_at = Instant::now() + ASK_INTERVAL;
        self.is_settled(solver, handle, at).await
    }

    /// True if more than half of the nodes show the block of the walk. Nodes that are down or behind confirm nothing.
    pub(crate) async fn is_settled(
        &mut self,
        solver: &Solver,
        handle: &ChainHandle,
        at: Cursor,
    ) -> Result<bool, SolverError> {
        let (chain, number) = (handle.id(), self.walked.min(at.number));
        self.walked = at.number;
        // After a reorg, blocks on the way back up to those in dispute say nothing; the last of a chain that stays
        // does.
        if number < self.from.min(at.number) {
            return Ok(false);
        }
        let Some(ours) = solver.store.read(move |tx| blocks::hash_of(tx, chain, number)).await? else {
            return Ok(false);
        };
        let votes = handle.nodes.header_votes(number).await.ok();
        Ok(votes.and_then(|votes| votes.agreed()).is_some_and(|agreed| agreed.hash == ours))
    }
}

/// Returns when the nodes are to be asked again.
pub(super) async fn due(dispute: Option<&Dispute>) {
    match dispute {
        Some(dispute) => tokio::time::sleep_until(dispute.ask_at).await,
        None => pending().await,
    }
}

/// Lets payments begin again once the dispute is over.
pub(super) async fn end_if_over(
    solver: &Solver,
    handle: &ChainHandle,
    dispute: &mut Option<Dispute>,
    at: Cursor,
) -> Result<(), SolverError> {
    let over = match dispute {
        Some(waiting) => waiting.is_over(solver, handle, at).await?,
        None => false,
    };
    if over {
        refuse(solver, handle, None).await?;
        *dispute = None;
    }
    Ok(())
}

/// Lets payments begin at the start of a walk; false while they wait for a block that most nodes have. The start-up
/// checks say nothing about blocks: those over which the last walk stopped are read first. A process that has just
/// begun does not know of such a stop, and sees it by nodes that show another block in place of the last. Nodes that
/// lag or are down say nothing.
pub(crate) async fn may_pay(
    solver: &Solver,
    handle: &ChainHandle,
    at: Cursor,
    disputed: bool,
) -> Result<bool, SolverError> {
    if disputed || handle.nodes.header_votes(at.number).await?.verdict(at.hash, true) != Verdict::Stands {
        // Payments that have begun go on: a walk that is tried again may find a reorg like any other.
        let Some(told) = handle.health.refusing() else { return Ok(true) };
        let why = if disputed { (*told).clone() } else { shown_otherwise(handle, at) };
        tell_others(solver, handle, why).await?;
        return Ok(false);
    }
    refuse(solver, handle, None).await?;
    Ok(true)
}

fn shown_otherwise(handle: &ChainHandle, at: Cursor) -> String {
    format!(
        "the nodes of chain {} do not show block {}, the last one walked, alike; payments wait for a block that most of \
         them have",
        handle.id(),
        at.number
    )
}

/// Tells the other processes why payments wait. Without a word under this lease they would go on by that of the last
/// worker. In this process the start-up checks still count as unfinished: payments of other chains wait for them for
/// five minutes only.
async fn tell_others(solver: &Solver, handle: &ChainHandle, why: String) -> Result<(), SolverError> {
    let chain = handle.id();
    warn!(chain.id = %chain, "{why}");
    Ok(solver.store.write(move |tx| chain_states::put(tx, chain, Some(why.as_str()))).await?)
}

/// Publishes the reason why no payments are made here, or None if they are, to this process and all others.
pub(super) async fn refuse(solver: &Solver, handle: &ChainHandle, why: Option<String>) -> Result<(), SolverError> {
    if why.is_some() {
        handle.health.refuse(why.clone());
    }
    let (chain, told) = (handle.id(), why.clone());
    solver.store.write(move |tx| chain_states::put(tx, chain, told.as_deref())).await?;
    handle.health.refuse(why);
    Ok(())
}

/// The same for a chain that stops. This process stops whether or not the others can be told.
pub(super) async fn tell_refusal(solver: &Solver, handle: &ChainHandle, why: String) {
    if let Err(failure) = refuse(solver, handle, Some(why)).await {
        warn!(chain.id = %handle.id(), error = %Chained(&failure), "other processes were not told of the stop");
    }
}
