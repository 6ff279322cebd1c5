//! Errors that keep a unit of work from being done.

use alloy::primitives::B256;
pub use domain::chained::Chained;
use domain::ids::ChainId;
use domain::money::OutOfRange;
use evm::{ChainError, NoQuorum};
use store::StoreError;
use venue::VenueError;

#[derive(Debug, thiserror::Error)]
pub enum SolverError {
    #[error("store")]
    Store(#[from] StoreError),
    #[error("chain")]
    Chain(#[from] ChainError),
    #[error("the venue")]
    Venue(#[from] VenueError),
    #[error(transparent)]
    NoQuorum(#[from] NoQuorum),
    #[error(transparent)]
    Request(#[from] domain::request::IllegalTransition),
    #[error(transparent)]
    Payment(#[from] domain::payment::IllegalTransition),
    #[error(transparent)]
    Deposit(#[from] domain::deposit::IllegalTransition),
    #[error(transparent)]
    Claim(#[from] domain::claim::IllegalTransition),
    #[error(transparent)]
    Payout(#[from] domain::payout::IllegalTransition),
    #[error(transparent)]
    TreasuryTransfer(#[from] domain::treasury_transfer::IllegalTransition),
    #[error(transparent)]
    Entry(#[from] domain::ledger::NotAnEntry),
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error(
        "chain {chain} took back more than the {finality} blocks after which it counts as final: nothing more is paid \
         there; check which side is true, then restart"
    )]
    DeepFork { chain: ChainId, finality: u64 },
    #[error("the nodes of chain {chain} disagree about blocks that count as final")]
    Disputed { chain: ChainId },
    #[error("the nodes of chain {chain} do not agree about block {block}: try again when all of them answer")]
    NoAgreement { chain: ChainId, block: u64 },
    #[error(
        "transaction {tx} on chain {chain} is a payment, and its nonce is that of another one in this database: two \
         databases have paid from one wallet, and this one must not pay; restore the other, or a backup from before both"
    )]
    TwoDatabases { chain: ChainId, tx: B256 },
    #[error(
        "the venue has used nonces {nonces:?} of ours and lists no transfer for them: ask its operator what became of them; \
         if they paid nobody, `causeway recover --unlisted-have-failed` goes on"
    )]
    Unlisted { nonces: Vec<u64> },
    #[error("{0}")]
    InvariantViolated(&'static str),
}

impl SolverError {
    /// True if a retry may succeed: the database or the nodes were out of reach, or the nodes disagreed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Chain(_) | Self::Venue(_) | Self::NoQuorum(_) | Self::Disputed { .. } | Self::NoAgreement { .. } => {
                true
            }
            Self::Request(_)
            | Self::Payment(_)
            | Self::Deposit(_)
            | Self::Claim(_)
            | Self::Payout(_)
            | Self::TreasuryTransfer(_)
            | Self::Entry(_)
            | Self::OutOfRange(_)
            | Self::DeepFork { .. }
            | Self::TwoDatabases { .. }
            | Self::Unlisted { .. }
            | Self::InvariantViolated(_) => false,
        }
    }
}
