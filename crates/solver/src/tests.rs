//! Rules of the solver without a chain: a SQLite database, two snapshots, and tables of cases.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod credits;
mod decide;
mod deposits;
mod doubts;
mod fast_fill;
mod payment_events;
mod screening;
mod world;
