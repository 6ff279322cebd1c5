//! The walk along a chain, block by block from the cursor, however far that is behind.
//!
//! The cursor is never ahead of the stored events: it moves in a later commit, and reading a block again is harmless.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::Address;
use domain::alarm::Alarm;
use evm::agreement::{NonceVerdict, majority, nonce_verdict};
use evm::{AgreedBlock, Head, Wait};
use metrics::{counter, gauge};
use store::blocks::Cursor;
use store::{blocks, doubtful_blocks, dues, lanes};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::chain::apply_block::{apply_block, lag, retry_due};
use crate::chain::disputes::{self, Dispute, may_pay, refuse, tell_refusal};
use crate::chain::forks;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Block hashes fetched when a chain is new to the database, so that a reorg right after the start finds its fork.
const KEPT_AT_START: u64 = 64;
/// Doubtful blocks kept. Deposits in those beyond are left to the rescan.
pub(crate) const MAX_DOUBTFUL_BLOCKS: u64 = 4_096;
/// Delay before another read of a block that a node announced and could not serve.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The same while the walk waits for nodes that are behind or down.
const WAITING_INTERVAL: Duration = Duration::from_millis(500);

/// Follows a chain until told to stop. After an error it waits and retries from the same cursor.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let chain = handle.id();
    let mut heads = handle.nodes.heads();
    let mut pause = RETRY_INTERVAL;
    let mut disputed = false;
    loop {
        let began = Instant::now();
        match walk(&solver, &handle, &mut heads, &stop, disputed).await {
            Ok(()) => return,
            Err(deep @ SolverError::DeepFork { .. }) => {
                error!(chain.id = %chain, "{deep}");
                return tell_refusal(&solver, &handle, deep.to_string()).await;
            }
            Err(failure) => {
                // Other failures in between leave a dispute as it was: its refusal tells.
                disputed &= handle.health.refusing().is_some();
                if matches!(failure, SolverError::Disputed { .. }) {
                    tell_refusal(&solver, &handle, failure.to_string()).await;
                    disputed = true;
                }
                warn!(chain.id = %chain, error = %Chained(&failure), "cannot follow chain {chain}, trying again");
                counter!("causeway_follow_errors_total", "chain" => chain.to_string()).increment(1);
            }
        }
        if began.elapsed() > Duration::from_secs(30) {
            pause = RETRY_INTERVAL;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
        }
    }
}

async fn walk(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    heads: &mut watch::Receiver<Option<Head>>,
    stop: &CancellationToken,
    disputed: bool,
) -> Result<(), SolverError> {
    if !start_checks(solver, handle).await? {
        // The walk would carry the cursor past the blocks that `recover` has to read.
        stop.cancelled().await;
        return Ok(());
    }
    let Some(mut at) = begin(solver, handle, heads, stop).await? else { return Ok(()) };
    let pays = may_pay(solver, handle, at, disputed).await?;
    let mut dispute = (!pays).then(|| Dispute::new(handle, at));
    if *handle.health.taken.borrow() == 0 {
        // Blocks that too few nodes had are noted as doubtful until more have them.
        let (chain, last, most) = (handle.id(), at.number, handle.max_unagreed());
        let noted = solver.store.read(move |tx| doubtful_blocks::run_up_to(tx, chain, last, most)).await?;
        handle.health.set_unagreed(if handle.has_one_node() { 0 } else { noted });
    }
    // A process that died between a block's commits and its cursor may find another block in its place.
    forks::undo_above(solver, handle, at.number).await?;
    handle.health.taken.send_replace(at.number);
    let mut woken = solver.store.woken();
    loop {
        let head = *heads.borrow_and_update();
        if let Some(head) = head {
            catch_up(solver, handle, &mut at, head, stop).await?;
            gauge!("causeway_chain_lag_blocks", "chain" => handle.id().to_string())
                .set(lag(head.number.saturating_sub(at.number)));
        }
        disputes::end_if_over(solver, handle, &mut dispute, at).await?;
        let behind = head.is_some_and(|head| at.number < head.number);
        let interval = if behind && handle.may_walk_ahead() { RETRY_INTERVAL } else { WAITING_INTERVAL };
        // Blocks that too few nodes have may be outvoted without a new head.
        let behind = behind || handle.health.unagreed() > 0;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = heads.changed() => if changed.is_err() { return Ok(()) },
            () = tokio::time::sleep(interval), if behind => {}
            () = disputes::due(dispute.as_ref()) => {}
            changed = woken.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                // Another process has committed work for us.
                retry_now(solver, handle, at, head).await?;
            }
            // Fills that waited for their trial.
            () = handle.trials.made.notified() => retry_now(solver, handle, at, head).await?,
            () = tokio::time::sleep(RETRY_INTERVAL), if handle.trials.has_unread() => {
                retry_now(solver, handle, at, head).await?;
            }
        }
    }
}

/// Tries the due rows, unless blocks are waiting: then the next of them does.
async fn retry_now(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    head: Option<Head>,
) -> Result<(), SolverError> {
    if let Some(head) = head.filter(|head| head.hash == at.hash) {
        retry_due(solver, handle, head).await?;
        handle.health.taken.send_replace(at.number);
    }
    Ok(())
}

/// The start-up checks; true if the chain may be walked. A database that knows fewer nonces than the chain is an old
/// backup: paying from it could pay twice. Payments in the nodes' mempools count as well.
async fn start_checks(solver: &Solver, handle: &ChainHandle) -> Result<bool, SolverError> {
    let chain = handle.id();
    for wallet in handle.senders() {
        solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
        let lanes = solver.store.read(move |tx| lanes::all(tx, chain)).await?;
        let ours = lanes.iter().find(|lane| lane.wallet == wallet).map_or(0, |lane| lane.next_nonce);
        let claims = nonce_claims(handle, wallet, ours).await?;
        let highest = claims.iter().copied().max().unwrap_or_default();
        match nonce_verdict(&claims, ours, handle.nodes.len()) {
            NonceVerdict::Known if highest > ours => {
                let what = format!(
                    "a node claims that wallet {wallet} has used {highest} nonces; the database knows {ours}, and most \
                     nodes show no more"
                );
                error!(chain.id = %chain, wallet = %wallet, "{what}");
                handle.health.alarms.raise(Alarm::NodesDisagree, what);
            }
            NonceVerdict::Known => {}
            NonceVerdict::Used(used) => {
                let why = older_than_chain(chain.0, wallet, ours, used);
                error!(chain.id = %chain, wallet = %wallet, "{why}");
                refuse(solver, handle, Some(why)).await?;
                return Ok(false);
            }
            // The other nodes have to say whether it is true.
            NonceVerdict::Undecided => return Err(SolverError::Disputed { chain }),
        }
    }
    if handle.settings.depository_caps.is_empty() {
        // No allocator signs here any more: dues that were left to the depository wait for our own funds again.
        solver.store.write(move |tx| dues::take_back(tx, chain)).await?;
    }
    Ok(true)
}

/// The nonces that the nodes claim to be used. While one claims more than we know and most do not, the others are given
/// the time that a node may lag: a payment that the database does not know of may be in the newest blocks.
async fn nonce_claims(handle: &ChainHandle, wallet: Address, ours: u64) -> Result<Vec<u64>, SolverError> {
    let began = Instant::now();
    let patience = (handle.block_time() * 16).clamp(Duration::from_secs(2), Duration::from_secs(60));
    loop {
        let claims = handle.nodes.used_nonces(wallet).await?;
        let verdict = nonce_verdict(&claims, ours, handle.nodes.len());
        let disputed = verdict == NonceVerdict::Known && claims.iter().any(|claim| *claim > ours);
        if !disputed || began.elapsed() > patience {
            return Ok(claims);
        }
        tokio::time::sleep(WAITING_INTERVAL).await;
    }
}

pub fn older_than_chain(chain: u64, wallet: Address, ours: u64, used: u64) -> String {
    format!(
        "the database is older than chain {chain}: wallet {wallet} has used {used} nonces there and the database \
         knows {ours}; no payments are made on this chain until `causeway recover` has imported what was sent"
    )
}

/// The block to continue from: the cursor or, with a new database, the configured block or the head. None when told to
/// stop.
async fn begin(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    heads: &mut watch::Receiver<Option<Head>>,
    stop: &CancellationToken,
) -> Result<Option<Cursor>, SolverError> {
    let chain = handle.id();
    if let Some(cursor) = solver.store.read(move |tx| blocks::cursor(tx, chain)).await? {
        return Ok(Some(cursor));
    }
    while heads.borrow_and_update().is_none() {
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            changed = heads.changed() => if changed.is_err() { return Ok(None) },
        }
    }
    // The first block is one that most nodes have: there is no way back from it.
    let most = majority(handle.nodes.len());
    let head = handle.nodes.quorum_header(most, 0).await?;
    let number = handle.settings.start_block.unwrap_or(head.number).min(head.number);
    let mut kept = Vec::new();
    for number in number.saturating_sub(KEPT_AT_START)..=number {
        kept.push(handle.nodes.quorum_number(most, number).await?);
    }
    let first = *kept.last().ok_or(SolverError::InvariantViolated("the start block is not known to any node"))?;
    let keep = blocks_kept(handle);
    let unit = move |tx: &mut store::Tx<'_>| {
        for head in &kept {
            let cursor = Cursor { number: head.number, hash: head.hash };
            blocks::advance(tx, chain, cursor, head.timestamp(), keep)?;
        }
        Ok::<_, SolverError>(blocks::set_rescanned(tx, chain, first.number)?)
    };
    solver.store.write(unit).await?;
    info!(chain.id = %chain, block = first.number, "following chain {chain} from block {}", first.number);
    Ok(Some(Cursor { number: first.number, hash: first.hash }))
}

async fn catch_up(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    at: &mut Cursor,
    head: Head,
    stop: &CancellationToken,
) -> Result<(), SolverError> {
    if head.number <= at.number
        && let Some(fork) = forks::leave_unagreed(solver, handle, *at).await?
    {
        *at = fork;
    }
    if head.number <= at.number {
        if !forks::is_known(solver, handle, head).await? {
            match forks::undo(solver, handle, *at).await {
                // The nodes disagree: no reason to undo our blocks.
                Err(SolverError::Disputed { .. }) => {}
                fork => *at = fork?,
            }
        }
        return Ok(());
    }
    let mut left = false;
    while at.number < head.number && !stop.is_cancelled() {
        let next = read_next(handle, *at, head).await?;
        if !left && next.as_ref().is_none_or(|next| !next.stands) {
            // Whoever led us here may be alone.
            if let Some(fork) = forks::leave_unagreed(solver, handle, *at).await? {
                (*at, left) = (fork, true);
                continue;
            }
        }
        // A block that was announced and cannot be read yet is tried again.
        let Some(next) = next else { return Ok(()) };
        if !next.stands && (handle.nodes.is_head_distrusted() || !handle.may_walk_ahead()) {
            // Payments that are due do not wait for the blocks.
            let now = u64::try_from(solver.now().secs()).unwrap_or_default();
            return retry_due(solver, handle, Head { number: at.number, hash: at.hash, time: now, ..head }).await;
        }
        if next.block.head.parent_hash != at.hash {
            let fork = forks::undo(solver, handle, *at).await?;
            let moving = fork.number == at.number;
            *at = fork;
            if moving {
                // Nodes disagree about the next block; one of them will switch.
                return Ok(());
            }
            continue;
        }
        apply(solver, handle, &next).await?;
        *at = Cursor { number: next.block.head.number, hash: next.block.head.hash };
        handle.health.taken.send_replace(at.number);
    }
    Ok(())
}

/// The block after the cursor, on the chain that most nodes are on.
async fn read_next(handle: &ChainHandle, at: Cursor, head: Head) -> Result<Option<AgreedBlock>, SolverError> {
    let (nodes, watch, number) = (&handle.nodes, &handle.watch, at.number + 1);
    // The hot path: the head is the child of our last block, so it is read by its own hash at once.
    let child = (head.number == number && head.parent_hash == at.hash).then_some(head.hash);
    let of_number = |read: &AgreedBlock| read.block.head.number == number;
    let mut read = match child {
        Some(hash) => nodes.agreed_block(number, hash, watch, Wait::Briefly).await?.filter(of_number),
        None => None,
    };
    if read.as_ref().is_some_and(|read| read.stands) || child.is_some() && nodes.len() == 1 {
        return Ok(read);
    }
    // Whoever announced the head may be alone with it. A block that most nodes have comes first, then that of most
    // votes.
    let prefers = |other: &Head| child.map_or(other.parent_hash == at.hash, |child| other.hash == child);
    let mut best = None;
    for voted in nodes.header_votes(number).await?.candidates(prefers) {
        let this = match Some(voted.hash) == child {
            true => read.take(),
            false => nodes.agreed_block(number, voted.hash, watch, Wait::Briefly).await?.filter(of_number),
        };
        if this.as_ref().is_some_and(|this| this.stands) {
            return Ok(this);
        }
        best = best.or(this);
    }
    Ok(best.or(read))
}

async fn apply(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, agreed: &AgreedBlock) -> Result<(), SolverError> {
    let doubtful = apply_block(solver, handle, agreed).await?;
    let block = &agreed.block;
    if !block.deposits.is_empty() || !block.sent.is_empty() {
        solver.crash("cursor.before");
    }
    let (chain, cursor) = (handle.id(), Cursor { number: block.head.number, hash: block.head.hash });
    let (time, keep, now) = (block.head.timestamp(), blocks_kept(handle), solver.now());
    let unit = move |tx: &mut store::Tx<'_>| {
        blocks::advance(tx, chain, cursor, time, keep)?;
        Ok::<_, SolverError>(!doubtful || doubtful_blocks::put(tx, chain, cursor, now, MAX_DOUBTFUL_BLOCKS)?)
    };
    if !solver.store.write(unit).await? {
        error!(chain.id = %chain, block = cursor.number, "too many blocks wait for their nodes to agree: the rescan reads this one again");
    }
    Ok(())
}

/// Number of blocks kept. The last final block is always among them: its time is needed.
fn blocks_kept(handle: &ChainHandle) -> u64 {
    forks::KEPT_BLOCKS.max(handle.settings.finality.saturating_add(1))
}
