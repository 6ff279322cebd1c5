//! Moves committed pages from the write-ahead log into the SQLite file, off the writer's thread, and watches the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use rusqlite::Connection;
use tokio::sync::watch;
use tracing::{error, warn};

use super::measure::wal_bytes;
use super::thread::spawn;
use super::{Access, open_sqlite};
use crate::StoreError;

/// Also how often the free disk is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// Past so many pages the writer is made to wait for a moment, so that the log can begin anew: a checkpoint that only runs
/// beside a busy writer never reaches its end. It is 128 MiB of them.
const MOST_PAGES: i64 = 32 * 1024;
/// How often what came in the meantime is moved before the writer has to wait for the rest, and when that is little.
const ROUNDS: u32 = 4;
const SOON: Duration = Duration::from_millis(10);
const WAIT_FOR_READERS: Duration = Duration::from_millis(100);

/// The thread stops when the sender it returns is dropped.
pub fn start(
    path: &Path,
    min_free_bytes: u64,
    disk_low: Arc<AtomicBool>,
    running: watch::Sender<()>,
) -> Result<Sender<()>, StoreError> {
    let connection = open_sqlite(path, Access::Write)?;
    // It holds the write lock while it waits for readers of the old log, so it must not wait for long.
    connection.busy_timeout(WAIT_FOR_READERS)?;
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let disk = Disk { path: path.to_owned(), min_free_bytes, low: disk_low };
    disk.look();
    let (stop, stopped) = channel();
    spawn("store-checkpoint", running, move || keep_moving(&connection, &PathBuf::from(wal), &disk, &stopped))?;
    Ok(stop)
}

fn keep_moving(connection: &Connection, wal: &Path, disk: &Disk, stopped: &Receiver<()>) {
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        disk.look();
        wal_bytes(wal.metadata().map_or(0, |file| file.len()));
        if checkpoint(connection, "pragma wal_checkpoint(passive)") > MOST_PAGES {
            begin_anew(connection);
        }
    }
    checkpoint(connection, "pragma wal_checkpoint(truncate)");
}

/// While it waits for the rest to be moved the writer does nothing else, so most of it is moved before.
fn begin_anew(connection: &Connection) {
    for _ in 0..ROUNDS {
        let began = Instant::now();
        checkpoint(connection, "pragma wal_checkpoint(passive)");
        if began.elapsed() < SOON {
            break;
        }
    }
    checkpoint(connection, "pragma wal_checkpoint(restart)");
}

/// How many pages the log holds, those included that were moved.
fn checkpoint(connection: &Connection, sql: &'static str) -> i64 {
    // Busy is an answer here, not an error: a reader still needs the log, and the next round goes on.
    connection.query_row(sql, [], |row| row.get(1)).unwrap_or_else(|error| {
        warn!(error = &error as &dyn std::error::Error, "a checkpoint failed");
        0
    })
}

struct Disk {
    path: PathBuf,
    min_free_bytes: u64,
    low: Arc<AtomicBool>,
}

impl Disk {
    /// Quotes are what fills a disk; money must still find room when they may no longer.
    fn look(&self) {
        let Ok(disk) = statvfs(&self.path) else { return };
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        let low = free < self.min_free_bytes;
        if low && !self.low.swap(low, Ordering::Relaxed) {
            error!(free, "free disk is low: quotes are refused until there is room");
        }
        self.low.store(low, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_moved_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let writer = open_sqlite(&path, Access::Create).unwrap();
        writer.execute_batch("create table it (body text)").unwrap();
        let write = |rows: u32| {
            for _ in 0..rows {
                writer.execute("insert into it values ('some text')", []).unwrap();
            }
        };
        let mover = open_sqlite(&path, Access::Write).unwrap();
        write(40);
        let pages = checkpoint(&mover, "pragma wal_checkpoint(passive)");
        assert!(pages >= 40, "{pages}");
        write(1);
        begin_anew(&mover);
        write(1);
        let pages = checkpoint(&mover, "pragma wal_checkpoint(passive)");
        assert!((1..10).contains(&pages), "{pages}");
    }
}
