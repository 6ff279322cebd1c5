//! The venue's snapshot: its clock, the balances of our account, the fee of our transfers, and the price of its
//! collateral.
//!
//! It stands beside the snapshots of chains with nodes, and quotes and payments read it like any other. The collateral
//! is USDC, and is worth what USDC is worth on the chains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256};
use domain::money::{Amount, Price};
use domain::venue::{Asset, Holding, Route};
use futures::FutureExt;
use futures::future::BoxFuture;
use market::{Quoted, Snapshot, TokenFunds};
use tracing::{debug, warn};

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, is_in_time};
use crate::payments::venue_tx::head_at;
use crate::solver::Solver;

/// The assets that deposits by mistake may be of, with the ids that the same asset has on the chains.
const PRICED: [(Asset, Route, &str); 3] =
    [(Asset::USDC, Route::Perps, "usdc"), (Asset::USDC, Route::Spot, "usdc"), (Asset::ETH, Route::Spot, "eth")];

/// Publishes a snapshot again and again, until its future is dropped.
pub fn refresh(solver: Arc<Solver>, handle: Arc<ChainHandle>, max_age: Duration) -> BoxFuture<'static, ()> {
    async move {
        let Some(venue) = &handle.venue else { return };
        let mut failing = false;
        loop {
            match read(&solver, &handle, venue, max_age).await {
                Ok(snapshot) => {
                    solver.market.publish(snapshot);
                    failing = false;
                }
                // Logged once: the age of the snapshot tells the rest.
                Err(error) if !failing => {
                    warn!(chain.id = %handle.id(), error = %Chained(&error), "cannot read the venue");
                    failing = true;
                }
                Err(error) => debug!(chain.id = %handle.id(), error = %Chained(&error), "still cannot read the venue"),
            }
            tokio::time::sleep(venue.poll_interval * 2).await;
        }
    }
    .boxed()
}

async fn read(
    solver: &Solver,
    handle: &ChainHandle,
    venue: &VenueChain,
    max_age: Duration,
) -> Result<Snapshot, SolverError> {
    // The clock first: whatever the balances do not show yet is later than it.
    let head = head_at(venue.client.status().await?.time_millis / 1_000);
    if !is_in_time(head.time, solver.now()) {
        return Err(SolverError::InvariantViolated("the venue's clock differs from ours"));
    }
    let account = venue.client.account(venue.account).await?;
    let account = account.ok_or(SolverError::InvariantViolated("the venue does not know our account"))?;
    let amount = |units: u64| Amount::new(U256::from(units));
    let wallet = venue.account.packed();
    let spot = account.spot.iter().map(|(asset, units)| {
        let funds = TokenFunds {
            treasury: amount(*units),
            allowances: BTreeMap::from([(wallet, amount(*units))]),
            ..TokenFunds::default()
        };
        (packed(Holding { asset: *asset, route: Route::Spot }), funds)
    });
    Ok(Snapshot {
        chain: handle.id(),
        block: head.number,
        hash: head.hash,
        time: head.time,
        base_fee: 0,
        // Quotes charge the most that a transfer of ours may cost.
        tip: handle.settings.max_fee_cap,
        data_fee: Amount::ZERO,
        prices: prices(solver, handle),
        feeds: Arc::new([]),
        spots: BTreeMap::new(),
        native: BTreeMap::from([(wallet, amount(account.available))]),
        relayers: BTreeMap::new(),
        tokens: spot.collect(),
        pools: Default::default(),
        received: Instant::now(),
        max_age,
    })
}

fn packed(holding: Holding) -> Address {
    holding.deposited_currency().packed().unwrap_or_default()
}

/// Prices of the venue's assets: those of the same assets on chains whose snapshots are fresh. Where there is none, the
/// last one that was known stays, too old for anything but the cap on void payments.
fn prices(solver: &Solver, handle: &ChainHandle) -> BTreeMap<Address, Quoted> {
    let price = |id: &str| -> Option<Price> {
        let mut others = solver.chains.values().filter(|other| other.id() != handle.id());
        others.find_map(|other| {
            let snapshot = solver.market.current(other.id()).ok()?;
            let currency = other.chain.held().find(|currency| currency.id == id)?;
            snapshot.price(currency.evm_address()).ok()
        })
    };
    let before = solver.market.latest(handle.id());
    let quoted = PRICED.into_iter().filter_map(|(asset, route, id)| {
        let currency = packed(Holding { asset, route });
        let known = before.as_ref().and_then(|snapshot| snapshot.prices.get(&currency).copied());
        Some((currency, quoted(price(id), known)?))
    });
    quoted.collect()
}

fn quoted(now: Option<Price>, before: Option<Quoted>) -> Option<Quoted> {
    let fresh = now.map(|price| Quoted { price, age_secs: 0, max_age_secs: 0 });
    fresh.or(before.map(|before| Quoted { age_secs: 1, max_age_secs: 0, ..before }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_is_gone_stays_and_is_too_old_for_quotes() {
        let price = |dollars: u128| Price::new(dollars * 100_000_000, 8).unwrap();
        let fresh = quoted(Some(price(3_000)), None).unwrap();
        assert!(fresh.age_secs <= fresh.max_age_secs);
        let kept = quoted(None, Some(fresh)).unwrap();
        assert!(kept.price == fresh.price && kept.age_secs > kept.max_age_secs);
        assert_eq!(quoted(None, Some(kept)), Some(kept));
        assert_eq!(quoted(Some(price(2_000)), Some(kept)).map(|quoted| quoted.price), Some(price(2_000)));
        assert_eq!(quoted(None, None), None);
    }
}
