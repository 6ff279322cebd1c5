//! The cap on void payments: counted from the rows of the last hour, whoever reads them.

use alloy::primitives::{Address, U256};
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;
use domain::venue::AccountIndex;
use market::Quoted;
use store::{Tx, payments};

use super::world::*;
use crate::chain::payment_events::{finalise, mined};
use crate::chain::void_cap::{self, VoidCap};
use crate::error::SolverError;

const HOUR_MILLIS: i64 = 3_600_000;
const CAP: UsdMicros = UsdMicros(100);
/// The worth of every payment here.
const WORTH: UsdMicros = UsdMicros(60);

fn worth(_: Address, _: Amount) -> Option<UsdMicros> {
    Some(WORTH)
}

/// The rest of the cap, by how much still fits.
async fn fits(world: &World, chain: ChainId, at: Timestamp, more: i64) -> bool {
    let read = move |tx: &mut Tx<'_>| VoidCap::read(tx, chain, CAP, at, worth);
    world.store.read(read).await.unwrap().take(Some(UsdMicros(more)))
}

#[tokio::test]
async fn void_payments_count_for_an_hour_and_failed_ones_not_yet() {
    let world = World::new().await;
    let (_, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let fill = world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().remove(0);
    let (handle, failed) = (world.handle(DESTINATION), sent(&fill, false));
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &failed, context)).await.unwrap();
    let last = |millis| Timestamp::from_millis(NOW.millis() + millis);
    assert!(fits(&world, DESTINATION, last(0), 100).await, "it has failed, and is not void yet");
    let id = fill.id;
    let unit = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
        let row = payments::find(tx, id)?.unwrap();
        finalise(tx, &row, context)
    };
    world.unit(unit).await.unwrap();
    assert!(!fits(&world, DESTINATION, last(0), 41).await && fits(&world, DESTINATION, last(0), 40).await);
    assert!(fits(&world, ORIGIN, last(0), 100).await, "each chain has its own");
    assert!(!fits(&world, DESTINATION, last(HOUR_MILLIS - 1), 41).await);
    assert!(fits(&world, DESTINATION, last(HOUR_MILLIS), 100).await);
    // A worth that is not known leaves nothing.
    let unknown = |tx: &mut Tx<'_>| VoidCap::read(tx, DESTINATION, CAP, NOW, |_, _| None);
    let mut cap = world.store.read::<_, SolverError>(unknown).await.unwrap();
    assert!(!cap.take(Some(UsdMicros(1))));
}

/// Nobody quotes on a price that is too old, and the cap goes on with it: otherwise one void payment of ether keeps all
/// others from being void for an hour.
#[tokio::test]
async fn ether_on_the_venue_is_worth_its_last_price_however_old() {
    let mut world = World::new().await;
    let ether = AccountIndex::new(1).unwrap().packed();
    let old = Quoted { price: dollar(3_000), age_secs: 1, max_age_secs: 0 };
    world.snapshot(ORIGIN, |snapshot| {
        snapshot.prices.insert(ether, old);
    });
    let snapshot = world.context.chains[&ORIGIN].1.clone().unwrap();
    assert!(snapshot.price(ether).is_err());
    let one = Amount::new(U256::from(100_000_000));
    assert_eq!(void_cap::worth(Some(&snapshot), ether, one), Some(UsdMicros(3_000_000_000)));
    assert_eq!(void_cap::worth(None, ether, one), None);
}
