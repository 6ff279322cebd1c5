//! The settings a SQLite file is opened with: WAL, and every commit on disk before it counts.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// Another process (a `causeway` command beside `serve`) may hold the write lock for this long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the service's statements, so that none is prepared twice.
const CACHED_STATEMENTS: usize = 512;
/// The page cache of a writer. Order ids are random, so nearly every quote changes another page of their index: with
/// SQLite's default of two megabytes, each page was read again first. And a commit that split an index page looks at
/// every cached page: with 64 megabytes that was a sixth of the writer's work.
const WRITER_CACHE_KIB: i64 = 16 * 1024;

/// The WAL bytes kept: a WAL that is reused need not be extended at every commit.
const LOG_KEPT_BYTES: i64 = 256 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Create,
    Write,
    Read,
}

pub(crate) fn open(path: &Path, access: Access) -> Result<Connection, StoreError> {
    // Each connection stays on one thread, so SQLite need not lock for itself. Paths are never read as URIs.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match access {
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
    if access != Access::Create && !path.exists() {
        return Err(StoreError::Missing(path.to_owned()));
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Without it SQLite replans many statements whenever they run with other values, in case another plan is better.
    // Ours spell out the conditions of partial indexes, and nobody gathers statistics.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if access == Access::Read {
        connection.pragma_update(None, "query_only", true)?;
        return Ok(connection);
    }
    if access == Access::Create {
        connection.pragma_update(None, "journal_mode", "wal")?;
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A negative size means KiB, not pages.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // A commit must not pay for a checkpoint: a thread does them.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // The WAL that a long reader made grow is truncated when it restarts.
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_its_values() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open(&folder.path().join("it.db"), Access::Create).unwrap();
        connection.execute_batch("create table it (a integer, b integer); create index it_a on it (a)").unwrap();
        let planned_again = || {
            let mut statement =
                connection.prepare("select b from it where a = ?1 and b < ?2 order by b limit ?3").unwrap();
            for value in 1..4 {
                assert!(!statement.exists([value, value, value]).unwrap());
            }
            statement.get_status(StatementStatus::RePrepare)
        };
        assert_eq!(planned_again(), 0);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, false).unwrap();
        assert!(planned_again() > 0, "SQLite no longer does this by itself");
    }
}
