//! A receiver that counts, and of which one path can be made to hang.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const HANGING: &str = "/hanging";
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Nothing came for so long: the service has heard that it is to stop.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Shared {
    count: AtomicUsize,
    /// Arrivals by the id of the delivery, while they are watched.
    watched: AtomicBool,
    arrivals: Mutex<HashMap<i64, Instant>>,
    /// The body of the last event.
    sample: Mutex<Bytes>,
    hanging: watch::Sender<bool>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Sink {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Sink {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            count: AtomicUsize::default(),
            watched: AtomicBool::default(),
            arrivals: Mutex::default(),
            sample: Mutex::default(),
            hanging: watch::channel(false).0,
        });
        let router = Router::new().fallback(receive).with_state(shared.clone());
        let task = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, shared, task })
    }

    /// The URL of an endpoint.
    pub(crate) fn url(&self, endpoint: usize, hanging: usize) -> String {
        let path = if endpoint == hanging { HANGING.to_owned() } else { format!("/{endpoint}") };
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// The body of an event that came.
    pub(crate) fn sample(&self) -> String {
        String::from_utf8_lossy(&locked(&self.shared.sample)).into_owned()
    }

    /// Makes one path hang, or answer everything that waits there.
    pub(crate) fn hang(&self, hang: bool) {
        self.shared.hanging.send_replace(hang);
    }

    /// Forgets earlier arrivals and remembers those from now on.
    pub(crate) fn watch(&self) {
        locked(&self.shared.arrivals).clear();
        self.shared.watched.store(true, Ordering::SeqCst);
    }

    /// Waits until as many have arrived since, and returns when each did.
    pub(crate) async fn arrivals(&self, count: usize, timeout: Duration) -> Result<HashMap<i64, Instant>> {
        let began = Instant::now();
        loop {
            let arrived = locked(&self.shared.arrivals).len();
            if arrived >= count {
                break;
            }
            ensure!(began.elapsed() < timeout, "only {arrived} of {count} events arrived");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.shared.watched.store(false, Ordering::SeqCst);
        Ok(std::mem::take(&mut *locked(&self.shared.arrivals)))
    }

    /// Waits until nothing comes any more.
    pub(crate) async fn quiet(&self, timeout: Duration) -> Result<()> {
        let (began, mut last, mut since) = (Instant::now(), self.count(), Instant::now());
        while since.elapsed() < QUIET {
            ensure!(began.elapsed() < timeout, "events still come");
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.count() != last {
                (last, since) = (self.count(), Instant::now());
            }
        }
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> &'static str {
    let at = Instant::now();
    if uri.path() == HANGING {
        let mut hanging = shared.hanging.subscribe();
        // The sender is in the same place: it cannot be gone.
        let _ = hanging.wait_for(|hanging| !hanging).await;
    }
    let id = headers.get("x-webhook-id").and_then(|id| id.to_str().ok()?.parse().ok());
    if let Some(id) = id.filter(|_| shared.watched.load(Ordering::SeqCst)) {
        locked(&shared.arrivals).entry(id).or_insert(at);
        *locked(&shared.sample) = body;
    }
    shared.count.fetch_add(1, Ordering::Relaxed);
    "ok"
}
