//! Quotes: routes, prices and the steps a user has to send, from memory alone.

pub mod prune;
pub mod quote;
mod routes;
pub mod sponsor_accounts;
pub mod steps;
pub mod user_balances;
