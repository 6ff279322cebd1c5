//! Checkpoints: committed pages move from the WAL into the SQLite file, off the writer's thread. The disk is watched
//! too.

use std::fs::File;
use std::mem::ManuallyDrop;
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
use crate::StoreError;
use crate::connection::{Access, open_sqlite};
use crate::thread::spawn;

/// The interval of checkpoints, and of looks at the free disk.
const INTERVAL: Duration = Duration::from_secs(1);
/// Past this many pages, which are 128 MiB, the writer is made to wait for a moment, so that the WAL can restart: a
/// checkpoint that only runs beside a busy writer never reaches its end.
const MAX_WAL_PAGES: i64 = 32 * 1024;
/// The most passive checkpoints before the writer has to wait for the rest, and the duration of one that had little to
/// move.
const MAX_ROUNDS: u32 = 4;
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// The most pages left to move while the writer waits, even if a reader still uses the old WAL.
const MAX_PAGES_LEFT: i64 = 8 * 1024;
const WAIT_FOR_READERS: Duration = Duration::from_millis(100);

/// The thread stops when the sender it returns is dropped.
pub(crate) fn start(
    path: &Path,
    min_free_bytes: u64,
    disk_low: Arc<AtomicBool>,
    running: watch::Sender<()>,
) -> Result<Sender<()>, StoreError> {
    let connection = open_sqlite(path, Access::Write)?;
    let unreadable = |source| StoreError::File { path: path.to_owned(), source: Arc::new(source) };
    let file = ManuallyDrop::new(File::open(path).map_err(unreadable)?);
    // A restart holds the write lock while it waits for readers of the old WAL, so it must not wait for long.
    connection.busy_timeout(WAIT_FOR_READERS)?;
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let disk = Disk { path: path.to_owned(), min_free_bytes, low: disk_low };
    disk.look();
    let (stop, stopped) = channel();
    let log = Log { connection, file };
    spawn("store-checkpoint", running, move || keep_moving(&log, &PathBuf::from(wal), &disk, &stopped))?;
    Ok(stop)
}

fn keep_moving(log: &Log, wal: &Path, disk: &Disk, stopped: &Receiver<()>) {
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        disk.look();
        wal_bytes(wal.metadata().map_or(0, |file| file.len()));
        if log.checkpoint("pragma wal_checkpoint(passive)").held > MAX_WAL_PAGES {
            log.begin_anew();
        }
    }
    log.checkpoint("pragma wal_checkpoint(truncate)");
}

struct Log {
    connection: Connection,
    /// The database file, never closed. When a process closes a file, by any handle, the system releases all of its
    /// locks on it: another process could then take the WAL away from under those who still write to it here.
    file: ManuallyDrop<File>,
}

/// Pages of the WAL: how many it holds, and how many of them are in the database too.
#[derive(Clone, Copy, Default)]
struct Pages {
    held: i64,
    moved: i64,
}

impl Log {
    /// Restarts the WAL. The writer is blocked while the rest is moved, so most of it is moved before. The writer would
    /// also wait until all moved pages are synced, because SQLite leaves that to the last checkpoint: so the sync is
    /// done before as well.
    fn begin_anew(&self) {
        let (mut pages, mut moves) = (self.checkpoint("pragma wal_checkpoint(passive)"), false);
        for _ in 1..MAX_ROUNDS {
            let (began, before) = (Instant::now(), pages.moved);
            pages = self.checkpoint("pragma wal_checkpoint(passive)");
            moves |= pages.moved > before;
            if began.elapsed() < RETRY_INTERVAL {
                break;
            }
        }
        // A reader holds on to the old WAL: it cannot restart, and the writer would wait for nothing. Where the writer
        // is only faster than the checkpoint, it has to wait.
        if !moves && pages.held.saturating_sub(pages.moved) > MAX_PAGES_LEFT {
            return;
        }
        if let Err(error) = self.file.sync_data() {
            warn!(error = &error as &dyn std::error::Error, "the database could not be synced before its WAL restarts");
            return;
        }
        self.checkpoint("pragma wal_checkpoint(restart)");
    }

    fn checkpoint(&self, sql: &'static str) -> Pages {
        // Busy is an answer here, not an error: a reader still needs the WAL, and the next round goes on.
        let pages = self.connection.query_row(sql, [], |row| Ok(Pages { held: row.get(1)?, moved: row.get(2)? }));
        pages.unwrap_or_else(|error| {
            warn!(error = &error as &dyn std::error::Error, "a checkpoint failed");
            Pages::default()
        })
    }
}

struct Disk {
    path: PathBuf,
    min_free_bytes: u64,
    low: Arc<AtomicBool>,
}

impl Disk {
    /// Quotes fill a disk; money must still find room when they are refused.
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

    fn log(path: &Path) -> Log {
        let file = ManuallyDrop::new(File::open(path).unwrap());
        Log { connection: open_sqlite(path, Access::Write).unwrap(), file }
    }

    #[test]
    fn a_checkpointed_wal_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let writer = open_sqlite(&path, Access::Create).unwrap();
        writer.execute_batch("create table it (body text)").unwrap();
        let write = |rows: u32| {
            for _ in 0..rows {
                writer.execute("insert into it values ('some text')", []).unwrap();
            }
        };
        let log = log(&path);
        let held = || log.checkpoint("pragma wal_checkpoint(passive)").held;
        write(40);
        assert!(held() >= 40, "{}", held());
        write(1);
        log.begin_anew();
        write(1);
        assert!((1..10).contains(&held()), "{}", held());
    }

    #[test]
    fn the_writer_does_not_wait_for_a_reader_of_the_wal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let writer = open_sqlite(&path, Access::Create).unwrap();
        writer.execute_batch("create table it (body blob); insert into it values (null)").unwrap();
        let reader = open_sqlite(&path, Access::Read).unwrap();
        reader.execute_batch("begin; select count(*) from it").unwrap();
        // More pages than may be left, all of them newer than the reader's snapshot.
        writer.execute("insert into it values (zeroblob(4096 * ?1))", [MAX_PAGES_LEFT + 100]).unwrap();
        let log = log(&path);
        log.connection.busy_timeout(Duration::from_secs(30)).unwrap();
        let began = Instant::now();
        log.begin_anew();
        assert!(began.elapsed() < Duration::from_secs(20), "it waited for the reader");
        reader.execute_batch("commit").unwrap();
        log.begin_anew();
        writer.execute("insert into it values (null)", []).unwrap();
        let held = log.checkpoint("pragma wal_checkpoint(passive)").held;
        assert!(held < 10, "{held}");
    }
}
