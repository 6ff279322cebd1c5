//! Recipients that refused a payment a short while ago, for quoting: they are promised nothing.
//!
//! The worker notes them in the database. Quoting reads the list in the background, so that a quote waits for nothing.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use domain::time::Timestamp;
use store::refused_recipients::{self, Recipient};
use store::{Store, StoreError};
use tracing::debug;

/// Time for which a recipient that refused a payment is promised nothing.
pub const REFUSED_FOR: Duration = Duration::from_secs(900);
/// Age at which the list is read again.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Recipients that are kept in memory: the latest.
const MAX_RECIPIENTS: i64 = 10_000;

#[derive(Debug, Default)]
pub struct RefusedRecipients {
    known: ArcSwap<HashSet<Recipient>>,
    read_at: Mutex<Option<Instant>>,
}

/// The time since which a refusal counts.
pub fn refused_since(now: Timestamp) -> Timestamp {
    let millis = i64::try_from(REFUSED_FOR.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.millis().saturating_sub(millis))
}

impl RefusedRecipients {
    /// True if a recipient is known to have refused a payment. A list that is not fresh is read again for the next
    /// call.
    pub fn contains(self: &Arc<Self>, recipient: Recipient, store: &Store, now: Timestamp) -> bool {
        if self.begins_reading() {
            let (this, store) = (self.clone(), store.clone());
            tokio::spawn(async move {
                let read = store
                    .read::<_, StoreError>(move |tx| refused_recipients::all(tx, refused_since(now), MAX_RECIPIENTS));
                match read.await {
                    Ok(all) => this.known.store(Arc::new(all.into_iter().collect())),
                    Err(failure) => {
                        debug!(error = &failure as &dyn std::error::Error, "refused recipients could not be read");
                    }
                }
            });
        }
        self.known.load().contains(&recipient)
    }

    fn begins_reading(&self) -> bool {
        let mut read_at = self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = read_at.is_none_or(|at| at.elapsed() >= FRESH_FOR);
        if due {
            *read_at = Some(Instant::now());
        }
        due
    }
}
