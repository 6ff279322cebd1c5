//! The environment of the solver: clock, randomness, crash points and the operator's screening lists.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use domain::time::Timestamp;

/// Functions of the outside world, handed down so that tests can hand down their own.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    pub clock: fn() -> Timestamp,
    pub random: fn(&mut [u8]),
    /// Called at every crash point, where dying must be harmless.
    pub crash: fn(&'static str),
}

/// Addresses the operator does not serve.
#[derive(Clone, Debug, Default)]
pub struct Screening {
    pub blocked: BTreeSet<Address>,
    /// Exchanges: they get no automatic refund, because they could not tell whose money it is.
    pub custodial: BTreeSet<Address>,
}

impl Screening {
    /// True if one of them is blocked.
    pub fn blocks(&self, parties: impl IntoIterator<Item = Address>) -> bool {
        !self.blocked.is_empty() && parties.into_iter().any(|who| self.blocked.contains(&who))
    }
}
