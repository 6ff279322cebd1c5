//! Ends the process when the database does not answer at all. A connection can hang without ending, where something in
//! between keeps it open while the server behind it stands still, and its thread hangs with it: nothing can take it
//! back. Callers of the thread would wait for ever, though the database may long be back. So the process aborts, to be
//! started again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::error;

use crate::StoreError;
use crate::thread::spawn;

/// The time since which a thread has been waiting for the database, if it is.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Option<Instant>>>);

impl Waiting {
    pub(crate) fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        self.set(Some(Instant::now()));
        let result = run();
        self.set(None);
        result
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn time(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }
}

/// Watches threads that wait for the database, until they have ended.
#[derive(Default)]
pub(crate) struct Watchdog {
    threads: Vec<Waiting>,
}

impl Watchdog {
    pub(crate) fn over_one(&mut self) -> Waiting {
        let waiting = Waiting::default();
        self.threads.push(waiting.clone());
        waiting
    }

    pub(crate) fn keep(self, limit: Duration) -> Result<(), StoreError> {
        spawn("store-watchdog", (), move || {
            while self.threads.iter().any(|waiting| Arc::strong_count(&waiting.0) > 1) {
                std::thread::sleep(Duration::from_secs(1).min(limit / 4));
                if let Some(time) = self.threads.iter().filter_map(Waiting::time).find(|time| *time > limit) {
                    error!(seconds = time.as_secs(), "the database has not answered for too long, the process ends");
                    std::process::abort();
                }
            }
        })
    }
}
