//! Walking a chain: block by block from the cursor, whatever happened in between.
//!
//! The cursor is never ahead of what is stored: it moves in a later commit, and reading a block again is harmless.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use domain::fail::FailReason;
use domain::time::Timestamp;
use evm::{Block, Head, SeenDeposit};
use metrics::{counter, gauge};
use store::blocks::Cursor;
use store::payments::Stored;
use store::{Tx, blocks, deposits, lanes};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::error::{Chained, SolverError};
use crate::forks;
use crate::settle::settle;
use crate::site::Site;
use crate::solver::Solver;

/// Deposits of a big block commit in chunks, so that the first fill leaves early.
const CHUNK: usize = 16;
/// Block hashes that are kept: a fork that reaches deeper stops the chain.
pub const KEPT_BLOCKS: u64 = 512;
/// A deposit whose unit fails this often is set aside, so that it does not stop its chain.
const TRIES: u32 = 3;

/// Follows a chain until told to stop. An error is waited out: the cursor stands where it stood.
pub async fn run(solver: Arc<Solver>, site: Arc<Site>, stop: CancellationToken) {
    let chain = site.id();
    let mut heads = site.nodes.heads();
    let mut pause = Duration::from_millis(100);
    loop {
        let walk = walk(&solver, &site, &mut heads, &stop);
        match walk.await {
            Ok(()) => return,
            Err(deep @ SolverError::DeepFork { .. }) => {
                error!(chain.id = %chain, "{deep}");
                site.refuse(Some(deep.to_string()));
                return;
            }
            Err(failure) => {
                warn!(chain.id = %chain, error = %Chained(&failure), "cannot go on along chain {chain}, trying again");
                counter!("causeway_follow_errors_total", "chain" => chain.to_string()).increment(1);
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
        }
    }
}

async fn walk(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    heads: &mut tokio::sync::watch::Receiver<Option<Head>>,
    stop: &CancellationToken,
) -> Result<(), SolverError> {
    start_checks(solver, site).await?;
    let mut at = begin(solver, site, heads, stop).await?;
    site.taken.send_replace(at.number);
    loop {
        let head = *heads.borrow_and_update();
        if let Some(head) = head {
            catch_up(solver, site, &mut at, head, stop).await?;
            gauge!("causeway_chain_lag_blocks", "chain" => site.id().to_string())
                .set(lag(head.number.saturating_sub(at.number)));
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = heads.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge of blocks, not of money")]
fn lag(blocks: u64) -> f64 {
    blocks as f64
}

/// A database that knows fewer nonces than the chain is a backup of another time: paying from it could pay twice.
pub async fn start_checks(solver: &Solver, site: &Site) -> Result<(), SolverError> {
    let chain = site.id();
    for wallet in site.addresses() {
        solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
        let used = site.nodes.nonce(wallet, evm::NonceTag::Latest).await?;
        let lanes = solver.store.write(move |tx| lanes::lock(tx, chain)).await?;
        let ours = lanes.iter().find(|lane| lane.wallet == wallet).map_or(0, |lane| lane.next_nonce);
        if used > ours {
            let why = older_than_chain(chain.0, wallet, ours, used);
            error!(chain.id = %chain, wallet = %wallet, "{why}");
            site.refuse(Some(why));
            return Ok(());
        }
    }
    site.refuse(None);
    Ok(())
}

pub fn older_than_chain(chain: u64, wallet: Address, ours: u64, used: u64) -> String {
    format!(
        "the database is older than chain {chain}: wallet {wallet} has used {used} nonces there and the database \
         knows {ours}; no payments are made on this chain until `causeway recover` has imported what was sent"
    )
}

/// Where to go on from: the cursor, or on a new database the configured block, or the head.
async fn begin(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    heads: &mut tokio::sync::watch::Receiver<Option<Head>>,
    stop: &CancellationToken,
) -> Result<Cursor, SolverError> {
    let chain = site.id();
    if let Some(cursor) = solver.store.read(move |tx| blocks::cursor(tx, chain)).await? {
        return Ok(cursor);
    }
    let head = loop {
        if let Some(head) = *heads.borrow_and_update() {
            break head;
        }
        tokio::select! {
            () = stop.cancelled() => return Err(SolverError::Broken("stopped before the first block")),
            changed = heads.changed() => if changed.is_err() { return Err(SolverError::Broken("no more heads")) },
        }
    };
    let first = match site.settings.start_block {
        None => head,
        Some(number) => {
            let number = number.min(head.number);
            let header = site.nodes.header(evm::At::Number(number)).await?;
            header.ok_or(SolverError::Broken("the start block is not known to any node"))?
        }
    };
    let cursor = Cursor { number: first.number, hash: first.hash };
    let time = block_time(first);
    solver.store.write(move |tx| blocks::advance(tx, chain, cursor, time, KEPT_BLOCKS)).await?;
    info!(chain.id = %chain, block = first.number, "following chain {chain} from block {}", first.number);
    Ok(cursor)
}

async fn catch_up(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    at: &mut Cursor,
    head: Head,
    stop: &CancellationToken,
) -> Result<(), SolverError> {
    if head.number <= at.number && !forks::is_known(solver, site, *at, head).await? {
        *at = forks::undo(solver, site, *at).await?;
    }
    while at.number < head.number && !stop.is_cancelled() {
        let next = if head.number == at.number + 1 && head.parent_hash == at.hash {
            // The hot path: the head follows on what we have, so it is read by its own hash at once.
            site.nodes.block_by_hash(head.hash, &site.watch).await?
        } else {
            site.nodes.block_by_number(at.number + 1, &site.watch).await?
        };
        // A node that announced a head it cannot serve yet will announce another.
        let Some(block) = next else { return Ok(()) };
        if block.head.parent_hash != at.hash {
            *at = forks::undo(solver, site, *at).await?;
            continue;
        }
        take_in(solver, site, &block).await?;
        *at = Cursor { number: block.head.number, hash: block.head.hash };
        site.taken.send_replace(at.number);
    }
    Ok(())
}

async fn take_in(solver: &Arc<Solver>, site: &Arc<Site>, block: &Block) -> Result<(), SolverError> {
    for chunk in block.deposits.chunks(CHUNK) {
        take_in_chunk(solver, site, block.head, chunk).await?;
    }
    if !block.deposits.is_empty() {
        solver.crash("deposit.committed");
    }
    let (unit_site, means) = (site.clone(), solver.means());
    let (head, sent) = (block.head, block.sent.clone());
    let paid = solver.store.write(move |tx| settle(tx, &unit_site, head, &sent, &means)).await?;
    solver.hand_over(paid);
    solver.crash("cursor.before");
    let (chain, cursor) = (site.id(), Cursor { number: block.head.number, hash: block.head.hash });
    let time = block_time(block.head);
    solver.store.write(move |tx| blocks::advance(tx, chain, cursor, time, KEPT_BLOCKS)).await?;
    Ok(())
}

/// Commits a chunk together; if that fails, one by one, so that a poisoned deposit stands alone.
async fn take_in_chunk(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    head: Head,
    chunk: &[SeenDeposit],
) -> Result<(), SolverError> {
    counter!("causeway_deposits_seen_total", "chain" => site.id().to_string()).increment(chunk.len() as u64);
    if let Ok(paid) = commit(solver, site, head, chunk.to_vec()).await {
        solver.hand_over(paid);
        return Ok(());
    }
    for deposit in chunk {
        let mut tries = 1;
        loop {
            match commit(solver, site, head, vec![deposit.clone()]).await {
                Ok(paid) => break solver.hand_over(paid),
                // The database is away, which says nothing about the deposit: the chain waits for it.
                Err(SolverError::Store(error)) if error.is_transient() => return Err(error.into()),
                Err(_) if tries < TRIES => tries += 1,
                Err(failure) => break quarantine(solver, site, head, deposit, &failure).await?,
            }
        }
    }
    Ok(())
}

async fn commit(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    head: Head,
    deposits: Vec<SeenDeposit>,
) -> Result<Vec<Stored>, SolverError> {
    let (site, means) = (site.clone(), solver.means());
    let unit = move |tx: &mut Tx<'_>| {
        let mut paid = Vec::new();
        for deposit in &deposits {
            paid.extend(crate::deposits::take_in(tx, &site, head, deposit, &means)?);
        }
        Ok(paid)
    };
    solver.store.write(unit).await
}

/// Keeps a deposit that cannot be processed where a person will find it, and lets the chain go on.
async fn quarantine(
    solver: &Arc<Solver>,
    site: &Arc<Site>,
    head: Head,
    seen: &SeenDeposit,
    failure: &SolverError,
) -> Result<(), SolverError> {
    error!(chain.id = %site.id(), tx = %seen.tx, error = %Chained(failure), "a deposit cannot be processed; it is set aside");
    counter!("causeway_deposits_quarantined_total", "chain" => site.id().to_string()).increment(1);
    let (site, seen, now) = (site.clone(), seen.clone(), solver.now());
    solver
        .store
        .write(move |tx| {
            let row = crate::deposits::as_row(&site, head, &seen, false);
            if let Some(id) = deposits::insert(tx, &row, now)? {
                deposits::refuse(tx, id, FailReason::Unknown)?;
            }
            Ok(())
        })
        .await
}

pub fn block_time(head: Head) -> Timestamp {
    Timestamp::from_secs(i64::try_from(head.time).unwrap_or(i64::MAX))
}
