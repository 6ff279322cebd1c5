//! The store's threads. One that panics takes the process with it: what was committed is on disk, and starting again
//! from there is the normal path, while a store that lost a thread would keep its callers waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tracing::error;

use crate::StoreError;

/// `held` is let go after everything that `run` owned: who waits for that finds connections and files closed.
pub fn spawn(name: &str, held: impl Send + 'static, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let run = move || {
        or_abort("a thread of the store", run);
        drop(held);
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(no_thread)
}

pub fn or_abort<T>(what: &'static str, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        error!("{what} panicked, the process ends");
        std::process::abort()
    })
}

/// For waiting on queues from a thread: it drives no I/O and no timer.
pub fn waiting_runtime() -> Result<Runtime, StoreError> {
    Builder::new_current_thread().build().map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> StoreError {
    StoreError::Thread(Arc::new(error))
}

/// Runs `work` on a thread of its own and waits for it.
///
/// The synchronous Postgres client drives a runtime inside, which panics on a thread that already drives one.
pub fn off_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || or_abort("opening the database", work);
        scope.spawn(run).join().unwrap_or_else(|_| std::process::abort())
    })
}
