//! What the service does: quote, take in deposits, fill, refund.
//!
//! Every change of a request goes through [`advance`], every outgoing payment through [`payments::pay`]. Tasks around
//! them only report what they saw: [`follow`] walks the chains, [`lanes`] sends what was committed.

pub mod advance;
pub mod deposits;
pub mod error;
pub mod follow;
pub mod forks;
pub mod lanes;
pub mod payments;
pub mod quote;
pub mod recipients;
pub mod recover;
pub mod settle;
pub mod site;
pub mod solver;

pub use error::SolverError;
pub use quote::{QuoteError, Quoted, Step, StepKind};
pub use site::{Settings, Site};
pub use solver::{Means, Outside, Screen, Solver};
