//! Quotes: routes, prices and the steps a user has to send, from memory alone.

pub mod permit;
pub mod prune;
pub mod quote;
pub(crate) mod routes;
pub mod sponsor_accounts;
pub mod step_gas;
pub mod steps;
pub mod try_fill;
pub mod user_balances;
mod venue;
