//! The store's handle and its queues.
//!
//! Units of work wait in two bounded queues, money before quotes, and run on their own threads; the engines below
//! differ only in how those threads write. Cancelling the caller undoes nothing: a queued unit runs to its end.

mod checkpoint;
mod group_commit;
mod measure;
mod postgres_quotes;
mod postgres_threads;
mod quote_insert;
mod read_queue;
mod snapshot;
mod sqlite_batch;
mod sqlite_reader;
mod sqlite_writer;
mod unit;
mod watchdog;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use measure::Counts;
pub use measure::Stats;
pub(crate) use measure::measure_answering;
use quote_insert::PendingQuote;
pub use quote_insert::QuoteRow;
use unit::{Pending, ReadUnit, Unit};

use crate::leases::{Fence, Lease};
use crate::{DatabaseUrl, Dialect, Options, StoreError, Tx, leases, migrate};

/// Queued units before `write` makes its caller wait: about a quarter of a second of work.
const MONEY_QUEUE: usize = 1024;
/// Queued quotes before `write_quote` answers [`StoreError::Busy`].
const QUOTE_QUEUE: usize = 4096;
/// Queued reads before `read` makes its caller wait.
const READ_QUEUE: usize = 1024;
/// Queued listings before `list` makes its caller wait.
const LIST_QUEUE: usize = 64;

/// A handle to the database. Clones share it; when the last is dropped, the threads drain the queues and stop.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// The lease under which this handle writes.
    fence: Option<Fence>,
}

struct Inner {
    dialect: Dialect,
    money: mpsc::Sender<Box<dyn Unit>>,
    quotes: mpsc::Sender<PendingQuote>,
    reads: mpsc::Sender<ReadUnit>,
    lists: mpsc::Sender<ReadUnit>,
    read_limit: Duration,
    list_limit: Duration,
    counts: Arc<Counts>,
    disk_low: Arc<AtomicBool>,
    /// Counts the wake-ups sent to the worker.
    wakes: Arc<watch::Sender<u64>>,
    /// Closes when the last thread has stopped.
    stopped: watch::Receiver<()>,
}

/// The receiving ends and counters given to an engine's threads.
struct Inbox {
    money: mpsc::Receiver<Box<dyn Unit>>,
    quotes: mpsc::Receiver<PendingQuote>,
    reads: mpsc::Receiver<ReadUnit>,
    lists: mpsc::Receiver<ReadUnit>,
    counts: Arc<Counts>,
    disk_low: Arc<AtomicBool>,
    running: watch::Sender<()>,
}

impl Store {
    /// Connects, refuses a schema other than this build's, and starts the threads.
    pub fn open(options: &Options) -> Result<Self, StoreError> {
        migrate::check(options)?;
        let (money, money_inbox) = mpsc::channel(MONEY_QUEUE);
        let (quotes, quote_inbox) = mpsc::channel(QUOTE_QUEUE);
        let (reads, read_inbox) = mpsc::channel(READ_QUEUE);
        let (lists, list_inbox) = mpsc::channel(LIST_QUEUE);
        let (running, stopped) = watch::channel(());
        let counts = Arc::<Counts>::default();
        let disk_low = Arc::<AtomicBool>::default();
        let inbox = Inbox {
            money: money_inbox,
            quotes: quote_inbox,
            reads: read_inbox,
            lists: list_inbox,
            counts: counts.clone(),
            disk_low: disk_low.clone(),
            running,
        };
        let dialect = match &options.url {
            DatabaseUrl::Sqlite(path) => {
                sqlite_writer::start(path, options, inbox)?;
                Dialect::Sqlite
            }
            DatabaseUrl::Postgres(url) => {
                postgres_threads::start(url, options, inbox)?;
                Dialect::Postgres
            }
        };
        let inner = Inner {
            dialect,
            money,
            quotes,
            reads,
            lists,
            read_limit: options.read_limit,
            list_limit: options.list_limit,
            counts,
            disk_low,
            wakes: Arc::new(watch::Sender::new(0)),
            stopped,
        };
        Ok(Self { inner: Arc::new(inner), fence: None })
    }

    /// The same store with fenced writes: each first checks the lease, and writes nothing once another process holds it
    /// ([`StoreError::Fenced`]). SQLite has a single process, so there the fence costs nothing.
    pub fn under(&self, lease: &Lease) -> Self {
        Self { inner: self.inner.clone(), fence: lease.fence() }
    }

    /// Applies the missing migrations, each in its own transaction, and returns their names.
    pub fn migrate(options: &Options) -> Result<Vec<&'static str>, StoreError> {
        migrate::run(options)
    }

    /// Runs a unit of work and answers once its commit is durable.
    ///
    /// The unit may run more than once and shares its commit with others; if it returns an error, it alone is rolled
    /// back. It must not reach outside the database: a panic in it ends the process, and a `write` or `read` inside it
    /// panics in debug builds. Dropping the future does not cancel a queued unit.
    pub fn write<T, E>(
        &self,
        unit: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        unit::assert_outside();
        async move {
            let (reply, answer) = oneshot::channel();
            let unit: Box<dyn Unit> = match self.fence.clone() {
                None => Box::new(Pending::new(unit, reply)),
                Some(fence) => {
                    let fenced = move |tx: &mut Tx<'_>| {
                        fence.check(tx)?;
                        unit(tx)
                    };
                    Box::new(Pending::new(fenced, reply))
                }
            };
            self.inner.money.send(unit).await.map_err(|_| StoreError::Closed)?;
            measure::money_queued(measure::depth(&self.inner.money));
            // A thread that ended without an answer may have committed first.
            answer.await.unwrap_or_else(|_| Err(StoreError::CommitUnknown.into()))
        }
    }

    /// Saves a quote and answers once it is durable. Many quotes share one commit; a full queue is
    /// [`StoreError::Busy`].
    pub async fn write_quote(&self, quote: QuoteRow) -> Result<(), StoreError> {
        self.begin_quote(quote)?.durable().await
    }

    /// Queues a quote and returns at once, for a caller with work to do before it is durable.
    pub fn begin_quote(&self, quote: QuoteRow) -> Result<Saving, StoreError> {
        unit::assert_outside();
        if self.inner.disk_low.load(Ordering::Relaxed) {
            return Err(StoreError::DiskLow);
        }
        let (reply, answer) = oneshot::channel();
        self.inner.quotes.try_send(PendingQuote::new(quote, reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })?;
        measure::quotes_queued(measure::depth(&self.inner.quotes));
        Ok(Saving(answer))
    }

    /// Reads from one consistent snapshot that includes every acknowledged write. The unit changes nothing, and past
    /// [`Options::read_limit`] the answer is [`StoreError::Timeout`].
    pub fn read<T, E>(
        &self,
        unit: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.read_on(&self.inner.reads, self.inner.read_limit, unit)
    }

    /// Reads as [`Store::read`] does, on threads of its own and within [`Options::list_limit`]: a listing that takes
    /// long keeps nobody waiting but those who list.
    pub fn list<T, E>(
        &self,
        unit: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.read_on(&self.inner.lists, self.inner.list_limit, unit)
    }

    fn read_on<T, E>(
        &self,
        queue: &mpsc::Sender<ReadUnit>,
        limit: Duration,
        unit: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        unit::assert_outside();
        async move {
            let (reply, answer) = oneshot::channel();
            let deadline = Instant::now() + limit;
            let read = ReadUnit { unit: Box::new(Pending::new(unit, reply)), deadline };
            // A reader may be stuck behind a slow disk: the caller is answered in time all the same.
            tokio::time::timeout_at(tokio::time::Instant::from_std(deadline), async {
                queue.send(read).await.map_err(|_| StoreError::Closed)?;
                answer.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
            })
            .await
            .unwrap_or_else(|_| Err(StoreError::Timeout.into()))
        }
    }

    /// Wakes the worker, in whichever process it runs, after a commit meant for it. A lost wake-up is harmless: the
    /// worker finds the rows at the next block.
    pub async fn wake(&self) -> Result<(), StoreError> {
        self.inner.wakes.send_modify(|count| *count += 1);
        if self.is_sqlite() { Ok(()) } else { self.write(leases::wake).await }
    }

    /// Changes with every wake-up of the worker.
    pub fn woken(&self) -> watch::Receiver<u64> {
        self.inner.wakes.subscribe()
    }

    pub(crate) fn wakes(&self) -> Arc<watch::Sender<u64>> {
        self.inner.wakes.clone()
    }

    /// Drops this handle and waits until the threads have drained the queues. Other clones keep them running.
    pub async fn close(self) {
        let mut stopped = self.inner.stopped.clone();
        drop(self);
        while stopped.changed().await.is_ok() {}
    }

    pub fn dialect(&self) -> Dialect {
        self.inner.dialect
    }

    pub fn is_sqlite(&self) -> bool {
        self.inner.dialect == Dialect::Sqlite
    }

    /// Counters since the store was opened.
    pub fn stats(&self) -> Stats {
        self.inner.counts.stats()
    }
}

/// A quote whose commit is not yet durable.
#[derive(Debug)]
#[must_use = "it is not known to be durable yet"]
pub struct Saving(oneshot::Receiver<Result<(), StoreError>>);

impl Saving {
    pub async fn durable(self) -> Result<(), StoreError> {
        self.0.await.unwrap_or(Err(StoreError::CommitUnknown))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dialect", &self.inner.dialect).field("stats", &self.stats()).finish()
    }
}
