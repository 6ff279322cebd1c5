//! The store's threads. A thread that panics takes the process with it: commits are on disk, and a restart from there
//! is the normal path, while a store that lost a thread would keep its callers waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tracing::error;

use crate::StoreError;

/// Steps below the priority of the process: a tenth of its share of a busy processor.
#[cfg(target_os = "linux")]
const LOW_PRIORITY: i32 = 10;

/// `held` is dropped after everything that `run` owned: a caller that waits for it finds connections and files closed.
pub(crate) fn spawn(
    name: &str,
    held: impl Send + 'static,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), StoreError> {
    let run = move || {
        or_abort("a thread of the store", run);
        drop(held);
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(no_thread)
}

/// Lowers the priority of the calling thread (on Linux, where it is a thread's own), so that threads that move money
/// get the processor first.
pub(crate) fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(LOW_PRIORITY) {
        tracing::debug!("a thread of the store keeps its priority: {error}");
    }
}

pub(crate) fn or_abort<T>(what: &'static str, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| abort(what))
}

/// Apart from `or_abort`, which is built once for every unit of work.
#[cold]
fn abort(what: &'static str) -> ! {
    error!("{what} panicked, the process ends");
    std::process::abort()
}

/// A runtime for waiting on queues from a thread: it drives no I/O and no timer.
pub(crate) fn waiting_runtime() -> Result<Runtime, StoreError> {
    Builder::new_current_thread().build().map_err(no_thread)
}

/// The next message within this time, to the microsecond: a runtime's timer counts milliseconds. None also where no
/// sender is left.
pub(crate) fn recv_within<T>(queue: &mut mpsc::Receiver<T>, time: Duration) -> Option<T> {
    let until = Instant::now() + time;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(received) = queue.poll_recv(&mut Context::from_waker(&waker)) {
            return received;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn no_thread(error: std::io::Error) -> StoreError {
    StoreError::Thread(Arc::new(error))
}

/// Runs `work` on a thread of its own and waits for it.
///
/// The synchronous Postgres client drives a runtime inside, which panics on a thread that already drives one.
pub(crate) fn off_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || or_abort("opening the database", work);
        scope.spawn(run).join().unwrap_or_else(|_| std::process::abort())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_waited_for_until_something_comes_or_the_time_is_over() {
        let (sender, mut queue) = mpsc::channel(1);
        assert_eq!(recv_within(&mut queue, Duration::from_micros(200)), None);
        let sending = std::thread::spawn(move || sender.blocking_send(7));
        assert_eq!(recv_within(&mut queue, Duration::from_secs(60)), Some(7));
        sending.join().unwrap().unwrap();
        assert_eq!(recv_within(&mut queue, Duration::from_secs(60)), None, "nobody is left");
    }
}
