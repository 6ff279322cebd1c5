//! What the service does: quote, take in deposits, fill, refund.
//!
//! Every change of a request goes through [`advance`], every outgoing payment through [`payments::pay`]. Tasks around
//! them only report what they saw: [`follow`] walks the chains, [`lanes`] sends what was committed.

pub mod accounts;
pub mod advance;
pub mod allocator;
pub mod tx_hints;
pub mod apply_block;
pub mod audit;
pub mod balances;
pub mod children;
pub mod claims;
pub mod deposits;
pub mod leader;
pub mod earnings;
pub mod error;
pub mod excess;
pub mod fast_fill;
pub mod fees;
pub mod fill_time;
pub mod gas_refill;
pub mod follow;
pub mod forks;
pub mod payment_call;
pub mod funding;
pub mod lanes;
pub mod losses;
pub mod manual;
pub mod payments;
pub mod quote;
pub mod recover;
pub mod reprice;
pub mod rescan;
pub mod reverts;
pub mod routes;
pub mod same_chain;
pub mod handle;
pub mod solver;
pub mod sponsor;
pub mod steps;
pub mod view;
pub mod wallet_links;

pub use error::SolverError;
pub use quote::{Attempt, QuoteError, Quoted};
pub use handle::{Payer, Settings, ChainHandle};
pub use solver::{PayContext, Env, Screening, Solver};
pub use steps::{Step, StepKind};
