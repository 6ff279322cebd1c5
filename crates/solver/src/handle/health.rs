//! A chain's health: the block it was walked to, why it takes no payments, and the funds already promised on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::Address;
use arc_swap::{ArcSwap, ArcSwapOption};
use domain::money::Amount;
use tokio::sync::{Notify, watch};

use super::fill_time::FillTime;

const UNCHECKED: &str = "the start-up checks have not finished";

#[derive(Debug)]
pub struct Health {
    /// The number of the last block taken in.
    pub taken: watch::Sender<u64>,
    /// Rung when a transaction of ours has failed: somebody may want to know why.
    pub failed: Notify,
    pub fill_time: FillTime,
    refusing: ArcSwapOption<String>,
    /// By currency: amounts on their way out or due, which may not be promised again.
    committed: ArcSwap<BTreeMap<Address, Amount>>,
    /// Wallets with payments that the last block taken in does not hold. Not known before there is one.
    unmined: ArcSwapOption<BTreeSet<Address>>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            taken: watch::Sender::new(0),
            failed: Notify::new(),
            fill_time: FillTime::default(),
            refusing: ArcSwapOption::from_pointee(UNCHECKED.to_owned()),
            committed: ArcSwap::default(),
            unmined: ArcSwapOption::empty(),
        }
    }
}

impl Health {
    /// Nothing is paid until the start-up checks have passed (again).
    pub fn begin(&self) {
        self.refuse(Some(UNCHECKED.to_owned()));
        self.unmined.store(None);
    }

    /// Why no payment is made on this chain, where none is.
    pub fn refusing(&self) -> Option<Arc<String>> {
        self.refusing.load_full()
    }

    pub fn refuse(&self, why: Option<String>) {
        self.refusing.store(why.map(Arc::new));
    }

    /// The amount of a currency that is on its way out or due.
    pub fn committed(&self, currency: Address) -> Amount {
        self.committed.load().get(&currency).copied().unwrap_or_default()
    }

    pub fn commit(&self, amounts: BTreeMap<Address, Amount>) {
        self.committed.store(Arc::new(amounts));
    }

    /// Wallets whose payments are to be looked after.
    pub fn set_unmined(&self, wallets: BTreeSet<Address>) {
        self.unmined.store(Some(Arc::new(wallets)));
    }

    /// Whether a wallet may have payments that are not in a block.
    pub fn has_unmined(&self, wallet: Address) -> bool {
        self.unmined.load().as_ref().is_none_or(|wallets| wallets.contains(&wallet))
    }
}
