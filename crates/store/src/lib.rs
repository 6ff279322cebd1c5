//! The database: every SQL statement and migration, on SQLite and on Postgres.
//!
//! A unit of work is a closure over [`Tx`]; it runs on the store's own threads and reaches the database and nothing
//! else. There are no repository traits and no in-memory twin: tests run on the real engines.

pub mod alarms;
pub mod audit;
pub mod blocks;
pub mod chain_states;
pub mod claims;
mod columns;
mod connection;
pub mod contracts;
pub mod depository_ledger;
pub mod deposits;
mod dialect;
pub mod doubtful_blocks;
pub mod dues;
mod engine;
mod error;
pub mod events;
pub mod fast_fills;
pub mod gas_refills;
pub mod idempotency;
pub mod instances;
pub mod keys;
pub mod lanes;
pub mod leases;
pub mod ledger;
pub mod listing;
mod lock;
pub mod losses;
mod migrate;
mod options;
pub mod outcomes;
pub mod payers;
pub mod payments;
pub mod payouts;
pub mod records;
pub mod refused_recipients;
pub mod requests;
pub mod returns;
pub mod risk;
mod row;
pub mod same_chain;
pub mod sealing;
pub mod secrets;
pub mod settlements;
mod stored_changes;
mod stored_outcome;
mod stored_quote;
mod thread;
pub mod trace;
pub mod treasury_transfers;
mod tx;
mod value;
pub mod wallet_links;
pub mod webhooks;

pub use dialect::Dialect;
pub use engine::{QuoteRow, Saving, Stats, Store};
pub use error::{PostgresFault, StoreError};
pub use instances::Instance;
pub use leases::Lease;
pub use lock::{FileLock, lock};
pub use options::{DatabaseUrl, Options, PostgresUrl};
pub use row::Row;
pub use tx::Tx;
pub use value::Value;
