//! The service end to end: real chains, real databases, the real server or the real binary.
//!
//! Chains are started once and shared. Every test has its own database, wallets, users and recipients, so tests run
//! side by side; those that disturb a chain have chains of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]
#![expect(clippy::disallowed_methods, reason = "tests read the clock and the seeds that a person sets")]
#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod alarms;
mod app_balance;
mod audit;
mod catalogue;
mod claims;
mod contract_deposits;
mod crash;
mod dashboard;
mod deposit_addresses;
mod depository_refund;
mod dev;
mod excess;
mod fail_reasons;
mod fast_fill;
mod funding;
mod fuzz;
mod gas_refill;
mod gasless;
mod harness;
mod http;
mod instances;
mod isolation;
mod junk_logs;
mod keys;
mod listing;
mod lying_nodes;
mod missed_payments;
mod operator;
mod parameters;
mod pauses;
mod process;
mod proven;
mod reorg;
mod repayment;
mod rescan;
mod restore;
mod risk;
mod routes;
mod same_chain;
mod sponsorship;
mod transfer;
mod tx_hints;
mod venue;
mod webhooks;
