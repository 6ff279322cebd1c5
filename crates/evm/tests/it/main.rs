//! Nodes that fail, lie and lag (scripted), and real ones (the devnet's).

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod deposits;
mod failover;
mod faults;
mod following;
mod lies;
mod real;
mod scripted;
mod sending;
mod wallets;
