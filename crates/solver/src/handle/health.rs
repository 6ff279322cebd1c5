//! A chain's health: the block it was walked to, the reason why no payments are made, and the funds already promised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use alloy::primitives::Address;
use arc_swap::{ArcSwap, ArcSwapOption};
use domain::money::Amount;
use domain::time::Timestamp;
use store::deposits::DepositId;
use store::treasury_transfers::TreasuryTransferId;
use tokio::sync::{Notify, watch};

use super::alarms::Alarms;
use super::fill_time::FillTime;

const UNCHECKED: &str = "the start-up checks have not finished";
/// Time after which unfinished start-up checks hold up their own chain only: they take one answer of its nodes.
pub const CHECK_TIMEOUT_MILLIS: i64 = 300_000;
/// The start of checks that have finished.
const CHECKED: i64 = i64::MIN;

#[derive(Debug)]
pub struct Health {
    /// The number of the last applied block.
    pub taken: watch::Sender<u64>,
    /// The number of the last applied block that most nodes have: what becomes final counts from it.
    standing: AtomicU64,
    /// The number of applied blocks since then.
    unagreed: AtomicU64,
    /// Notified when a transaction of ours has failed, so that its cause is read soon.
    pub failed: Notify,
    pub fill_time: FillTime,
    pub alarms: Alarms,
    refusing: ArcSwapOption<String>,
    /// Who has paused the chain, and why. It outlives a lease of the worker.
    paused: ArcSwapOption<String>,
    /// When the start-up checks began, in milliseconds since 1970, while they have not finished.
    unchecked_since: AtomicI64,
    /// The deposit that was last considered for a return: the next ones have their turn.
    last_return: AtomicI64,
    /// The treasury transfer that was last considered for a credit, likewise.
    last_transfer: AtomicI64,
    /// Amounts on their way out or due, by currency; they may not be promised again.
    committed: ArcSwap<BTreeMap<Address, Amount>>,
    /// Wallets with unmined payments as of the last applied block. None before the first.
    unmined: ArcSwapOption<BTreeSet<Address>>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            taken: watch::Sender::new(0),
            standing: AtomicU64::new(0),
            unagreed: AtomicU64::new(0),
            failed: Notify::new(),
            fill_time: FillTime::default(),
            alarms: Alarms::default(),
            refusing: ArcSwapOption::from_pointee(UNCHECKED.to_owned()),
            paused: ArcSwapOption::empty(),
            unchecked_since: AtomicI64::new(i64::MAX),
            last_return: AtomicI64::new(0),
            last_transfer: AtomicI64::new(0),
            committed: ArcSwap::default(),
            unmined: ArcSwapOption::empty(),
        }
    }
}

impl Health {
    /// Refuses payments until the start-up checks have passed (again).
    pub fn begin(&self, now: Timestamp) {
        self.refuse(Some(UNCHECKED.to_owned()));
        self.unchecked_since.store(now.millis(), Ordering::Release);
        self.unmined.store(None);
    }

    /// The reason why the payments of this chain are in doubt, so that none is made, if there is one. A pause is none:
    /// the database knows every payment.
    pub fn refusing(&self) -> Option<Arc<String>> {
        self.refusing.load_full()
    }

    /// The reason why no payments are made anywhere that a payment of this chain may have been meant for. Checks that
    /// cannot finish, because no node answers, are no such reason for ever.
    pub fn refusing_elsewhere(&self, now: Timestamp) -> Option<Arc<String>> {
        let since = self.unchecked_since.load(Ordering::Acquire);
        let overdue = since != CHECKED && now.millis().saturating_sub(since) > CHECK_TIMEOUT_MILLIS;
        self.refusing().filter(|_| !overdue)
    }

    pub fn refuse(&self, why: Option<String>) {
        self.unchecked_since.store(CHECKED, Ordering::Release);
        self.refusing.store(why.map(Arc::new));
    }

    /// The operator's pause of this chain, if it is in force.
    pub fn paused(&self) -> Option<Arc<String>> {
        self.paused.load_full()
    }

    pub fn pause(&self, why: Option<String>) {
        self.paused.store(why.map(Arc::new));
    }

    pub fn last_return(&self) -> DepositId {
        DepositId(self.last_return.load(Ordering::Relaxed))
    }

    pub fn set_last_return(&self, id: DepositId) {
        self.last_return.store(id.0, Ordering::Relaxed);
    }

    pub fn last_transfer(&self) -> TreasuryTransferId {
        TreasuryTransferId(self.last_transfer.load(Ordering::Relaxed))
    }

    pub fn set_last_transfer(&self, id: TreasuryTransferId) {
        self.last_transfer.store(id.0, Ordering::Relaxed);
    }

    /// Notes an applied block, and whether most nodes have it. Returns the number of blocks since one that most have.
    pub fn walked(&self, number: u64, stands: bool) -> u64 {
        if stands {
            self.standing.store(number, Ordering::Relaxed);
            self.unagreed.store(0, Ordering::Relaxed);
            return 0;
        }
        self.unagreed.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// The number of the last applied block that most nodes have; zero before the first.
    pub fn standing(&self) -> u64 {
        self.standing.load(Ordering::Relaxed)
    }

    /// The number of applied blocks since one that most nodes have.
    pub fn unagreed(&self) -> u64 {
        self.unagreed.load(Ordering::Relaxed)
    }

    /// Takes up the count of an earlier process.
    pub fn set_unagreed(&self, blocks: u64) {
        self.unagreed.store(blocks, Ordering::Relaxed);
    }

    /// Notes that the last applied blocks were undone.
    pub fn rewound(&self, blocks: u64, to: u64) {
        self.set_unagreed(self.unagreed().saturating_sub(blocks));
        self.standing.fetch_min(to, Ordering::Relaxed);
        self.taken.send_replace(to);
    }

    /// The amount of a currency that is on its way out or due.
    pub fn committed(&self, currency: Address) -> Amount {
        self.committed.load().get(&currency).copied().unwrap_or_default()
    }

    pub fn commit(&self, amounts: BTreeMap<Address, Amount>) {
        self.committed.store(Arc::new(amounts));
    }

    /// Sets the wallets whose lanes have unmined payments to look after.
    pub fn set_unmined(&self, wallets: BTreeSet<Address>) {
        self.unmined.store(Some(Arc::new(wallets)));
    }

    /// True if a wallet may have unmined payments.
    pub fn has_unmined(&self, wallet: Address) -> bool {
        self.unmined.load().as_ref().is_none_or(|wallets| wallets.contains(&wallet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_since_one_that_most_nodes_have_are_counted_and_counted_back() {
        let health = Health::default();
        assert_eq!((health.walked(10, true), health.walked(11, false), health.walked(12, false)), (0, 1, 2));
        health.rewound(1, 11);
        assert_eq!((health.unagreed(), health.standing()), (1, 10));
        // A reorg that takes back more than those.
        health.rewound(3, 8);
        assert_eq!((health.unagreed(), health.standing()), (0, 8));
        assert_eq!(*health.taken.borrow(), 8);
    }
}
