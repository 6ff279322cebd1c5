//! The pools of a chain, kept exact from head to head.
//!
//! Price and liquidity of every pool are read at every head. Its ticks are read once in full, in the background, and
//! from then on only where a block changed them. A pool whose ticks are not known at a head is not in its snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes};
use evm::{ChainError, Head, Nodes};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::jobs::{self, Done, Loaded, Read};
use crate::load::{self, STATE_CALLS, Source};
use crate::pool::{Pool, PoolKey};
use crate::pools::Pools;
use crate::tick::Tick;
use crate::trail::{Growth, Trail};
use crate::watchlist::{Dex, Watchlist};

/// The interval of the search for new pools.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(600);

/// The pause after a read that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Heads between two comparisons with the chain's quoter.
const SAMPLED: u64 = 16;

#[derive(Debug)]
pub(crate) struct Mirror {
    nodes: Nodes,
    multicall3: Address,
    dex: Dex,
    entries: BTreeMap<Address, Entry>,
    /// Pools that the chain's quoter contradicted, at which a person has to look, and those with more ticks than we
    /// keep. They stay out until a restart.
    dropped: BTreeSet<Address>,
    trail: Trail,
    pools: Arc<Pools>,
    /// The time they were last read.
    read_at: Option<Instant>,
    jobs: JoinSet<Done>,
    /// One background read at a time: each asks a lot.
    reading: bool,
    sampling: bool,
    sampled: u64,
    discovered: bool,
    discover_after: Instant,
}

#[derive(Debug)]
struct Entry {
    key: PoolKey,
    /// The ticks, and the block at which they were read.
    known: Option<(B256, Arc<[Tick]>)>,
    load_after: Instant,
}

impl Mirror {
    /// None where there is no DEX.
    pub(crate) fn new(nodes: &Nodes, watchlist: &Watchlist) -> Option<Self> {
        let dex = watchlist.dex.clone()?;
        Some(Self {
            nodes: nodes.clone(),
            multicall3: watchlist.multicall3,
            dex,
            entries: BTreeMap::new(),
            dropped: BTreeSet::new(),
            trail: Trail::default(),
            pools: Arc::new(Pools::new(watchlist)),
            read_at: None,
            jobs: JoinSet::new(),
            reading: false,
            sampling: false,
            sampled: 0,
            discovered: false,
            discover_after: Instant::now(),
        })
    }

    /// The calls for the next head, sent in the same request as everything else.
    pub(crate) fn calls(&self) -> Vec<(Address, Bytes)> {
        let known = self.entries.iter().filter(|(_, entry)| entry.known.is_some());
        known.flat_map(|(&address, _)| load::state_calls(address)).collect()
    }

    /// Pools that are still being read are watched too, so that their ticks can be brought forward.
    pub(crate) async fn towards(&self, head: Head) -> Result<Growth, ChainError> {
        let watched: Vec<_> = self.entries.keys().copied().collect();
        self.trail.towards(&self.nodes, &watched, head).await
    }

    /// The pools for a head at which nothing is known for sure: as they were last read, as long as that is not longer
    /// ago than a snapshot may be old. Every trade has its own bound, so a little late costs nobody anything.
    pub(crate) fn former(&self, max_age: Duration) -> Arc<Pools> {
        let fresh = self.read_at.is_some_and(|at| at.elapsed() <= max_age);
        let stays = |pool: &&Pool| fresh && !self.dropped.contains(&pool.key().address);
        let pools = self.pools.all().iter().filter(stays).cloned().collect();
        Arc::new(self.pools.with(pools).partial(true))
    }

    /// The pools at a head, from the answers to [`Self::calls`]. May be dropped while it waits.
    pub(crate) async fn at(&mut self, head: Head, answers: &[Bytes], growth: Growth) -> Arc<Pools> {
        self.trail.grow(growth);
        let known = self.entries.values_mut().filter(|entry| entry.known.is_some());
        let mut states = BTreeMap::new();
        let mut changed = Vec::new();
        for (entry, state) in known.zip(answers.chunks(STATE_CALLS)) {
            let Some((at, _)) = &entry.known else { continue };
            let address = entry.key.address;
            match self.trail.since(*at, address) {
                Some(ticks) => {
                    changed.extend(ticks.iter().map(|&tick| (address, tick)));
                    states.insert(address, (state, ticks));
                }
                None => entry.known = None,
            }
        }
        let source = self.source(head);
        let read = match load::some_ticks(&source, &changed).await {
            Ok(read) => read,
            Err(error) => {
                debug!(chain.id = %self.nodes.chain(), %error, "cannot read the ticks that changed");
                BTreeMap::new()
            }
        };
        let (mut pools, mut crowded) = (Vec::new(), Vec::new());
        for (address, (state, ticks)) in states {
            let Some(entry) = self.entries.get_mut(&address) else { continue };
            let Some((at, old)) = &mut entry.known else { continue };
            // Ticks that could not be read now are read at the next head: the known ones stay valid for the block they
            // were read at.
            if !ticks.iter().all(|&tick| read.contains_key(&(address, tick))) {
                continue;
            }
            if !ticks.is_empty() {
                let fresh = ticks.iter().filter_map(|&tick| read.get(&(address, tick))?.clone());
                *old = patched(old, &ticks, fresh);
            }
            if old.len() > self.dex.most_ticks {
                crowded.push(address);
                continue;
            }
            *at = head.hash;
            match load::pool(entry.key, state, old.clone()) {
                Some(pool) => pools.push(pool),
                None => {
                    warn!(chain.id = %self.nodes.chain(), pool = %address, "pool {address} does not add up; reading it again");
                    entry.known = None;
                    entry.load_after = Instant::now() + RETRY_INTERVAL;
                }
            }
        }
        crowded.into_iter().for_each(|pool| self.drop_crowded(pool));
        self.read_at = Some(Instant::now());
        let partial = !self.discovered || pools.len() < self.entries.len();
        let next = self.pools.with(pools).partial(partial);
        if !self.pools.is_same(&next) {
            self.pools = Arc::new(next);
        }
        self.pools.clone()
    }

    /// Starts the jobs that are due. The head is the one that [`Self::at`] was last called for.
    pub(crate) fn work(&mut self, head: Head) {
        let now = Instant::now();
        if !self.reading && now >= self.discover_after {
            self.reading = true;
            self.jobs.spawn(jobs::discover(self.source(head), self.dex.clone()));
        }
        // Ticks can be brought forward from blocks of the trail only.
        if !self.reading && self.trail.since(head.hash, Address::ZERO).is_some() {
            let due = self.entries.values().filter(|entry| entry.known.is_none() && now >= entry.load_after);
            let keys: Vec<_> = due.map(|entry| entry.key).collect();
            if !keys.is_empty() {
                self.reading = true;
                self.jobs.spawn(jobs::load(self.source(head), self.dex.clone(), keys));
            }
        }
        if !self.sampling && !self.pools.all().is_empty() && head.number >= self.sampled.saturating_add(SAMPLED) {
            (self.sampling, self.sampled) = (true, head.number);
            self.jobs.spawn(jobs::sample(self.source(head), self.dex.quoter, self.pools.clone()));
        }
    }

    /// Waits until a background read changes the pools, or a failed one is due again.
    pub(crate) async fn learn(&mut self) {
        loop {
            let missing = self.entries.values().any(|entry| entry.known.is_none()) || self.entries.is_empty();
            match self.jobs.join_next().await {
                None if missing => return tokio::time::sleep(RETRY_INTERVAL).await,
                None => std::future::pending().await,
                Some(Ok(done)) => {
                    if self.take(done) {
                        return;
                    }
                }
                // The job panicked, and said so; its read is due again.
                Some(Err(_)) => (self.reading, self.sampling) = (false, false),
            }
        }
    }

    fn take(&mut self, done: Done) -> bool {
        let now = Instant::now();
        match done {
            Done::Discovered(Ok(keys)) => {
                (self.reading, self.discovered, self.discover_after) = (false, true, now + DISCOVERY_INTERVAL);
                for key in keys.into_iter().filter(|key| !self.dropped.contains(&key.address)) {
                    self.entries.entry(key.address).or_insert(Entry { key, known: None, load_after: now });
                }
                true
            }
            Done::Discovered(Err(error)) => {
                (self.reading, self.discover_after) = (false, now + RETRY_INTERVAL);
                warn!(chain.id = %self.nodes.chain(), %error, "cannot look for the pools of chain {}", self.nodes.chain());
                false
            }
            Done::Loaded(Loaded { asked, read }) => {
                self.reading = false;
                for address in asked {
                    self.entries.entry(address).and_modify(|entry| entry.load_after = now + RETRY_INTERVAL);
                }
                let Read { at, pools, mismatches, crowded } = match read {
                    Ok(read) => read,
                    Err(error) => {
                        warn!(chain.id = %self.nodes.chain(), %error, "cannot read the pools of chain {}", self.nodes.chain());
                        return false;
                    }
                };
                for pool in pools {
                    if let Some(entry) = self.entries.get_mut(&pool.key().address) {
                        entry.known = Some((at, pool.ticks().clone()));
                        entry.load_after = now;
                    }
                }
                mismatches.iter().for_each(|mismatch| self.drop_pool(mismatch));
                crowded.into_iter().for_each(|pool| self.drop_crowded(pool));
                true
            }
            Done::Sampled(Ok(mismatch)) => {
                self.sampling = false;
                mismatch.iter().for_each(|mismatch| self.drop_pool(mismatch));
                mismatch.is_some()
            }
            Done::Sampled(Err(error)) => {
                self.sampling = false;
                debug!(chain.id = %self.nodes.chain(), %error, "cannot compare a pool with the chain's quoter");
                false
            }
        }
    }

    fn drop_pool(&mut self, mismatch: &crate::check::Mismatch) {
        jobs::report(self.nodes.chain(), mismatch);
        self.entries.remove(&mismatch.pool.address);
        self.dropped.insert(mismatch.pool.address);
    }

    fn drop_crowded(&mut self, pool: Address) {
        jobs::report_crowded(self.nodes.chain(), pool);
        self.entries.remove(&pool);
        self.dropped.insert(pool);
    }

    fn source(&self, head: Head) -> Source {
        Source { nodes: self.nodes.clone(), multicall3: self.multicall3, at: head.hash }
    }
}

/// The ticks with the changed ones replaced by their current state, which may be none.
fn patched(old: &[Tick], changed: &BTreeSet<i32>, fresh: impl Iterator<Item = Tick>) -> Arc<[Tick]> {
    let mut ticks: Vec<_> = old.iter().filter(|tick| !changed.contains(&tick.index)).cloned().chain(fresh).collect();
    ticks.sort_by_key(|tick| tick.index);
    ticks.into()
}

#[cfg(test)]
mod tests {
    use evm::Endpoint;

    use super::*;
    use crate::pool::tests::pool;

    #[test]
    fn pools_that_cannot_be_read_for_a_moment_stay_until_they_are_too_old() {
        let endpoint = Endpoint { http: "http://127.0.0.1:1".parse().unwrap(), ws: None };
        let nodes = Nodes::new(domain::ids::ChainId(1), vec![endpoint], RETRY_INTERVAL).unwrap();
        let dex = Dex {
            factory: Address::ZERO,
            quoter: Address::ZERO,
            wrapped: Address::ZERO,
            tokens: Vec::new(),
            fee_tiers: Vec::new(),
            most_ticks: 1,
        };
        let watchlist = Watchlist {
            multicall3: Address::ZERO,
            feeds: Vec::new(),
            treasury: Address::ZERO,
            wallets: Vec::new(),
            relayers: Vec::new(),
            tokens: Vec::new(),
            spend_limiter: None,
            gas_oracle: None,
            tip: 0,
            max_age: RETRY_INTERVAL,
            dex: Some(dex),
        };
        let mut mirror = Mirror::new(&nodes, &watchlist).unwrap();
        assert!(mirror.former(RETRY_INTERVAL).all().is_empty(), "nothing was ever read");
        let known = [pool((1, 2), 500, &[(-60, 60, 1_000)]), pool((1, 3), 500, &[(-60, 60, 1_000)])];
        mirror.pools = Arc::new(mirror.pools.with(known.to_vec()));
        mirror.read_at = Some(Instant::now());
        let former = mirror.former(RETRY_INTERVAL);
        assert!(former.all().len() == 2 && former.is_partial());
        assert!(mirror.former(Duration::ZERO).all().is_empty(), "too old");
        mirror.drop_crowded(known[0].key().address);
        let left = mirror.former(RETRY_INTERVAL);
        assert!(left.all().len() == 1 && left.all()[0].is_same(&known[1]), "what was dropped does not come back");
    }

    #[test]
    fn changed_ticks_are_replaced_added_and_removed() {
        let tick = |index, net| Tick::new(index, net).unwrap();
        let old = [tick(-60, 5), tick(0, 7), tick(60, -12)];
        let fresh = [tick(120, -7), tick(60, -5)];
        let ticks = patched(&old, &[0, 60, 120].into(), fresh.into_iter());
        assert_eq!(*ticks, [tick(-60, 5), tick(60, -5), tick(120, -7)]);
    }
}
