//! Readers of a SQLite file: each with its own read-only connection, and one watch thread that stops reads past their
//! limit.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{mpsc, watch};

use super::read_queue::{self, Priority, ReadQueue};
use super::unit::ReadUnit;
use crate::connection::{Access, open_sqlite};
use crate::thread::spawn;
use crate::tx::Texts;
use crate::{StoreError, Tx};

/// The most that the watch may be late in noticing a read over its limit.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The deadline of the running read. Held while interrupting, so that the next read is not hit instead.
type Deadline = Arc<Mutex<Option<Instant>>>;

pub(crate) fn start(
    name: &'static str,
    priority: Priority,
    path: &Path,
    threads: usize,
    reads: mpsc::Receiver<ReadUnit>,
    running: &watch::Sender<()>,
) -> Result<(), StoreError> {
    let reads = read_queue::shared(name, priority, reads);
    let mut watched = Vec::new();
    for number in 0..threads.max(1) {
        let connection = open_sqlite(path, Access::Read)?;
        let deadline = Deadline::default();
        watched.push((deadline.clone(), connection.get_interrupt_handle()));
        let reads = reads.clone();
        spawn(&format!("store-{name}-{number}"), running.clone(), move || read_all(&connection, &reads, &deadline))?;
    }
    spawn(&format!("store-{name}-watch"), (), move || keep_watch(watched))
}

fn read_all(connection: &Connection, reads: &ReadQueue, deadline: &Deadline) {
    read_queue::take_priority(reads);
    let mut texts = Texts::default();
    while let Some(mut read) = read_queue::next(reads) {
        let result = snapshot(connection, &mut texts, &mut read, deadline);
        read.unit.answer(result);
    }
}

fn snapshot(
    connection: &Connection,
    texts: &mut Texts,
    read: &mut ReadUnit,
    deadline: &Deadline,
) -> Result<(), StoreError> {
    // A transaction is left open where its end was interrupted: it would keep the WAL from restarting.
    end(connection)?;
    connection.prepare_cached("begin")?.execute([])?;
    set(deadline, Some(read.deadline));
    read.unit.run(&mut Tx::sqlite(connection, texts).until(read.deadline));
    set(deadline, None);
    end(connection)
}

fn end(connection: &Connection) -> Result<(), StoreError> {
    if !connection.is_autocommit() {
        connection.prepare_cached("rollback")?.execute([])?;
    }
    Ok(())
}

fn set(deadline: &Deadline, to: Option<Instant>) {
    *deadline.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Ends when the readers have.
fn keep_watch(watched: Vec<(Deadline, InterruptHandle)>) {
    while watched.iter().any(|(deadline, _)| Arc::strong_count(deadline) > 1) {
        std::thread::sleep(WATCH_INTERVAL);
        let now = Instant::now();
        for (deadline, handle) in &watched {
            let deadline = deadline.lock().unwrap_or_else(PoisonError::into_inner);
            if deadline.is_some_and(|deadline| now >= deadline) {
                handle.interrupt();
            }
        }
    }
}
