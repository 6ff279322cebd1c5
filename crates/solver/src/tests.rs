//! Rules of the solver without a chain: a SQLite database, two snapshots, and tables of cases.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod audit;
mod credits;
mod decide;
mod deposit_addresses;
mod deposits;
mod doubts;
mod failed_fast_fill;
mod fast_fill;
mod fill_gas;
mod finality;
mod forgotten_addresses;
mod funding;
mod late_deposits;
mod pauses;
mod payment_events;
mod quorum;
mod recovery;
mod relays;
mod reorged_sweeps;
mod reverts;
mod screening;
mod scripted;
mod void_cap;
pub(crate) mod world;
