//! The `causeway` binary's library: configuration, wiring and subcommands.
//!
//! This is the only crate that reads files, the environment, the clock or randomness; the other crates receive them as
//! arguments.

pub mod assemble;
pub mod cli;
pub mod commands;
pub mod config;
pub mod crash;
pub mod env;
#[cfg(feature = "dev")]
pub mod local;
pub mod logs;
pub mod role;
pub mod screening;
#[cfg(feature = "dev")]
pub mod served;
pub mod service;
pub mod signals;

/// mimalloc, because a quote makes a few hundred small allocations and many are freed by another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
