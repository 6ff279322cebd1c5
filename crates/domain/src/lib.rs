//! The rules of the service: money, ids, quotes, orders and the life of a request.
//!
//! Everything here is a function of its arguments. There is no I/O, no clock, no randomness and no wire shape.

pub mod account;
pub mod alarm;
pub mod api_key;
pub mod arrival;
pub mod balance_change;
pub mod catalog;
pub mod chained;
pub mod claim;
pub mod credit;
pub mod debt;
pub mod deposit;
pub mod deposit_address;
pub mod digits;
pub mod facts;
pub mod fail;
pub mod fees;
pub mod fixed_rate;
pub mod gas_refill;
pub mod hold;
pub mod ids;
pub mod inventory;
pub mod ledger;
pub mod loss;
pub mod money;
pub mod order;
pub mod outcome;
pub mod pair;
pub mod payment;
pub mod payout;
pub mod pricing;
pub mod quote;
pub mod relay;
pub mod request;
pub mod revert;
pub mod same_chain;
pub mod sponsorship;
pub mod subject;
pub mod swap;
pub mod sweep;
pub mod terms;
pub mod time;
pub mod treasury_transfer;
pub mod venue;
pub mod webhook;
