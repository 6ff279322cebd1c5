//! The queue of reads, shared by reader threads of either engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use super::measure::reads_queued;
use super::unit::ReadUnit;
use crate::StoreError;
use crate::thread::yield_to_others;

/// The priority of the threads that serve a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Usual,
    /// Below everything that moves money.
    Low,
}

#[derive(Clone)]
pub(crate) struct ReadQueue {
    /// Of the gauge of its depth.
    name: &'static str,
    priority: Priority,
    reads: Arc<Mutex<mpsc::Receiver<ReadUnit>>>,
}

pub(crate) fn shared(name: &'static str, priority: Priority, reads: mpsc::Receiver<ReadUnit>) -> ReadQueue {
    ReadQueue { name, priority, reads: Arc::new(Mutex::new(reads)) }
}

/// Gives the calling thread, which is to serve the queue, its priority.
pub(crate) fn take_priority(queue: &ReadQueue) {
    if queue.priority == Priority::Low {
        yield_to_others();
    }
}

/// The next read worth running, or none when every handle is gone and the queue is empty.
pub(crate) fn next(queue: &ReadQueue) -> Option<ReadUnit> {
    loop {
        let read = {
            let mut reads = queue.reads.lock().unwrap_or_else(PoisonError::into_inner);
            let read = reads.blocking_recv()?;
            reads_queued(queue.name, reads.len());
            read
        };
        // A read without a caller has no effect.
        if read.unit.is_abandoned() {
            continue;
        }
        if Instant::now() >= read.deadline {
            read.unit.answer(Err(StoreError::Timeout));
            continue;
        }
        return Some(read);
    }
}
