//! The recorder: results of attempts, several in one unit.
//!
//! Only one of its units waits for the database at a time. Payments share the writer, and a result for each post would
//! queue up in front of them.

use std::time::Duration;

use domain::time::Timestamp;
use store::webhooks::{self, Done};
use store::{Store, StoreError, Tx};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

use crate::env::MAX_POSTS_PER_ENDPOINT;
use crate::slots::{MAX_UNDER_WAY, Slot};

/// Rows that one unit changes, here and in a claim: a payment waits for no more of them.
pub(crate) const ROWS_PER_UNIT: usize = 32;
/// The longest wait of a result for others. Receivers answer one by one, and each unit costs the writer a sync to disk.
const GATHER_TIMEOUT: Duration = Duration::from_millis(10);
/// Tries to record results, and the pause between them. After the last the events are posted once more.
const MAX_TRIES: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// A result, and the slot of its post, which is free once the result is recorded.
pub(crate) type Ended = (Done, Slot);

/// Records what comes until every sender is gone.
pub(crate) fn start(store: Store, clock: fn() -> Timestamp) -> (mpsc::Sender<Ended>, JoinHandle<()>) {
    let (sender, results) = mpsc::channel(MAX_UNDER_WAY);
    (sender, tokio::spawn(run(store, clock, results)))
}

async fn run(store: Store, clock: fn() -> Timestamp, mut results: mpsc::Receiver<Ended>) {
    let mut ended = Vec::with_capacity(ROWS_PER_UNIT);
    while let Some(first) = results.recv().await {
        ended.push(first);
        gather(&mut results, &mut ended).await;
        let done: Vec<Done> = ended.iter().map(|(done, _)| done.clone()).collect();
        if !persist(&store, clock, &done).await {
            // One of them may have spoiled it for all.
            for one in done {
                if let Err(failure) = record(&store, clock(), vec![one]).await {
                    let error = &failure as &dyn std::error::Error;
                    warn!(error, "the result of a webhook is not recorded: it is posted again");
                }
            }
        }
        ended.clear();
    }
}

/// Waits a little for results to be recorded together.
async fn gather(results: &mut mpsc::Receiver<Ended>, ended: &mut Vec<Ended>) {
    let until = Instant::now() + GATHER_TIMEOUT;
    while ended.len() < ROWS_PER_UNIT && !fills_its_endpoint(ended) {
        match tokio::time::timeout_at(until, results.recv()).await {
            Ok(Some(next)) => ended.push(next),
            Ok(None) | Err(_) => return,
        }
    }
}

/// True if nothing else is under way and an endpoint may have no slot left: its queue waits for these results.
fn fills_its_endpoint(ended: &[Ended]) -> bool {
    ended.len() >= MAX_POSTS_PER_ENDPOINT && ended.last().is_some_and(|(_, slot)| slot.under_way() <= ended.len())
}

/// Records results together, and again for a while. Without it their claims end by themselves and the events are posted
/// again, which is allowed.
async fn persist(store: &Store, clock: fn() -> Timestamp, done: &[Done]) -> bool {
    for _ in 0..MAX_TRIES {
        match record(store, clock(), done.to_vec()).await {
            Ok(()) => return true,
            Err(failure) => {
                warn!(error = &failure as &dyn std::error::Error, "results of webhooks are not recorded yet");
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    false
}

async fn record(store: &Store, now: Timestamp, done: Vec<Done>) -> Result<(), StoreError> {
    let unit = move |tx: &mut Tx<'_>| done.iter().try_for_each(|done| webhooks::record(tx, done, now));
    store.write(unit).await
}
