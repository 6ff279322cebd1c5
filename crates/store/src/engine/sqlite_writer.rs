//! The one writer of a SQLite file: gathers waiting units and quotes, commits them together, then answers.
//!
//! Each unit has a savepoint, so that one that fails rolls back alone. Nobody is answered before the commit they share
//! is on disk. A batch grows by arrivals while the one before it commits; only where quotes crowd does it wait for more
//! of them ([`GroupCommit`]).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tracing::error;

use super::group_commit::GroupCommit;
use super::measure::{Counts, money_queued, quotes_queued};
use super::quote_insert::{PendingQuote, QUOTES_PER_BATCH, insert_one};
use super::read_queue::Priority;
use super::sqlite_batch::Batch;
use super::unit::{Unit, Verdict};
use super::{Inbox, checkpoint, sqlite_reader};
use crate::connection::{Access, open_sqlite};
use crate::thread::{recv_within, spawn, waiting_runtime};
use crate::tx::Texts;
use crate::{Options, StoreError, Tx};

const WAIT_FOR_LOCK: Duration = Duration::from_secs(30);
/// Units that share one commit at most.
const UNITS_PER_BATCH: usize = 64;
/// The time after which no further unit joins a batch: those in it are waiting for their commit.
const BATCH_TIME: Duration = Duration::from_millis(2);
/// Quotes that go first even where money waits, so that they are never starved.
const QUOTES_BEFORE_MONEY: usize = 16;

/// Opens every connection here, so that the caller gets the error of a failure; then each moves to its thread.
pub(crate) fn start(path: &Path, options: &Options, inbox: Inbox) -> Result<(), StoreError> {
    let connection = open_sqlite(path, Access::Write)?;
    // The holder of the lock (a WAL restart on a slow disk, a command) is waited for, so that nothing fails because of
    // it.
    connection.busy_timeout(WAIT_FOR_LOCK)?;
    let stop = checkpoint::start(path, options.min_free_bytes, inbox.disk_low, inbox.running.clone())?;
    sqlite_reader::start("reads", Priority::Usual, path, options.reader_threads, inbox.reads, &inbox.running)?;
    sqlite_reader::start("lists", Priority::Low, path, options.list_threads, inbox.lists, &inbox.running)?;
    let runtime = waiting_runtime()?;
    let writer = Writer {
        connection,
        texts: Texts::default(),
        money: inbox.money,
        quotes: inbox.quotes,
        counts: inbox.counts,
        group_commit: GroupCommit::default(),
        runtime,
        _stop: stop,
    };
    spawn("store-writer", inbox.running, move || writer.run())
}

struct Writer {
    connection: Connection,
    texts: Texts,
    money: mpsc::Receiver<Box<dyn Unit>>,
    quotes: mpsc::Receiver<PendingQuote>,
    counts: Arc<Counts>,
    group_commit: GroupCommit,
    /// Only for waiting on two queues at once.
    runtime: Runtime,
    /// Dropped with the writer, which tells the checkpoint thread to stop.
    _stop: std::sync::mpsc::Sender<()>,
}

/// The reason why a transaction is gone. In both cases nothing of it was written.
enum Gone {
    /// A statement of a unit or quote took the transaction along (disk full, out of memory) and holds the reason.
    ByStatement,
    Engine(StoreError),
}

impl From<rusqlite::Error> for Gone {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Writer {
    fn run(mut self) {
        while let Some(batch) = self.wait() {
            money_queued(self.money.len());
            quotes_queued(self.quotes.len());
            self.write(batch, true);
        }
    }

    /// The start of the next batch, or none when every handle is gone and the queues are empty.
    fn wait(&mut self) -> Option<Batch> {
        // Quotes queue up during the wait without waking anybody, and money goes at once.
        let group_wait = self.group_commit.wait(Instant::now());
        if let Some(unit) = group_wait.and_then(|time| recv_within(&mut self.money, time)) {
            return Some(Batch::of_unit(unit));
        }
        let (money, quotes) = (&mut self.money, &mut self.quotes);
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                Some(unit) = money.recv() => Some(Batch::of_unit(unit)),
                Some(quote) = quotes.recv() => Some(Batch::of_quote(quote)),
                else => None,
            }
        })
    }

    fn write(&mut self, mut batch: Batch, gather: bool) {
        match self.transact(&mut batch, gather) {
            Ok(()) => batch.answer(),
            // One item spoiled the batch: the items are tried again in smaller batches, until it is alone.
            Err(_) if batch.len() > 1 => batch.split().for_each(|one| self.write(one, false)),
            Err(Gone::ByStatement) => batch.answer(),
            Err(Gone::Engine(error)) => batch.fail(&error),
        }
    }

    fn transact(&mut self, batch: &mut Batch, gather: bool) -> Result<(), Gone> {
        // The write lock is taken at once: taken later, it could fail in the middle of a unit.
        self.statement("begin immediate")?;
        let result = self.fill(batch, gather).and_then(|()| self.commit(batch));
        if result.is_err()
            && !self.connection.is_autocommit()
            && let Err(error) = self.statement("rollback")
        {
            // The open transaction holds the lock, and the next batch would become part of it.
            error!(error = &error as &dyn std::error::Error, "a rollback failed, the process ends");
            std::process::abort();
        }
        result
    }

    fn fill(&mut self, batch: &mut Batch, gather: bool) -> Result<(), Gone> {
        let began = Instant::now();
        loop {
            if let Some(unit) = batch.next_unit() {
                let committed = self.run_unit(unit)?;
                batch.ran(committed);
                continue;
            }
            if !gather || batch.units() >= UNITS_PER_BATCH || began.elapsed() >= BATCH_TIME {
                break;
            }
            match self.money.try_recv() {
                Ok(unit) => batch.add_unit(unit),
                Err(_) => break,
            }
        }
        loop {
            if batch.next_quote().is_none() && gather && batch.quotes() < QUOTES_PER_BATCH {
                self.quotes.try_recv().into_iter().for_each(|quote| batch.add_quote(quote));
            }
            let Some(quote) = batch.next_quote() else { return Ok(()) };
            let result = insert_one(&mut Tx::sqlite(&self.connection, &mut self.texts), quote);
            batch.tried(result);
            if self.connection.is_autocommit() {
                return Err(Gone::ByStatement);
            }
            if gather && batch.quotes() >= QUOTES_BEFORE_MONEY && !self.money.is_empty() {
                return Ok(());
            }
        }
    }

    /// True when the unit is part of the transaction now.
    fn run_unit(&mut self, unit: &mut dyn Unit) -> Result<bool, Gone> {
        self.statement("savepoint unit")?;
        let verdict = unit.run(&mut Tx::sqlite(&self.connection, &mut self.texts));
        if self.connection.is_autocommit() {
            return Err(Gone::ByStatement);
        }
        if verdict != Verdict::Commit {
            self.statement("rollback to unit")?;
        }
        self.statement("release unit")?;
        Ok(verdict == Verdict::Commit)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), Gone> {
        let began = Instant::now();
        let Err(error) = self.statement("commit") else {
            self.counts.committed(batch.committed_units(), batch.committed_quotes(), began.elapsed());
            self.group_commit.committed(batch.quotes(), Instant::now());
            return Ok(());
        };
        // A refused commit leaves the transaction open, and one that ran out of disk is not complete in the WAL. After
        // any other error the WAL may hold the commit or not, and only reading it afresh tells: a commit that was
        // reported as failed and then came back would pay twice.
        let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        if !full && self.connection.is_autocommit() {
            error!(error = &error as &dyn std::error::Error, "a commit failed on its way to disk, the process ends");
            std::process::abort();
        }
        Err(error.into())
    }

    fn statement(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
