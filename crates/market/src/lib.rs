//! Prices, gas, pools and inventory now: one immutable snapshot per chain, replaced at every block.
//!
//! Readers take a pointer and never wait, neither for a lock nor for a node. A snapshot knows its age; a value too old
//! for its purpose is an error, never a guess.

mod check;
mod hedge;
mod jobs;
mod load;
mod mirror;
mod past;
mod pool;
mod pools;
mod refresh;
mod routes;
mod snapshot;
mod spot;
mod step;
mod tick;
mod trail;
mod watchlist;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use domain::ids::ChainId;

pub use check::{Mismatch, compare, compare_all_ways};
pub use hedge::hedge;
pub use past::{PriceSpan, past_prices};
pub use pool::{Pool, PoolKey};
pub use pools::Pools;
pub use refresh::refresh;
pub use routes::Routes;
pub use snapshot::{MarketError, Quoted, Snapshot, TokenFunds};
pub use tick::Tick;
pub use watchlist::{Dex, Feed, MAX_TICKS, Watchlist};

/// The current snapshot of every chain.
#[derive(Debug)]
pub struct Market {
    chains: BTreeMap<ChainId, ArcSwapOption<Snapshot>>,
}

impl Market {
    pub fn new(chains: impl IntoIterator<Item = ChainId>) -> Self {
        Self { chains: chains.into_iter().map(|chain| (chain, ArcSwapOption::empty())).collect() }
    }

    /// The newest snapshot, however old.
    pub fn latest(&self, chain: ChainId) -> Option<Arc<Snapshot>> {
        self.chains.get(&chain)?.load_full()
    }

    /// The newest snapshot, if it is fresh enough to promise anything on.
    pub fn current(&self, chain: ChainId) -> Result<Arc<Snapshot>, MarketError> {
        let snapshot = self.latest(chain).ok_or(MarketError::NoSnapshot { chain })?;
        snapshot.check_age()?;
        Ok(snapshot)
    }

    /// Replaces a chain's snapshot. `refresh` does it for chains with nodes.
    pub fn publish(&self, snapshot: Snapshot) {
        if let Some(chain) = self.chains.get(&snapshot.chain) {
            chain.store(Some(Arc::new(snapshot)));
        }
    }
}
