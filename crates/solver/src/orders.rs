//! Orders: their deposits, and the events that move their requests.

pub mod advance;
pub mod children;
pub mod deposits;
pub mod excess;
pub mod losses;
pub mod payouts;
pub mod refund_recipient;
pub mod refunds;
pub mod same_chain;
