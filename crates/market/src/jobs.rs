//! Background reads beside the refreshing of snapshots, and their results.

use alloy::primitives::{Address, B256};
use domain::ids::ChainId;
use evm::ChainError;
use std::sync::Arc;
use tracing::{error, warn};

use crate::check::{self, Mismatch};
use crate::load::{self, Source};
use crate::pool::{Pool, PoolKey};
use crate::pools::Pools;
use crate::watchlist::Dex;

#[derive(Debug)]
pub(crate) enum Done {
    Discovered(Result<Vec<PoolKey>, ChainError>),
    Loaded(Loaded),
    Sampled(Result<Option<Mismatch>, ChainError>),
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub asked: Vec<Address>,
    pub read: Result<Read, ChainError>,
}

#[derive(Debug)]
pub(crate) struct Read {
    pub at: B256,
    /// The pools as they were at that block.
    pub pools: Vec<Pool>,
    /// The pools that the chain's quoter contradicts.
    pub mismatches: Vec<Mismatch>,
    /// The pools with more ticks than we keep.
    pub crowded: Vec<Address>,
}

pub(crate) async fn discover(source: Source, dex: Dex) -> Done {
    Done::Discovered(load::discover(&source, &dex).await)
}

/// Pools are compared with the quoter before anyone sees them.
pub(crate) async fn load(source: Source, dex: Dex, keys: Vec<PoolKey>) -> Done {
    let read = async {
        let (found, crowded) = load::pools(&source, &keys, dex.most_ticks).await?;
        let (mut pools, mut mismatches) = (Vec::new(), Vec::new());
        for pool in found {
            match check::compare_all_ways(&source.nodes, dex.quoter, source.at, &pool).await? {
                None => pools.push(pool),
                Some(mismatch) => mismatches.push(mismatch),
            }
        }
        Ok(Read { at: source.at, pools, mismatches, crowded })
    };
    let read = read.await;
    Done::Loaded(Loaded { asked: keys.iter().map(|key| key.address).collect(), read })
}

/// Samples one pool, chosen by the block's hash: as good as chance, and no state to keep.
pub(crate) async fn sample(source: Source, quoter: Address, pools: Arc<Pools>) -> Done {
    let all = pools.all();
    let number = u64::from_be_bytes(source.at.last_chunk().copied().unwrap_or_default());
    let place = (number % all.len().max(1) as u64) as usize;
    Done::Sampled(match all.get(place) {
        Some(pool) => check::compare(&source.nodes, quoter, source.at, pool, source.at).await,
        None => Ok(None),
    })
}

/// Not an error: anyone may open a position at every tick there is.
pub(crate) fn report_crowded(chain: ChainId, pool: Address) {
    metrics::counter!("causeway_pools_crowded_total", "chain" => chain.to_string()).increment(1);
    warn!(chain.id = %chain, %pool, "pool {pool} has more ticks than are kept and is not used");
}

/// An error, because a person should look: either the chain's pools are not what we take them for, or a node lies.
pub(crate) fn report(chain: ChainId, mismatch: &Mismatch) {
    let Mismatch { pool, token, buying, amount, ours, theirs } = mismatch;
    metrics::counter!("causeway_pool_mismatch_total", "chain" => chain.to_string()).increment(1);
    error!(
        chain.id = %chain, pool = %pool.address, fee = pool.fee, %token, buying, %amount, %ours, ?theirs,
        "pool {} does not pay what we compute and is no longer used", pool.address
    );
}
