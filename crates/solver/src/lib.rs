//! The solver: it quotes, takes in deposits, fills, refunds and keeps integrators' balances.
//!
//! Modules import each other one way, from the bottom of this list to its top: `error`, `env`, [`handle`] (a chain:
//! configuration, nodes, lanes, health), [`context`] (facts a payment decision reads), [`solver`] (state that tasks
//! share), [`holds`] (holds on integrators' balances), `lifecycle` (a request's next state), [`payments`] (the only
//! module that creates payments), [`quoting`], [`orders`], [`deposit_addresses`], [`gasless`], [`integrators`],
//! [`operator`], [`chain`] (a block in, events applied), `listing`, [`audit`], [`standby`], [`leader`] (tasks run while
//! a lease is held) and [`tasks`], which starts and stops all of it.

pub mod audit;
pub mod chain;
pub mod context;
pub mod deposit_addresses;
pub mod env;
pub mod error;
pub mod gasless;
pub mod handle;
pub mod holds;
pub mod integrators;
pub mod leader;
mod lifecycle;
mod listing;
pub mod operator;
pub mod orders;
pub mod payments;
pub mod quoting;
pub mod solver;
pub mod standby;
pub mod tasks;
#[cfg(test)]
mod tests;

pub use context::PayContext;
pub use env::{Env, Screening};
pub use error::SolverError;
pub use evm::LocalSigner;
pub use handle::{ChainHandle, Payer, PayingWallets, Settings};
pub use quoting::quote::{Attempt, Bound, QuoteError, Quoted};
pub use quoting::steps::{Step, StepKind};
pub use solver::Solver;
