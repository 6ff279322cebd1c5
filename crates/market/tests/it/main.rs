//! Pools in memory against the chain they mirror: a real Uniswap V3 and its own quoter.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod doubting;
mod following;
mod mirrored;
mod quoting;
mod remembering;
mod routing;
mod trading;
