//! Accounts of the simulated venue: wallets, balances and API keys.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use anyhow::{Context, Result};
use domain::venue::{Asset, Route};
use venue::{KeyIndex, PublicKey};

#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) wallet: Address,
    pub(super) pays_fees: bool,
    pub(super) keys: BTreeMap<KeyIndex, Key>,
    balances: BTreeMap<(Asset, Route), u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) public: PublicKey,
    pub(super) next_nonce: u64,
}

impl Holder {
    pub(super) fn new(wallet: Address, pays_fees: bool) -> Self {
        Self { wallet, pays_fees, keys: BTreeMap::new(), balances: BTreeMap::new() }
    }

    pub(super) fn balance(&self, asset: Asset, route: Route) -> u64 {
        self.balances.get(&(asset, route)).copied().unwrap_or_default()
    }

    /// Assets that were ever held on a route, with their balances.
    pub(super) fn held(&self, route: Route) -> impl Iterator<Item = (Asset, u64)> {
        self.balances.iter().filter(move |((_, on), _)| *on == route).map(|((asset, _), units)| (*asset, *units))
    }

    pub(super) fn credit(&mut self, asset: Asset, route: Route, units: u64) -> Result<()> {
        let balance = self.balances.entry((asset, route)).or_default();
        *balance = balance.checked_add(units).context("a balance of the venue simulator overflows")?;
        Ok(())
    }

    pub(super) fn debit(&mut self, asset: Asset, route: Route, units: u64) -> Result<()> {
        let balance = self.balances.entry((asset, route)).or_default();
        *balance = balance.checked_sub(units).context("a balance of the venue simulator is below zero")?;
        Ok(())
    }
}
