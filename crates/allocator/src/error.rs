//! Errors that keep the allocator from reading, deciding or signing.

use domain::ids::ChainId;
use domain::money::OutOfRange;
use evm::NoQuorum;
use store::StoreError;
use venue::VenueError;

#[derive(Debug, thiserror::Error)]
pub enum AllocatorError {
    #[error("store")]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoQuorum(#[from] NoQuorum),
    #[error("the venue")]
    Venue(#[from] VenueError),
    #[error(transparent)]
    Payout(#[from] domain::payout::IllegalTransition),
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error(
        "chain {chain} took back more than the {finality} blocks after which it counts as final: nothing more is signed \
         there; check which side is true, then restart"
    )]
    DeepFork { chain: ChainId, finality: u64 },
    #[error("{0}")]
    InvariantViolated(&'static str),
}

impl AllocatorError {
    /// The database or the nodes were out of reach: the same may work later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::NoQuorum(_) | Self::Venue(_) => true,
            Self::Payout(_) | Self::OutOfRange(_) | Self::DeepFork { .. } | Self::InvariantViolated(_) => false,
        }
    }
}
