//! A chain, walked block by block: a block comes in, its events are applied, each once.

pub mod apply_block;
mod blame;
pub(crate) mod disputes;
pub mod doubts;
pub(crate) mod events;
mod finality;
pub mod follow;
mod forks;
pub mod missed_payments;
pub(crate) mod payment_events;
pub mod rescan;
pub mod reverts;
pub mod tx_fees;
pub mod tx_hints;
mod venue_finality;
pub mod venue_market;
mod venue_payments;
mod venue_rescan;
mod venue_start;
mod venue_unrecorded;
mod venue_voids;
pub mod venue_walk;
pub(crate) mod void_cap;
