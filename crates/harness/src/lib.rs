//! Worlds for services: a folder, a database, wallets and a configuration on local chains.
//!
//! Tests and benchmarks stand their services up here and differ only in what they change in the configuration. The
//! configuration itself is written by `causeway::local`, below this crate, because `causeway dev` needs it too.

mod events;
mod permit;
mod program;
mod quote;
mod receiver;
mod smart_account;
mod wait;
mod world;

pub use crate::events::publish;
pub use crate::permit::{permit_domain, sign_permit};
pub use crate::program::Program;
pub use crate::quote::ask;
pub use crate::receiver::{Judged, Post, Receiver, judge};
pub use crate::smart_account::{
    BatchedCall, UserOperation, account_of, authorize, batch, first_operation, handle_operation, operation, raw_call,
    read_operation, sign_operation, unsigned_batch,
};
pub use crate::wait::{WAIT_TIMEOUT, eventually, found};
pub use crate::world::{Engine, Wallets, World, database};
