//! One binary, so that all tests share one devnet.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions, not their helpers")]
#![expect(clippy::disallowed_methods, reason = "a test learns its role and its server from the environment")]

mod chains;
mod faults;
mod postgres;
mod process;
mod state;
