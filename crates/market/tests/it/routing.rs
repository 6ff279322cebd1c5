//! The best route through several pools.

use alloy::primitives::{Address, U256};
use devnet::Devnet;
use domain::money::Amount;
use domain::swap::{Exchange, Path};
use market::Snapshot;

use crate::mirrored::{Mirrored, Rng};

/// Every route with at most two hops, good or not.
fn paths(snapshot: &Snapshot, from: Address, to: Address) -> Vec<Path> {
    let mut paths = vec![];
    let touching = |token: Address| {
        let pools = snapshot.pools.all().iter();
        pools.filter(move |pool| pool.key().token0 == token || pool.key().token1 == token)
    };
    for first in touching(from) {
        let middle = first.other(from);
        if middle == to {
            paths.push(Path::new(vec![from, to], vec![first.key().fee]).unwrap());
            continue;
        }
        for second in touching(middle).filter(|pool| pool.other(middle) == to) {
            paths.push(Path::new(vec![from, middle, to], vec![first.key().fee, second.key().fee]).unwrap());
        }
    }
    paths
}

#[tokio::test]
async fn an_offer_is_what_the_chain_gives_and_the_best_there_is() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let snapshot = mirrored.now().await;
    let token = |symbol| mirrored.chain.token(symbol).address;
    let mut rng = Rng(0x1234_5678_9abc_def1);
    let mut two_hops = 0;
    let pairs =
        [("WETH", "USDC"), ("USDC", "TAIL"), ("TAIL", "USDC"), ("DAI", "USDT"), ("DAI", "WETH"), ("WETH", "USDT")];
    for (from, to) in pairs {
        let (from, to) = (token(from), token(to));
        let exchange = snapshot.exchange(from, to).unwrap();
        let paths = paths(&snapshot, from, to);
        assert!(!paths.is_empty());
        for _ in 0..6 {
            let depth = |token| {
                let pools = snapshot.pools.all().iter();
                let pools = pools.filter(|pool| [pool.key().token0, pool.key().token1].contains(&token));
                pools.map(|pool| pool.depth(token)).max().unwrap()
            };
            let input = rng.part_of(depth(from) / U256::from(4));
            let Some(offer) = exchange.sell(Amount::new(input)) else { continue };
            let along = mirrored.sell_along(snapshot.hash, &offer.path, input).await;
            assert_eq!(along, Some(offer.amount.units()), "{:?}", offer.path);
            for path in &paths {
                let other = mirrored.sell_along(snapshot.hash, path, input).await.unwrap();
                assert!(other <= offer.amount.units(), "{path:?} beats {:?}", offer.path);
            }
            two_hops += usize::from(offer.path.fees().len() == 2);

            let output = rng.part_of(depth(to) / U256::from(50));
            let Some(offer) = exchange.buy(Amount::new(output)) else { continue };
            let along = mirrored.buy_along(snapshot.hash, &offer.path, output).await;
            assert_eq!(along, Some(offer.amount.units()), "{:?}", offer.path);
            for path in &paths {
                let other = mirrored.buy_along(snapshot.hash, path, output).await;
                assert!(other.is_none_or(|other| other >= offer.amount.units()), "{path:?} beats {:?}", offer.path);
            }
            assert_eq!((offer.path.tokens().first(), offer.path.tokens().last()), (Some(&from), Some(&to)));
        }
    }
    assert!(two_hops >= 12, "{two_hops}");
}

#[tokio::test]
async fn the_native_currency_trades_as_its_wrapped_token_and_for_it_at_par() {
    let devnet = Devnet::shared().await;
    let mirrored = Mirrored::start(devnet.chain("base"));
    let snapshot = mirrored.now().await;
    let (weth, usdc) = (mirrored.chain.contracts.weth, mirrored.chain.token("USDC").address);
    let amount = Amount::new(U256::from(10).pow(U256::from(18)));
    let sell = |from, to| snapshot.exchange(from, to).unwrap().sell(amount);
    assert_eq!(sell(Address::ZERO, usdc), sell(weth, usdc));
    assert!(sell(weth, usdc).is_some());
    for (from, to) in [(Address::ZERO, weth), (weth, Address::ZERO)] {
        let offer = sell(from, to).unwrap();
        assert!(offer.path.is_wrapping() && offer.amount == amount);
        assert_eq!(snapshot.exchange(from, to).unwrap().buy(amount), Some(offer));
    }
    assert!(snapshot.exchange(usdc, usdc).is_none());
    assert!(snapshot.exchange(Address::repeat_byte(9), usdc).unwrap().sell(amount).is_none());
    // More than there is.
    assert!(snapshot.exchange(weth, usdc).unwrap().buy(Amount::new(U256::MAX)).is_none());
}
