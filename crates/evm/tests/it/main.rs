//! Nodes that fail, lie and lag (scripted), and real ones (the devnet's).

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod agreement;
mod deposits;
mod failover;
mod faults;
mod fills;
mod following;
mod junk_logs;
mod lying_nodes;
mod origin_swaps;
mod real;
mod reverts;
mod rig;
mod same_chain;
mod scripted;
mod seconded;
mod sending;
mod wallets;
