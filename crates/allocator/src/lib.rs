//! The allocator: it signs money out of the depositories, and takes nobody's word for it.
//!
//! It keeps a depository ledger of its own, read from final blocks on which enough nodes agree, and takes from the
//! solver's tables only ids: which transaction is said to have settled which deposit. Before it signs it reads that
//! transaction itself and compares it with the order, whose hash the deposit carries. It writes signed payouts; the
//! lanes of the solver send them. This crate cannot see the solver: opinions that only decide when a payout is made, or
//! what its gas costs, are handed to it as [`Advice`].
//!
//! Modules import each other one way only, from the bottom of this list to its top: `error`, [`advice`], `chain`,
//! `paying_venue`, `allocator`, `solvency`, [`identity`], `deposits`, `ledger`, `venue_evidence`, `evidence`,
//! `batches`, `returns`, `refunds`, `outcome`, `signing` and `tasks`, which runs all of it.

pub mod advice;
mod allocator;
mod batches;
mod chain;
mod deposits;
mod error;
mod evidence;
pub mod identity;
mod ledger;
mod outcome;
mod paying_venue;
mod refunds;
mod returns;
mod signing;
mod solvency;
mod tasks;
mod venue_evidence;

pub use advice::Advice;
pub use allocator::{Allocator, Env, Terms};
pub use chain::{Cap, PayoutChain};
pub use error::AllocatorError;
pub use paying_venue::PayingVenue;
