//! The rescan: blocks that the walk read one by one are read again once they are final, by range and from every node.
//!
//! A deposit that a node did not show the first time is found here and recorded like every other, once two nodes show
//! it, if there are two. That should never happen, so it is counted. A deposit that only one node shows is rescanned
//! for a while, and then left to a person.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use domain::alarm::Alarm;
use domain::deposit::State;
use evm::agreement::majority;
use evm::{BlockSummary, RescannedBlock, SeenDeposit};
use metrics::{counter, gauge};
use store::blocks::Cursor;
use store::{blocks, deposits, doubtful_blocks, treasury_transfers};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::chain::apply_block::{apply_late, apply_late_treasury_transfers, lag};
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::orders::deposits::counts;
use crate::solver::Solver;

/// Blocks rescanned together.
const BLOCKS_PER_RANGE: u64 = 500;
/// Rounds for which a doubtful block is rescanned. A round takes about four blocks, so these rounds stay within a
/// range, and the rescan keeps up with the chain even if every block is doubtful.
const MAX_DOUBTFUL_ROUNDS: u32 = 64;

/// Doubtful blocks, with a deposit that only one node shows, and the number of rounds for which each has been.
#[derive(Debug, Default)]
struct Doubts(BTreeMap<u64, u32>);

/// The decision on a doubtful block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    LookAgain { first_time: bool },
    GiveUp { first_time: bool },
}

impl Doubts {
    fn note(&mut self, block: u64) -> Verdict {
        let rounds = self.0.entry(block).or_default();
        *rounds = rounds.saturating_add(1);
        match *rounds {
            ..=MAX_DOUBTFUL_ROUNDS => Verdict::LookAgain { first_time: *rounds == 1 },
            _ => Verdict::GiveUp { first_time: *rounds == MAX_DOUBTFUL_ROUNDS + 1 },
        }
    }

    /// The last block of a range up to which nothing has to be rescanned again. Doubts up to it are forgotten.
    fn settled(&mut self, open: &BTreeSet<u64>, end: u64) -> u64 {
        let settled = open.first().map_or(end, |first| end.min(first.saturating_sub(1)));
        self.0.retain(|block, _| *block > settled);
        settled
    }
}

/// Rescans a chain until told to stop. After an error it waits and retries from the same position.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let chain = handle.id();
    // The rescan is in no hurry, and must be rare enough for nodes that count requests.
    let pause = (handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    counter!("causeway_deposits_missed_total", "chain" => chain.to_string()).absolute(0);
    counter!("causeway_deposits_doubtful_total", "chain" => chain.to_string()).absolute(0);
    let mut doubts = Doubts::default();
    let mut trouble = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        // Far behind, ranges follow each other without a pause.
        while !stop.is_cancelled() {
            match look(&solver, &handle, &mut doubts).await {
                Ok(more) => {
                    trouble.clear();
                    if !more {
                        break;
                    }
                }
                Err(failure) => {
                    let text = Chained(&failure).to_string();
                    // An error that repeats every few seconds is logged once.
                    if text != trouble {
                        warn!(chain.id = %chain, error = %text, "chain {chain} cannot be rescanned for now");
                        trouble = text;
                    }
                    break;
                }
            }
        }
    }
}

/// Rescans the next range of final blocks. True if there is more to rescan now.
async fn look(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, doubts: &mut Doubts) -> Result<bool, SolverError> {
    let chain = handle.id();
    let read =
        move |tx: &mut store::Tx<'_>| Ok::<_, SolverError>((blocks::cursor(tx, chain)?, blocks::rescanned(tx, chain)?));
    let (cursor, looked) = solver.store.read(read).await?;
    // Blocks that too few nodes have make nothing final.
    let depth = handle.settings.finality.saturating_add(handle.health.unagreed());
    let Some(last) = cursor.and_then(|cursor| cursor.number.checked_sub(depth)) else {
        return Ok(false);
    };
    // A new database stores where the walk began; with an older one the chain was walked without a rescan so far.
    let looked = looked.unwrap_or(last.saturating_sub(1));
    let behind = last.saturating_sub(looked);
    gauge!("causeway_rescan_lag_blocks", "chain" => chain.to_string()).set(lag(behind));
    if behind == 0 {
        return Ok(false);
    }
    let end = last.min(looked.saturating_add(BLOCKS_PER_RANGE));
    let mut found: BTreeMap<(u64, B256), Vec<BlockSummary>> = BTreeMap::new();
    for summary in handle.nodes.rescan_range(looked + 1, end, &handle.watch).await? {
        found.entry((summary.number, summary.block)).or_default().push(summary);
    }
    let mut open = BTreeSet::new();
    for ((number, hash), summaries) in found {
        if look_at(solver, handle, number, hash, summaries).await? == Scan::Clear {
            continue;
        }
        match doubts.note(number) {
            Verdict::LookAgain { first_time } => {
                open.insert(number);
                if first_time {
                    counter!("causeway_deposits_doubtful_total", "chain" => chain.to_string()).increment(1);
                    warn!(chain.id = %chain, block = number, "only one node shows a deposit in block {number}: rescanning it");
                }
            }
            Verdict::GiveUp { first_time: false } => {}
            Verdict::GiveUp { first_time: true } => {
                error!(chain.id = %chain, block = number, %hash, "only one node shows a deposit in block {number}: not recorded");
                let what = format!("only one node shows a deposit in block {number}: it is not recorded");
                handle.health.alarms.raise(Alarm::DepositDoubtful, what);
            }
        }
    }
    let settled = doubts.settled(&open, end);
    if settled > looked {
        solver.store.write(move |tx| blocks::set_rescanned(tx, chain, settled)).await?;
    }
    Ok(settled == end && end < last)
}

/// Result of a block's rescan: clear if all events shown in it are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    Clear,
    Doubtful,
}

/// Applies the unknown events of one block.
pub(crate) async fn look_at(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    number: u64,
    hash: B256,
    summaries: Vec<BlockSummary>,
) -> Result<Scan, SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut store::Tx<'_>| {
        let mut more = false;
        for summary in &summaries {
            more |= deposits::count_in(tx, chain, summary.tx)? < summary.deposits as u64;
            more |= treasury_transfers::count_in(tx, chain, summary.tx)? < summary.treasury_transfers as u64;
        }
        let doubtful = doubtful_blocks::is_noted(tx, chain, Cursor { number, hash })?;
        Ok::<_, SolverError>((more, doubtful, blocks::hash_of(tx, chain, number)?))
    };
    let (more, noted, taken) = solver.store.read(read).await?;
    if !more {
        return Ok(Scan::Clear);
    }
    let canonical = match taken {
        Some(taken) => Some(taken),
        // One node's word on what stands is no more than its word on a deposit.
        None => Some(handle.nodes.quorum_number(majority(handle.nodes.len()), number).await?.hash),
    };
    if canonical != Some(hash) {
        warn!(chain.id = %chain, block = number, %hash, "a node shows deposits in a block that is not on the chain");
        return Ok(Scan::Clear);
    }
    let block = handle.nodes.rescan_block(hash, &handle.watch).await?;
    let RescannedBlock { head, deposits, treasury_transfers } =
        block.ok_or(SolverError::InvariantViolated("a block with deposits is not known to any node"))?;
    // Known transfers among them change nothing.
    apply_late_treasury_transfers(solver, handle, head, treasury_transfers.agreed).await?;
    let missed = unknown(solver, handle, deposits.agreed).await?;
    if !missed.is_empty() {
        // In a doubtful block they were seen, and waited for a second node.
        let hidden = if noted { &[][..] } else { &missed[..] };
        for seen in hidden {
            error!(chain.id = %chain, block = number, tx = %seen.tx, "a deposit was not shown by the nodes that were asked first");
        }
        let count = hidden.len() as u64;
        apply_late(solver, handle, head, missed).await?;
        if count > 0 {
            counter!("causeway_deposits_missed_total", "chain" => chain.to_string()).increment(count);
            let what = format!("{count} deposits of block {number} were not shown by the node that was asked first");
            handle.health.alarms.raise(Alarm::DepositMissed, what);
        }
    }
    let mut doubtful = !unknown(solver, handle, deposits.doubtful).await?.is_empty();
    let read = move |tx: &mut store::Tx<'_>| {
        let mut unknown = false;
        for seen in &treasury_transfers.doubtful {
            unknown |= treasury_transfers::count_in(tx, chain, seen.tx)? <= u64::from(seen.ordinal);
        }
        Ok::<_, SolverError>(unknown)
    };
    doubtful |= solver.store.read(read).await?;
    Ok(if doubtful { Scan::Doubtful } else { Scan::Clear })
}

/// Deposits that count and are not in the database, or that a reorg took away there.
async fn unknown(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    seen: Vec<SeenDeposit>,
) -> Result<Vec<SeenDeposit>, SolverError> {
    let chain = handle.id();
    let seen: Vec<SeenDeposit> = seen.into_iter().filter(|seen| counts(handle, seen)).collect();
    let read = move |tx: &mut store::Tx<'_>| {
        let mut unknown = Vec::new();
        for seen in &seen {
            let known = deposits::find(tx, chain, seen.tx, seen.ordinal)?;
            if known.is_none_or(|known| known.state == State::Gone) {
                unknown.push(seen.clone());
            }
        }
        Ok::<_, SolverError>(unknown)
    };
    solver.store.read(read).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rescan_stops_at_a_doubtful_block_for_some_rounds_and_then_moves_on() {
        let mut doubts = Doubts::default();
        for round in 1..=MAX_DOUBTFUL_ROUNDS {
            assert_eq!(doubts.note(10), Verdict::LookAgain { first_time: round == 1 });
            assert_eq!(doubts.settled(&[10, 12].into(), 20), 9, "round {round}");
        }
        assert_eq!(doubts.note(10), Verdict::GiveUp { first_time: true });
        assert_eq!(doubts.note(10), Verdict::GiveUp { first_time: false });
        // Another block has rounds of its own.
        assert_eq!(doubts.note(12), Verdict::LookAgain { first_time: true });
        assert_eq!(doubts.settled(&[12].into(), 20), 11);
        assert_eq!(doubts.0.keys().collect::<Vec<_>>(), [&12], "what is behind is forgotten");
        assert_eq!(doubts.settled(&[].into(), 20), 20);
        assert!(doubts.0.is_empty());
    }

    #[test]
    fn the_rescan_keeps_up_if_every_block_is_doubtful() {
        let (mut doubts, mut looked, mut last) = (Doubts::default(), 0, 0);
        for _ in 0..10 * MAX_DOUBTFUL_ROUNDS {
            last += 4;
            let end = last.min(looked + BLOCKS_PER_RANGE);
            let again = |block: &u64| matches!(doubts.note(*block), Verdict::LookAgain { .. });
            let open = (looked + 1..=end).filter(again).collect();
            looked = doubts.settled(&open, end);
            assert!(last - looked < BLOCKS_PER_RANGE, "{looked} of {last}");
        }
    }
}
