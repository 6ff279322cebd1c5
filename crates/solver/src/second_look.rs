//! The second look: what the walk read block by block, from one node each, is read again once it is final, by range and
//! from every node.
//!
//! A deposit that a node did not show the first time is found here and taken in like every other. That should never
//! happen, so it is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use domain::deposit::State;
use evm::{At, Glimpse, SeenDeposit};
use metrics::{counter, gauge};
use store::{blocks, deposits, receipts};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::deposits::counts;
use crate::error::{Chained, SolverError};
use crate::settle::{take_late, take_late_receipts};
use crate::site::Site;
use crate::solver::Solver;

/// Blocks looked at together.
const RANGE: u64 = 500;

/// Looks at a chain again until told to stop. An error is waited out: the position stands where it stood.
pub async fn run(solver: Arc<Solver>, site: Arc<Site>, stop: CancellationToken) {
    let chain = site.id();
    // In no hurry, and seldom enough for nodes that count requests.
    let pause = (site.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    counter!("causeway_deposits_missed_total", "chain" => chain.to_string()).absolute(0);
    let mut trouble = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        // Far behind, one range follows the other.
        while !stop.is_cancelled() {
            match look(&solver, &site).await {
                Ok(more) => {
                    trouble.clear();
                    if !more {
                        break;
                    }
                }
                Err(failure) => {
                    let text = Chained(&failure).to_string();
                    // The same trouble every few seconds is one line.
                    if text != trouble {
                        warn!(chain.id = %chain, error = %text, "chain {chain} cannot be looked at a second time for now");
                        trouble = text;
                    }
                    break;
                }
            }
        }
    }
}

/// Looks at the next range of final blocks. Says whether there is more to look at now.
pub async fn look(solver: &Arc<Solver>, site: &Arc<Site>) -> Result<bool, SolverError> {
    let chain = site.id();
    let read =
        move |tx: &mut store::Tx<'_>| Ok::<_, SolverError>((blocks::cursor(tx, chain)?, blocks::looked_at(tx, chain)?));
    let (cursor, looked) = solver.store.read(read).await?;
    let Some(last) = cursor.and_then(|cursor| cursor.number.checked_sub(site.settings.finality)) else {
        return Ok(false);
    };
    // A new database says where the walk began; an older one has walked without a second look so far.
    let looked = looked.unwrap_or(last.saturating_sub(1));
    let behind = last.saturating_sub(looked);
    gauge!("causeway_second_look_lag_blocks", "chain" => chain.to_string()).set(lag(behind));
    if behind == 0 {
        return Ok(false);
    }
    let end = last.min(looked.saturating_add(RANGE));
    let mut found: BTreeMap<(u64, B256), Vec<Glimpse>> = BTreeMap::new();
    for glimpse in site.nodes.look_again(looked + 1, end, &site.watch).await? {
        found.entry((glimpse.number, glimpse.block)).or_default().push(glimpse);
    }
    for ((number, hash), glimpses) in found {
        look_at(solver, site, number, hash, glimpses).await?;
    }
    solver.store.write(move |tx| blocks::set_looked_at(tx, chain, end)).await?;
    Ok(end < last)
}

#[allow(clippy::cast_precision_loss, reason = "a gauge of blocks, not of money")]
fn lag(blocks: u64) -> f64 {
    blocks as f64
}

/// Takes in what is not known of one block.
async fn look_at(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    number: u64,
    hash: B256,
    glimpses: Vec<Glimpse>,
) -> Result<(), SolverError> {
    let chain = site.id();
    let read = move |tx: &mut store::Tx<'_>| {
        let mut more = false;
        for glimpse in &glimpses {
            more |= deposits::count_in(tx, chain, glimpse.tx)? < glimpse.deposits as u64;
            more |= receipts::count_in(tx, chain, glimpse.tx)? < glimpse.receipts as u64;
        }
        Ok::<_, SolverError>((more, blocks::hash_of(tx, chain, number)?))
    };
    let (more, taken) = solver.store.read(read).await?;
    if !more {
        return Ok(());
    }
    let canonical = match taken {
        Some(taken) => Some(taken),
        None => site.nodes.header(At::Number(number)).await?.map(|head| head.hash),
    };
    if canonical != Some(hash) {
        warn!(chain.id = %chain, block = number, %hash, "a node shows deposits in a block that is not on the chain");
        return Ok(());
    }
    let block = site.nodes.fullest_block(hash, &site.watch).await?;
    let block = block.ok_or(SolverError::Broken("a block with deposits is not known to any node"))?;
    // Noting again what is known changes nothing.
    take_late_receipts(solver, site, block.head, block.receipts).await?;
    let seen: Vec<SeenDeposit> = block.deposits.into_iter().filter(|seen| counts(site, seen)).collect();
    let read = move |tx: &mut store::Tx<'_>| {
        let mut missed = Vec::new();
        for seen in &seen {
            let known = deposits::find(tx, chain, seen.tx, seen.ordinal)?;
            if known.is_none_or(|known| known.state == State::Gone) {
                missed.push(seen.clone());
            }
        }
        Ok::<_, SolverError>(missed)
    };
    let missed = solver.store.read(read).await?;
    if missed.is_empty() {
        return Ok(());
    }
    for seen in &missed {
        error!(chain.id = %chain, block = number, tx = %seen.tx, "a deposit was not shown by the node that was asked first");
    }
    let count = missed.len() as u64;
    take_late(solver, site, block.head, missed).await?;
    counter!("causeway_deposits_missed_total", "chain" => chain.to_string()).increment(count);
    Ok(())
}
