//! The queue of reads, shared by reader threads of either engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use super::measure::queue_depth;
use super::unit::ReadUnit;
use crate::StoreError;

pub(crate) type ReadQueue = Arc<Mutex<mpsc::Receiver<ReadUnit>>>;

pub(crate) fn shared(reads: mpsc::Receiver<ReadUnit>) -> ReadQueue {
    Arc::new(Mutex::new(reads))
}

/// The next read worth running, or none when every handle is gone and the queue is empty.
pub(crate) fn next(reads: &ReadQueue) -> Option<ReadUnit> {
    loop {
        let read = {
            let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
            let read = reads.blocking_recv()?;
            queue_depth("reads", reads.len());
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
