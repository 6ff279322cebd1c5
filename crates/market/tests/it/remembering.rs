//! Prices that have passed, from the rounds of a feed.

use std::time::Duration;

use alloy::primitives::Address;
use market::past_prices;

use crate::following::own_devnet;
use crate::mirrored::Mirrored;

const DOLLAR: i64 = 100_000_000;

#[tokio::test]
async fn a_feed_remembers_its_prices_at_any_time_since_its_first_round() {
    let devnet = own_devnet().await;
    let chain = devnet.chain("base");
    let mirrored = Mirrored::start(chain);
    let mut times = Vec::new();
    for dollars in [1_000, 2_000, 1_500] {
        chain.set_price("ETH", dollars * DOLLAR).await.unwrap();
        times.push(mirrored.now().await.time);
        chain.advance_time(Duration::from_secs(1_000)).await.unwrap();
    }
    // More rounds than one call reads.
    for dollars in 4_000..4_100 {
        chain.submit_price("ETH", dollars * DOLLAR).await.unwrap();
    }
    chain.set_price("ETH", 4_100 * DOLLAR).await.unwrap();
    let snapshot = mirrored.now().await;
    let feed = snapshot.feed_of(Address::ZERO).unwrap();
    for (span, expected) in [
        ((times[0], times[0]), Some((1_000, 1_000))),
        ((times[0] + 500, times[1]), Some((1_000, 2_000))),
        ((times[1], times[1] + 60), Some((2_000, 2_000))),
        ((times[1], times[2]), Some((1_500, 2_000))),
        ((snapshot.time, snapshot.time + 60), Some((4_100, 4_100))),
        ((times[2], snapshot.time), Some((1_500, 4_100))),
        ((1, snapshot.time), None),
    ] {
        let found = past_prices(&mirrored.nodes, chain.contracts.multicall3, feed, span, snapshot.hash).await.unwrap();
        let found = found.map(|span| [span.low, span.high].map(|price| price.answer() / 100_000_000));
        assert_eq!(found, expected.map(|(low, high)| [low, high]), "{span:?}");
    }
}
