//! The store's counters and metrics. Floats are for metrics and appear here only.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Totals since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions committed by writers.
    pub commits: u64,
    /// Units that were committed.
    pub units: u64,
    /// Quotes that were committed.
    pub quotes: u64,
    /// Units that ran again after a serialization failure or a lost connection.
    pub retries: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    units: AtomicU64,
    quotes: AtomicU64,
    retries: AtomicU64,
}

impl Counts {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            commits: self.commits.load(Relaxed),
            units: self.units.load(Relaxed),
            quotes: self.quotes.load(Relaxed),
            retries: self.retries.load(Relaxed),
        }
    }

    /// Counted before anyone is answered, so that a caller finds its own commit in the totals.
    pub(crate) fn committed(&self, units: usize, quotes: usize, took: Duration) {
        self.commits.fetch_add(1, Relaxed);
        self.units.fetch_add(units as u64, Relaxed);
        self.quotes.fetch_add(quotes as u64, Relaxed);
        metrics::histogram!("store_commit_seconds").record(took.as_secs_f64());
        metrics::histogram!("store_batch_units").record(units as f64);
        metrics::histogram!("store_batch_quotes").record(quotes as f64);
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
        metrics::counter!("store_retries_total").increment(1);
    }
}

// Each quote changes the depth of its queue twice. A constant label needs no memory, one that is passed does.
pub(crate) fn money_queued(waiting: usize) {
    metrics::gauge!("store_queue_depth", "queue" => "money").set(waiting as f64);
}

pub(crate) fn quotes_queued(waiting: usize) {
    metrics::gauge!("store_queue_depth", "queue" => "quotes").set(waiting as f64);
}

pub(crate) fn reads_queued(queue: &'static str, waiting: usize) {
    metrics::gauge!("store_queue_depth", "queue" => queue).set(waiting as f64);
}

/// The depth as the sender sees it: a queue that nobody takes from still shows its depth.
pub(crate) fn depth<T>(sender: &tokio::sync::mpsc::Sender<T>) -> usize {
    sender.max_capacity() - sender.capacity()
}

pub(crate) fn wal_bytes(bytes: u64) {
    metrics::gauge!("store_wal_bytes").set(bytes as f64);
}

/// Records the number of processes that answer callers.
pub(crate) fn measure_answering(instances: u32) {
    metrics::gauge!("causeway_answering_instances").set(f64::from(instances));
}
