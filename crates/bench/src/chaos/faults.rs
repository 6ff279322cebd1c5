//! Faults during the run: the service dies, nodes misbehave, chains reorganise.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U64};
use anyhow::{Context, Result, bail};
use causeway::crash::POINTS;
use causeway::served::Served;
use devnet::{Chain, Fault, Faults, Rng};
use harness::Program;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::calls::relay_of;
use super::traffic::Traffic;

/// The deepest reorg: below the finality depth.
pub(crate) const MAX_REORG_DEPTH: u64 = 5;
/// Logs that a node lists in one answer.
const MAX_LOGS: usize = 2_000;
/// Blocks to wait for one with a transaction in it.
const BUSY_TRIES: u32 = 20;
/// Users on a slow machine may not be through by the last kill: kills then go on, up to this many times the number
/// asked for.
const MAX_KILLS: u64 = 4;
/// A service that does not serve by then is killed all the same.
const SLOWEST_START: Duration = Duration::from_secs(15);
/// Failed restarts in a row before the run gives up.
const RESTARTS: u32 = 40;

/// Counts of faults, updated during the run.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub kills: AtomicU64,
    /// Aborts at a crash point.
    pub crashes: AtomicU64,
    /// Times it exited by itself.
    pub ended: AtomicU64,
    pub reorgs: AtomicU64,
    /// Transactions removed by a reorg, and those among them that were mined again in other blocks.
    pub removed: AtomicU64,
    pub moved: AtomicU64,
    pub faults: AtomicU64,
    pub venue_faults: AtomicU64,
    pub venue_restarts: AtomicU64,
}

pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

pub(crate) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Kills the service at least this many times, at random moments, for as long as users have something to do, and leaves
/// one instance running.
pub(crate) async fn kill_often(
    program: &Program,
    kills: u64,
    traffic: &Traffic<'_>,
    counts: &Counts,
    mut rng: Rng,
) -> Result<Served> {
    let mut failures = 0;
    let mut served = program.serve(None)?;
    loop {
        let killed = get(&counts.kills);
        if killed >= kills && (traffic.is_through() || killed >= kills * MAX_KILLS) {
            return Ok(served);
        }
        // Some are killed while they start; most have begun to work.
        if !rng.once_in(5) {
            let patience = Instant::now() + SLOWEST_START;
            while served.ended()?.is_none() && Instant::now() < patience && !serves(traffic).await {
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        }
        let until = Instant::now() + rng.millis(20, 2_200);
        let mut ended = None;
        while ended.is_none() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(7)).await;
            ended = served.ended()?;
        }
        let pause = match ended {
            None => {
                served.kill()?;
                add(&counts.kills, 1);
                failures = 0;
                if rng.once_in(3) { rng.millis(0, 1_500) } else { Duration::ZERO }
            }
            // The process aborted at its crash point.
            Some(status) if status.code().is_none() => {
                add(&counts.crashes, 1);
                Duration::ZERO
            }
            // The database may not have noticed yet that the previous process is dead.
            Some(_) => {
                add(&counts.ended, 1);
                failures += 1;
                if failures > RESTARTS {
                    bail!("the service does not start any more; see {}", program.log.display());
                }
                Duration::from_millis(250)
            }
        };
        tokio::time::sleep(pause).await;
        let point = *rng.of(&POINTS);
        let last = get(&counts.kills) >= kills;
        served = program.serve(rng.once_in(4).then_some(point).filter(|_| !last))?;
    }
}

/// Makes one node of a chain misbehave after the other, sometimes both; clears all faults at the end.
pub(crate) async fn misbehave(nodes: [&Faults; 2], counts: &Counts, mut calm: watch::Receiver<bool>, mut rng: Rng) {
    while !*calm.borrow() {
        let first = usize::from(rng.once_in(2));
        let (fault, lies) = fault(&mut rng);
        put(nodes[first], fault);
        add(&counts.faults, 1);
        // A lie is detected by asking another node; if all of them lie, nobody can detect it.
        let (other, other_lies) = self::fault(&mut rng);
        if !lies && !other_lies && rng.once_in(2) {
            put(nodes[1 - first], other);
        }
        wait(&mut calm, rng.millis(300, 2_500)).await;
        for node in nodes {
            put(node, well());
        }
        wait(&mut calm, rng.millis(200, 2_000)).await;
    }
}

/// A node as good as they are: it refuses a query that finds too much.
pub(crate) fn well() -> Fault {
    Fault { max_logs: Some(MAX_LOGS), ..Fault::default() }
}

/// Changes a node's fault; forgeries of its owner stay.
pub(crate) fn put(node: &Faults, fault: Fault) {
    node.update(|it| *it = Fault { forgeries: std::mem::take(&mut it.forgeries), ..fault });
}

/// A random fault, and whether it makes the node lie.
fn fault(rng: &mut Rng) -> (Fault, bool) {
    let well = well();
    match rng.roll(10) {
        0 | 1 => (Fault { stall: true, ..well }, false),
        2 => (Fault { reset: true, ..well }, false),
        3 => (Fault { reject_sends: true, ..well }, false),
        4 => (Fault { drop_sends: true, ..well }, false),
        5 => (Fault { delay: rng.millis(20, 400), ..well }, false),
        6 => (Fault { stale_head: rng.between(1, 3), ..well }, true),
        7 => (Fault { hide_logs: true, ..well }, true),
        8 => (Fault { max_logs: Some(0), ..well }, false),
        _ => (Fault { wrong_block_hash: true, ..well }, true),
    }
}

pub(crate) async fn wait(calm: &mut watch::Receiver<bool>, time: Duration) {
    drop(tokio::time::timeout(time, calm.wait_for(|calm| *calm)).await);
}

/// Replaces the last blocks of a chain every now and then.
pub(crate) async fn reorganise(
    traffic: &Traffic<'_>,
    chain: usize,
    counts: &Counts,
    mut calm: watch::Receiver<bool>,
    mut rng: Rng,
) -> Result<()> {
    loop {
        wait(&mut calm, rng.millis(1_500, 6_000)).await;
        if *calm.borrow() {
            return Ok(());
        }
        let on = &traffic.devnet.chains[chain];
        // Replacing empty blocks would test little.
        for _ in 0..BUSY_TRIES {
            if *calm.borrow() || is_busy(on).await? {
                break;
            }
            tokio::time::sleep(on.block_time).await;
        }
        on.pause_mining().await;
        let reorged = reorg(on, counts, &mut rng).await.with_context(|| format!("a reorg of {}", on.name));
        on.resume_mining().await;
        let Reorged { dropped, relays } = reorged?;
        traffic.sends.note_reorged(relays);
        traffic.sends.dropped(&dropped, &mut rng).await;
    }
}

/// True if one of the last blocks contains a transaction.
async fn is_busy(chain: &Chain) -> Result<bool> {
    let head = chain.block_number().await?;
    for number in head.saturating_sub(2)..=head {
        let count: Option<U64> = chain.rpc("eth_getBlockTransactionCountByNumber", [U64::from(number)]).await?;
        if count.is_some_and(|count| count > U64::ZERO) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Deserialize, Serialize)]
struct Tx {
    hash: B256,
    from: Address,
    nonce: U64,
    input: Bytes,
}

/// A reorg's consequences.
struct Reorged {
    /// The transactions that are in none of the new blocks.
    dropped: Vec<B256>,
    /// Ids of relays that had succeeded in one of the old blocks, wherever they are now.
    relays: Vec<B256>,
}

/// Replaces the last blocks.
async fn reorg(chain: &Chain, counts: &Counts, rng: &mut Rng) -> Result<Reorged> {
    #[derive(Deserialize)]
    struct Block {
        transactions: Vec<Tx>,
    }
    let (head, depth) = (chain.block_number().await?, rng.between(1, MAX_REORG_DEPTH));
    let mut removed = Vec::new();
    for (place, number) in (head + 1 - depth..=head).enumerate() {
        let block: Block = chain.rpc("eth_getBlockByNumber", json!([U64::from(number), true])).await?;
        removed.extend(block.transactions.into_iter().map(|tx| (place as u64, tx)));
    }
    let relays = relays(chain, &removed).await?;
    // The first few transactions of each sender stay, so that no nonce gap arises.
    let mut fates: BTreeMap<Address, (u64, u64)> = BTreeMap::new();
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (place, tx) in &removed {
        let (stay, earliest) =
            fates.entry(tx.from).or_insert_with(|| (if rng.once_in(2) { rng.roll(4) } else { 0 }, 0));
        if *stay == 0 {
            dropped.push(tx.hash);
            continue;
        }
        *stay -= 1;
        *earliest = (*place).max(*earliest).max(rng.roll(depth));
        let raw: Bytes = chain.rpc("eth_getRawTransactionByHash", [tx.hash]).await?;
        kept.push((raw, *earliest));
    }
    kept.sort_by_key(|(_, place)| *place);
    chain.reorg(depth, &kept).await?;
    add(&counts.reorgs, 1);
    add(&counts.removed, removed.len() as u64);
    add(&counts.moved, kept.len() as u64);
    Ok(Reorged { dropped, relays })
}

/// The ids of relays that are among the transactions of some blocks, and have succeeded.
async fn relays(chain: &Chain, among: &[(u64, Tx)]) -> Result<Vec<B256>> {
    let mut ids = Vec::new();
    for (tx, id) in among.iter().filter_map(|(_, tx)| Some((tx, relay_of(&tx.input)?))) {
        let receipt: Value = chain.rpc("eth_getTransactionReceipt", [tx.hash]).await?;
        if receipt["status"] == "0x1" {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// True if the service serves every chain.
pub(crate) async fn serves(traffic: &Traffic<'_>) -> bool {
    let Ok((200, lives)) = traffic.api.get("/lives").await else { return false };
    let chains = lives["report"]["chains"].as_array();
    chains.is_some_and(|chains| !chains.is_empty() && chains.iter().all(|chain| !chain["block"].is_null()))
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
