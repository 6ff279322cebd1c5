//! Pools that are not what they seem.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::sol_types::SolValue;
use devnet::{Devnet, Options};
use market::{Pool, Snapshot, Tick, compare_all_ways};

use crate::following::own_devnet;
use crate::mirrored::{Mirrored, POOLS, until, watchlist};
use crate::trading::Trader;

#[tokio::test]
async fn a_pool_that_was_lied_about_is_found_out() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let snapshot = mirrored.now().await;
    let quoter = mirrored.chain.contracts.quoter;
    for pool in snapshot.pools.all() {
        assert_eq!(compare_all_ways(&mirrored.nodes, quoter, snapshot.hash, pool).await.unwrap(), None);
        // Twice as deep, and consistent in itself.
        let ticks: Arc<[_]> = pool.ticks().iter().map(|tick| Tick::new(tick.index, tick.net * 2).unwrap()).collect();
        let lie = Pool::new(*pool.key(), pool.sqrt_price(), pool.tick(), pool.liquidity() * 2, ticks).unwrap();
        let mismatch = compare_all_ways(&mirrored.nodes, quoter, snapshot.hash, &lie).await.unwrap().unwrap();
        // The chain refuses to sell liquidity that is not there.
        assert!(mismatch.theirs != Some(mismatch.ours));
    }
}

/// Anyone can open a position at every tick of a pool; the other pools must not suffer from it.
#[tokio::test]
async fn a_pool_with_too_many_ticks_is_left_out_and_the_others_load() {
    let devnet = own_devnet().await;
    let chain = devnet.chain("base");
    let trader = Trader::new(chain).await;
    let before = Mirrored::start(chain).now().await;
    let most = before.pools.all().iter().map(|pool| pool.ticks().len()).max().unwrap();
    let bounded = || {
        let mut watchlist = watchlist(chain);
        watchlist.dex.iter_mut().for_each(|dex| dex.most_ticks = most);
        Mirrored::start_with(chain, watchlist)
    };
    let watching = bounded();
    let first = watching.now().await;
    let pool = watching.pool(&first, "WETH", "USDC", 500);
    let crowded = pool.key().address;
    let spacing = pool.key().spacing;
    let middle = pool.tick().div_euclid(spacing) * spacing;
    trader.mint(pool, middle + 45 * spacing, middle + 61 * spacing, 5).await;

    // For a mirror that watched it happen, and for one that reads all pools afresh.
    for mirrored in [watching, bounded()] {
        let rest = |seen: &Arc<Snapshot>| seen.check_pools().is_ok() && seen.pools.all().len() == POOLS - 1;
        let left = until("the rest of the pools", || mirrored.latest().filter(rest)).await;
        assert_eq!(missing(&before, &left), Some(crowded));
    }
}

/// The storage slot of a tick: slot 5 holds the map, and a tick begins with its two liquidities.
fn place(tick: i32) -> B256 {
    keccak256((alloy::primitives::I256::try_from(tick).unwrap(), U256::from(5)).abi_encode())
}

#[tokio::test]
async fn a_pool_that_changes_without_a_word_is_dropped() {
    let options = Options { block_time: Duration::from_secs(3600), ..Options::default() };
    let devnet = Devnet::start(options).await.unwrap();
    let mirrored = Mirrored::start(devnet.chain("base"));
    let chain = mirrored.chain;
    let snapshot = mirrored.now().await;
    for pool in snapshot.pools.all() {
        for tick in pool.ticks().iter() {
            // The tick stays initialized, and no longer changes the liquidity when the price crosses it.
            let silenced = B256::from(U256::from(1));
            let at = (pool.key().address, place(tick.index), silenced);
            chain.rpc::<bool>("anvil_setStorageAt", at).await.unwrap();
        }
    }
    // Chance decides which pool is sampled, and how far, from block to block.
    let mut lost = None;
    for _ in 0..800 {
        let seen = ahead(&mirrored).await;
        lost = missing(&snapshot, &seen);
        if lost.is_some() {
            break;
        }
    }
    let lost = lost.expect("somebody notices");
    // The pool stays out, and the others go on.
    for _ in 0..5 {
        let seen = ahead(&mirrored).await;
        assert!(!seen.pools.all().is_empty());
        assert!(seen.pools.all().iter().all(|pool| pool.key().address != lost));
    }
}

/// Eight blocks later: fewer than may be missed without reading all ticks again.
async fn ahead(mirrored: &Mirrored<'_>) -> Arc<Snapshot> {
    mirrored.chain.mine(8).await.unwrap();
    let block = mirrored.chain.block_number().await.unwrap();
    until("the head", || mirrored.latest().filter(|seen| seen.block >= block)).await
}

fn missing(all: &Snapshot, seen: &Snapshot) -> Option<Address> {
    let has = |address| seen.pools.all().iter().any(|pool| pool.key().address == address);
    let mut gone = all.pools.all().iter().map(|pool| pool.key().address).filter(|&address| !has(address));
    gone.next().filter(|_| !seen.pools.all().is_empty())
}
