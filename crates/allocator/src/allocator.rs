//! State that the allocator's tasks share: its key, its terms, its chains and its store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use domain::ids::ChainId;
use domain::money::UsdMicros;
use domain::time::Timestamp;
use evm::LocalSigner;
use store::{Lease, Store};

use crate::advice::Advice;
use crate::chain::PayoutChain;
use crate::paying_venue::PayingVenue;

/// Rows looked at in one round. The rest has its turn in the next.
pub(crate) const MAX_ROWS_PER_ROUND: i64 = 64;

#[derive(Clone, Debug)]
pub struct Terms {
    /// A batch is made when it is worth this much,
    pub batch_usd: UsdMicros,
    /// or when the oldest deposit in it has waited this long.
    pub batch_age: Duration,
    /// How long a signature is good. Never more than half an hour.
    pub validity: Duration,
}

/// Functions of the outside world, handed down so that tests can hand down their own.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    pub clock: fn() -> Timestamp,
    /// Called at every point where dying must be harmless.
    pub crash: fn(&'static str),
}

#[derive(Clone, Debug)]
pub struct Allocator {
    pub key: LocalSigner,
    pub terms: Terms,
    /// Where reimbursements go, and nowhere else.
    pub treasury: Address,
    /// The key that takes on our orders.
    pub order_key: Address,
    pub chains: BTreeMap<ChainId, Arc<PayoutChain>>,
    /// The venue, where deposits of the chains may have been filled.
    pub venue: Option<PayingVenue>,
    pub store: Store,
    pub advice: Advice,
    pub env: Env,
}

impl Allocator {
    pub fn address(&self) -> Address {
        self.key.address()
    }

    pub fn payout_chain(&self, chain: ChainId) -> Option<&PayoutChain> {
        self.chains.get(&chain).map(Arc::as_ref)
    }

    /// The same, writing under a lease.
    pub fn under(&self, lease: &Lease) -> Self {
        Self { store: self.store.under(lease), ..self.clone() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.env.clock)()
    }

    pub(crate) fn crash(&self, point: &'static str) {
        (self.env.crash)(point);
    }

    /// Whether money cannot be paid to an address on a chain.
    pub(crate) fn cannot_pay(&self, payout_chain: &PayoutChain, who: Address) -> bool {
        payout_chain.cannot_receive(who) || who == self.treasury
    }
}
