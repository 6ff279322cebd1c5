//! Integrators: the fast fills and claims they ask for, the balances they fund and earn.

pub mod claims;
pub mod earnings;
pub mod fast_fill;
pub mod funding;
pub mod wallet_links;
