//! What the service does: quote, take in deposits, fill, refund.
//!
//! Every change of a request goes through [`advance`], every outgoing payment through [`payments::pay`]. Tasks around
//! them only report what they saw: [`follow`] walks the chains, [`lanes`] sends what was committed.

pub mod accounts;
pub mod advance;
pub mod allocator;
pub mod apply_block;
pub mod audit;
pub mod balances;
pub mod chain_handle;
pub mod children;
pub mod claims;
pub mod deposits;
pub mod earnings;
pub mod error;
pub mod excess;
pub mod fast_fill;
pub mod fees;
pub mod fill_time;
pub mod follow;
pub mod forks;
pub mod funding;
pub mod gas_refill;
pub mod lanes;
pub mod leader;
pub mod losses;
pub mod manual;
pub mod payment_call;
pub mod payments;
pub mod quote;
pub mod recover;
pub mod reprice;
pub mod rescan;
pub mod reverts;
pub mod routes;
pub mod same_chain;
pub mod solver;
pub mod sponsor;
pub mod steps;
pub mod tx_hints;
pub mod view;
pub mod wallet_links;

pub use chain_handle::{ChainHandle, Payer, Settings};
pub use error::SolverError;
pub use quote::{Attempt, QuoteError, Quoted};
pub use solver::{Env, PayContext, Screening, Solver};
pub use steps::{Step, StepKind};
