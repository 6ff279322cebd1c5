//! Deposit addresses: given out with a quote, watched, and swept into the depository.
//!
//! Nothing is paid on the word of a transfer that was seen here. A sweep makes it a deposit of the depository, and from
//! there on it is one like every other. A wrong word costs the gas of a sweep.

pub(crate) mod balances;
pub mod give_out;
pub(crate) mod prune;
pub mod reindex;
mod senders;
mod settle;
pub(crate) mod sweep;
pub(crate) mod transfers;
pub mod watch;
