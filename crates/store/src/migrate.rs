//! The schema, as numbered SQL files. Files are only ever added.
//!
//! `causeway migrate` applies them; opening a store never does, so that a running instance of an older build is not
//! surprised.

use rusqlite::Connection;

use crate::connection::{Access, Link, open_sqlite};
use crate::thread::off_runtime;
use crate::{DatabaseUrl, Dialect, Options, StoreError};

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

/// Migrations in order and without gaps.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "0001_init", sql: include_str!("../migrations/0001_init.sql") },
    Migration { version: 2, name: "0002_transfers", sql: include_str!("../migrations/0002_transfers.sql") },
    Migration { version: 3, name: "0003_records", sql: include_str!("../migrations/0003_records.sql") },
    Migration { version: 4, name: "0004_payouts", sql: include_str!("../migrations/0004_payouts.sql") },
    Migration { version: 5, name: "0005_ledger", sql: include_str!("../migrations/0005_ledger.sql") },
    Migration { version: 6, name: "0006_second_look", sql: include_str!("../migrations/0006_second_look.sql") },
    Migration { version: 7, name: "0007_losses", sql: include_str!("../migrations/0007_losses.sql") },
    Migration { version: 8, name: "0008_receipts", sql: include_str!("../migrations/0008_receipts.sql") },
    Migration { version: 9, name: "0009_reverts", sql: include_str!("../migrations/0009_reverts.sql") },
    Migration { version: 10, name: "0010_keys", sql: include_str!("../migrations/0010_keys.sql") },
    Migration { version: 11, name: "0011_instances", sql: include_str!("../migrations/0011_instances.sql") },
    Migration { version: 12, name: "0012_fast_fills", sql: include_str!("../migrations/0012_fast_fills.sql") },
    Migration { version: 13, name: "0013_outcomes", sql: include_str!("../migrations/0013_outcomes.sql") },
    Migration { version: 14, name: "0014_vault_refunds", sql: include_str!("../migrations/0014_vault_refunds.sql") },
    Migration { version: 15, name: "0015_top_ups", sql: include_str!("../migrations/0015_top_ups.sql") },
    Migration { version: 16, name: "0016_claims", sql: include_str!("../migrations/0016_claims.sql") },
    Migration {
        version: 17,
        name: "0017_payments_in_blocks",
        sql: include_str!("../migrations/0017_payments_in_blocks.sql"),
    },
    Migration { version: 18, name: "0018_executions", sql: include_str!("../migrations/0018_executions.sql") },
    Migration { version: 19, name: "0019_names", sql: include_str!("../migrations/0019_names.sql") },
    Migration { version: 20, name: "0020_payouts_told", sql: include_str!("../migrations/0020_payouts_told.sql") },
    Migration {
        version: 21,
        name: "0021_unpriced_outcomes",
        sql: include_str!("../migrations/0021_unpriced_outcomes.sql"),
    },
    Migration {
        version: 22,
        name: "0022_doubtful_blocks",
        sql: include_str!("../migrations/0022_doubtful_blocks.sql"),
    },
    Migration {
        version: 23,
        name: "0023_refused_recipients",
        sql: include_str!("../migrations/0023_refused_recipients.sql"),
    },
    Migration {
        version: 24,
        name: "0024_fast_fill_windows",
        sql: include_str!("../migrations/0024_fast_fill_windows.sql"),
    },
    Migration {
        version: 25,
        name: "0025_failed_fast_fills",
        sql: include_str!("../migrations/0025_failed_fast_fills.sql"),
    },
    Migration { version: 26, name: "0026_listing", sql: include_str!("../migrations/0026_listing.sql") },
    Migration { version: 27, name: "0027_webhooks", sql: include_str!("../migrations/0027_webhooks.sql") },
    Migration { version: 28, name: "0028_venue", sql: include_str!("../migrations/0028_venue.sql") },
    Migration {
        version: 29,
        name: "0029_deposit_addresses",
        sql: include_str!("../migrations/0029_deposit_addresses.sql"),
    },
    Migration { version: 30, name: "0030_dashboard", sql: include_str!("../migrations/0030_dashboard.sql") },
    Migration { version: 31, name: "0031_relays", sql: include_str!("../migrations/0031_relays.sql") },
    Migration { version: 32, name: "0032_operator", sql: include_str!("../migrations/0032_operator.sql") },
    Migration { version: 33, name: "0033_address_upkeep", sql: include_str!("../migrations/0033_address_upkeep.sql") },
    Migration {
        version: 34,
        name: "0034_forgotten_addresses",
        sql: include_str!("../migrations/0034_forgotten_addresses.sql"),
    },
    Migration { version: 35, name: "0035_revenue", sql: include_str!("../migrations/0035_revenue.sql") },
    Migration { version: 36, name: "0036_sponsored_fees", sql: include_str!("../migrations/0036_sponsored_fees.sql") },
    Migration { version: 37, name: "0037_recent_voids", sql: include_str!("../migrations/0037_recent_voids.sql") },
    Migration { version: 38, name: "0038_sweep_amounts", sql: include_str!("../migrations/0038_sweep_amounts.sql") },
    Migration {
        version: 39,
        name: "0039_forgotten_orders",
        sql: include_str!("../migrations/0039_forgotten_orders.sql"),
    },
];

const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

const CREATE_TABLE: &str =
    "create table if not exists schema_migration (version bigint primary key, name text not null)";
const INSERT: &str = "insert into schema_migration (version, name) values ($1, $2)";
const CURRENT: &str = "select cast(coalesce(max(version), 0) as bigint) from schema_migration";
/// Serializes instances that migrate at the same time.
const POSTGRES_TURN: &str = "select pg_advisory_xact_lock(4802711060235190221)";

/// Refuses a database whose schema is not this build's.
pub(crate) fn check(options: &Options) -> Result<(), StoreError> {
    let found = match &options.url {
        DatabaseUrl::Sqlite(path) => sqlite_version(&open_sqlite(path, Access::Read)?)?,
        DatabaseUrl::Postgres(_) => off_runtime(|| postgres_version(options))?,
    };
    refuse_newer(found)?;
    if found < LATEST {
        return Err(StoreError::SchemaOlder { found, needed: LATEST });
    }
    Ok(())
}

/// Applies the missing migrations, each in its own transaction.
pub(crate) fn run(options: &Options) -> Result<Vec<&'static str>, StoreError> {
    let mut applied = Vec::new();
    match &options.url {
        DatabaseUrl::Sqlite(path) => {
            let mut connection = open_sqlite(path, Access::Create)?;
            refuse_newer(sqlite_version(&connection)?)?;
            for migration in MIGRATIONS {
                if apply_sqlite(&mut connection, migration).map_err(|source| failed(migration, source))? {
                    applied.push(migration.name);
                }
            }
        }
        DatabaseUrl::Postgres(_) => off_runtime(|| {
            refuse_newer(postgres_version(options)?)?;
            for migration in MIGRATIONS {
                if apply_postgres(options, migration).map_err(|source| failed(migration, source))? {
                    applied.push(migration.name);
                }
            }
            Ok::<_, StoreError>(())
        })?,
    }
    Ok(applied)
}

fn refuse_newer(found: i64) -> Result<(), StoreError> {
    if found > LATEST {
        return Err(StoreError::SchemaNewer { found, known: LATEST });
    }
    Ok(())
}

fn failed(migration: &Migration, source: StoreError) -> StoreError {
    StoreError::Migration { name: migration.name, source: Box::new(source) }
}

fn sqlite_version(connection: &Connection) -> Result<i64, StoreError> {
    let exists = "select exists (select 1 from sqlite_master where name = 'schema_migration')";
    if !connection.query_row(exists, [], |row| row.get::<_, bool>(0))? {
        return Ok(0);
    }
    Ok(connection.query_row(CURRENT, [], |row| row.get(0))?)
}

/// Returns whether it was missing. The version is read again under the write lock.
fn apply_sqlite(connection: &mut Connection, migration: &Migration) -> Result<bool, StoreError> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute_batch(CREATE_TABLE)?;
    let current: i64 = tx.query_row(CURRENT, [], |row| row.get(0))?;
    if current >= migration.version {
        return Ok(false);
    }
    tx.execute_batch(&Dialect::Sqlite.expand(migration.sql)?)?;
    tx.execute(&Dialect::Sqlite.expand(INSERT)?, (migration.version, migration.name))?;
    tx.commit()?;
    Ok(true)
}

fn link(options: &Options) -> Result<Link, StoreError> {
    Link::for_options(options)?.ok_or(StoreError::Url("not a postgres url"))
}

fn postgres_version(options: &Options) -> Result<i64, StoreError> {
    let mut link = link(options)?;
    let client = link.connect()?;
    let exists = client.query_one("select to_regclass('schema_migration') is not null", &[])?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    Ok(client.query_one(CURRENT, &[])?.try_get(0)?)
}

/// Returns whether it was missing. The version is read again under the advisory lock.
fn apply_postgres(options: &Options, migration: &Migration) -> Result<bool, StoreError> {
    let mut link = link(options)?;
    let client = link.connect()?;
    // No timeout: an index on a large table may take long.
    client.batch_execute("set statement_timeout = 0")?;
    let mut tx = client.transaction()?;
    tx.batch_execute(POSTGRES_TURN)?;
    tx.batch_execute(CREATE_TABLE)?;
    let current: i64 = tx.query_one(CURRENT, &[])?.try_get(0)?;
    if current >= migration.version {
        return Ok(false);
    }
    tx.batch_execute(&Dialect::Postgres.expand(migration.sql)?)?;
    tx.execute(INSERT, &[&migration.version, &migration.name])?;
    tx.commit()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, index as i64 + 1);
            assert!(migration.name.starts_with(&format!("{:04}_", migration.version)), "{}", migration.name);
        }
    }

    #[test]
    fn every_migration_can_be_spelled_for_both_engines() {
        for migration in MIGRATIONS {
            for dialect in [Dialect::Sqlite, Dialect::Postgres] {
                dialect.expand(migration.sql).unwrap();
            }
        }
    }
}
