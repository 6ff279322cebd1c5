//! The store, on both engines.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a child process learns its role from the environment")]
#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod alarms;
mod app_fees;
mod claims;
mod crash;
mod database;
mod deposit_addresses;
mod doubtful_blocks;
mod fast_fills;
mod keys;
mod leases;
mod ledger;
mod listing;
mod locks;
mod losses;
mod migrations;
mod operator;
mod outages;
mod partial_sweeps;
mod payers;
mod payouts;
mod quotes;
mod reads;
mod same_chain;
mod sessions;
mod treasury_transfers;
mod units;
mod values;
mod venue_txs;

/// Runs each case on a fresh database of each engine.
macro_rules! on_both_engines {
    ($($case:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::database::sqlite().await?).await
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::database::postgres().await?).await
            })*
        }
    };
}
pub(crate) use on_both_engines;
