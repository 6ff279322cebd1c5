//! Moves committed pages from the write-ahead log into the SQLite file, off the writer's thread, and watches the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

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
/// Past this size the writer is made to wait for a moment, so that the log can begin anew: a checkpoint that only runs
/// beside a busy writer never reaches its end.
const WAL_LIMIT_BYTES: u64 = 128 * 1024 * 1024;
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
    // What a long reader made it grow to is given back when it begins anew.
    connection.pragma_update(None, "journal_size_limit", i64::try_from(WAL_LIMIT_BYTES).unwrap_or(i64::MAX))?;
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
        let bytes = wal.metadata().map_or(0, |file| file.len());
        wal_bytes(bytes);
        checkpoint(connection, "pragma wal_checkpoint(passive)");
        if bytes > WAL_LIMIT_BYTES {
            checkpoint(connection, "pragma wal_checkpoint(restart)");
        }
    }
    checkpoint(connection, "pragma wal_checkpoint(truncate)");
}

fn checkpoint(connection: &Connection, sql: &'static str) {
    // Busy is an answer here, not an error: a reader still needs the log, and the next round goes on.
    if let Err(error) = connection.query_row(sql, [], |_| Ok(())) {
        warn!(error = &error as &dyn std::error::Error, "a checkpoint failed");
    }
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
