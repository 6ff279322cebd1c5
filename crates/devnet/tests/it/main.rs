//! One binary, so that all tests share one devnet.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not their helpers")]

mod chains;
mod faults;
mod postgres;
mod process;
mod state;
