//! Pools that others move, and blocks that go away.

use std::time::Duration;

use alloy::primitives::U256;
use devnet::{Devnet, Options};

use crate::mirrored::{Mirrored, compare, until};
use crate::trading::Trader;

pub(crate) async fn own_devnet() -> Devnet {
    Devnet::start(Options { block_time: Duration::from_millis(100), ..Options::default() }).await.unwrap()
}

#[tokio::test]
async fn a_price_exactly_on_a_tick_is_on_the_side_the_chain_says() {
    let devnet = own_devnet().await;
    let chain = devnet.chain("base");
    let trader = Trader::new(chain).await;
    let mirrored = Mirrored::start(chain);
    for (a, b, fee) in [("WETH", "USDC", 3000), ("USDC", "DAI", 100)] {
        for down in [true, true, false, false, false, true] {
            let snapshot = mirrored.now().await;
            let pool = mirrored.pool(&snapshot, a, b, fee);
            let beyond = |price: U256| if down { price < pool.sqrt_price() } else { price > pool.sqrt_price() };
            let mut ticks = pool.ticks().iter().filter(|tick| beyond(tick.sqrt_price()));
            let tick = if down { ticks.next_back() } else { ticks.next() }.unwrap().clone();
            let token = if down { pool.key().token0 } else { pool.key().token1 };
            trader.swap(pool, token, pool.depth(token) * U256::from(100), tick.sqrt_price()).await;
            let snapshot = mirrored.now().await;
            let moved = mirrored.pool(&snapshot, a, b, fee);
            assert_eq!(moved.sqrt_price(), tick.sqrt_price());
            assert_eq!(moved.tick(), if down { tick.index - 1 } else { tick.index });
            assert!(compare(&mirrored, &snapshot, 3, 77).await.quotes > 40);
        }
    }
}

#[tokio::test]
async fn snapshots_follow_swaps_and_liquidity() {
    let devnet = own_devnet().await;
    let chain = devnet.chain("optimism");
    let trader = Trader::new(chain).await;
    let mirrored = Mirrored::start(chain);
    let first = mirrored.now().await;
    let pool = mirrored.pool(&first, "WETH", "USDC", 500);
    let spacing = pool.key().spacing;
    let middle = pool.tick().div_euclid(spacing) * spacing;

    let token = pool.key().token0;
    trader.swap(pool, token, pool.depth(token) / U256::from(300), U256::ZERO).await;
    let swapped = mirrored.now().await;
    assert_ne!(mirrored.pool(&swapped, "WETH", "USDC", 500).sqrt_price(), pool.sqrt_price());
    compare(&mirrored, &swapped, 3, 1).await;

    // Liquidity around the price, and away from it, where only the ticks tell.
    let around = trader.mint(pool, middle - 30 * spacing, middle + 33 * spacing, 10).await;
    let minted = mirrored.now().await;
    assert!(
        mirrored.pool(&minted, "WETH", "USDC", 500).liquidity()
            > mirrored.pool(&swapped, "WETH", "USDC", 500).liquidity()
    );
    compare(&mirrored, &minted, 3, 2).await;
    let apart = trader.mint(pool, middle + 45 * spacing, middle + 61 * spacing, 5).await;
    let with_both = mirrored.now().await;
    let ticks = |snapshot| mirrored.pool(snapshot, "WETH", "USDC", 500).ticks().len();
    assert_eq!(ticks(&with_both), ticks(&minted) + 2);
    compare(&mirrored, &with_both, 3, 3).await;

    // A part is burnt, then another position whole: a tick at which nothing begins is no tick.
    trader.burn(&apart, 3).await;
    let partly = mirrored.now().await;
    compare(&mirrored, &partly, 3, 4).await;
    trader.burn(&around, 1).await;
    let burnt = mirrored.now().await;
    assert_eq!(ticks(&burnt), ticks(&with_both) - 2);
    compare(&mirrored, &burnt, 3, 5).await;
}

#[tokio::test]
async fn a_reorg_takes_back_swaps_and_liquidity() {
    let devnet = own_devnet().await;
    let chain = devnet.chain("arbitrum");
    let trader = Trader::new(chain).await;
    chain.mine(2).await.unwrap();
    let mirrored = Mirrored::start(chain);
    let before = mirrored.now().await;
    let start = chain.block_number().await.unwrap();
    let pool = mirrored.pool(&before, "WETH", "USDC", 3000);
    let spacing = pool.key().spacing;
    let middle = pool.tick().div_euclid(spacing) * spacing;
    let token = pool.key().token1;
    trader.swap(pool, token, pool.depth(token) / U256::from(20), U256::ZERO).await;
    trader.mint(pool, middle + 80 * spacing, middle + 90 * spacing, 7).await;
    let after = mirrored.now().await;
    let moved = mirrored.pool(&after, "WETH", "USDC", 3000);
    assert!(moved.sqrt_price() != pool.sqrt_price() && moved.ticks().len() == pool.ticks().len() + 2);
    compare(&mirrored, &after, 3, 6).await;

    chain.pause_mining().await;
    let depth = chain.block_number().await.unwrap() - start;
    chain.reorg(depth, &[]).await.unwrap();
    chain.mine(1).await.unwrap();
    let head = mirrored.nodes.head().await.unwrap();
    let again = until("the new chain with all pools", || {
        mirrored.latest().filter(|snapshot| snapshot.hash == head.hash && snapshot.pools.all().len() == 5)
    })
    .await;
    let back = mirrored.pool(&again, "WETH", "USDC", 3000);
    assert_eq!((back.sqrt_price(), back.ticks()), (pool.sqrt_price(), pool.ticks()));
    compare(&mirrored, &again, 5, 7).await;
}
