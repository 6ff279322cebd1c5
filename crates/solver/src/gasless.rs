//! Gasless deposits: the user signs, and one of our relayers sends the transaction.
//!
//! A relayer's wallet holds gas and nothing else, and no contract trusts it. What it sends is the user's own: a permit
//! that names the relayer and every call, or a call that a smart account has signed for.

pub mod execute;
pub mod permits;
pub mod relay;

pub use evm::SignedAuthorization;
pub use evm::contracts::{Call3Value, RelayerWitness};
pub use evm::permits::{PERMIT2, Permit};
