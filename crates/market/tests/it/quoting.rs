//! Quotes of single pools, as they stand.

use alloy::primitives::Address;
use devnet::Devnet;
use domain::money::{Amount, UsdMicros, pow10};

use crate::mirrored::{Mirrored, compare};

#[tokio::test]
async fn every_quote_equals_the_chains_own() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let snapshot = mirrored.now().await;
    let compared = compare(&mirrored, &snapshot, 25, 0x9e37_79b9_7f4a_7c15).await;
    println!("{compared:?}");
    assert!(compared.quotes >= 400 && compared.crossed >= 50 && compared.most_crossed >= 4, "{compared:?}");
}

#[tokio::test]
async fn pools_that_did_not_change_are_shared_between_snapshots() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let first = mirrored.now().await;
    mirrored.chain.mine(1).await.unwrap();
    let second = mirrored.now().await;
    assert!(second.block > first.block);
    assert!(std::sync::Arc::ptr_eq(&first.pools, &second.pools));
}

#[tokio::test]
async fn a_token_without_a_feed_has_the_price_of_its_pool() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let snapshot = mirrored.now().await;
    let chain = mirrored.chain;
    let tail = chain.token("TAIL");
    assert!(!snapshot.prices.contains_key(&tail.address));
    let hundred = Amount::new(alloy::primitives::U256::from(100) * pow10(tail.decimals));
    let worth = snapshot.price(tail.address).unwrap().usd_floor(hundred, tail.decimals).unwrap();
    assert!((UsdMicros(1_990_000)..UsdMicros(2_010_000)).contains(&worth), "{worth}");
    // The wrapped token has the price of the native currency.
    assert_eq!(snapshot.price(chain.contracts.weth), snapshot.price(Address::ZERO));
    assert_eq!(snapshot.spots.get(&chain.token("USDC").address), None);
}
