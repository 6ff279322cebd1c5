//! The binary's parts: configuration, telemetry, wiring and subcommands.
//!
//! This is the only crate that reads files, the environment, the clock or randomness; everything else is handed them.

pub mod assemble;
pub mod cli;
pub mod commands;
pub mod config;
pub mod crash;
pub mod env;
#[cfg(feature = "dev")]
pub mod local;
pub mod role;
pub mod screening;
#[cfg(feature = "dev")]
pub mod served;
pub mod service;
pub mod telemetry;

/// A quote is a few hundred small allocations, many freed by another thread than their own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
