//! Calls under API keys, counted in memory and added to the database every few seconds: no call waits for a write.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::api_key::{ApiKeyId, Family};
use domain::time::Timestamp;
use solver::error::Chained;
use store::key_usage::{self, Usage};
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::warn;

const FLUSH_INTERVAL: Duration = Duration::from_secs(10);
/// Counts in memory. Calls of further keys are not counted until the next flush.
const MAX_COUNTS: usize = 10_000;
/// Days that are kept.
const KEPT_DAYS: i64 = 90;

/// Counts since the last flush.
#[derive(Debug, Default)]
pub struct UsageCounts(Mutex<HashMap<(ApiKeyId, Family), (u64, u64)>>);

impl UsageCounts {
    pub(crate) fn count(&self, key: ApiKeyId, family: Family, refused: bool) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTS && !counts.contains_key(&(key, family)) {
            return;
        }
        let (calls, turned_away) = counts.entry((key, family)).or_default();
        *calls = calls.saturating_add(1);
        *turned_away = turned_away.saturating_add(u64::from(refused));
    }

    fn take(&self) -> Vec<Usage> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let usage = |((key, family), (calls, refused))| Usage { key, family, calls, refused };
        counts.into_iter().map(usage).collect()
    }

    /// Adds the counts to the database, at intervals and once more at the end.
    pub async fn keep(&self, store: Store, clock: fn() -> Timestamp, stop: CancellationToken) {
        let mut stopping = false;
        while !stopping {
            stopping = stop.run_until_cancelled(tokio::time::sleep(FLUSH_INTERVAL)).await.is_none();
            if let Err(error) = self.flush(&store, clock()).await {
                warn!(error = %Chained(&error), "calls under keys could not be counted");
            }
        }
    }

    /// Counts that could not be written are lost: they are figures, not money.
    async fn flush(&self, store: &Store, now: Timestamp) -> Result<(), StoreError> {
        let (counted, day) = (self.take(), key_usage::day(now));
        if counted.is_empty() {
            return Ok(());
        }
        let unit = move |tx: &mut store::Tx<'_>| {
            key_usage::add(tx, day, &counted)?;
            key_usage::prune(tx, day.saturating_sub(KEPT_DAYS)).map(drop)
        };
        store.write(unit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_key_and_family_and_taken_once() {
        let (counts, key) = (UsageCounts::default(), ApiKeyId::new([1; 10]));
        counts.count(key, Family::Quotes, false);
        counts.count(key, Family::Quotes, true);
        counts.count(key, Family::Others, false);
        let mut taken = counts.take();
        taken.sort_by_key(|usage| usage.family);
        let figures: Vec<_> = taken.iter().map(|usage| (usage.family, usage.calls, usage.refused)).collect();
        assert_eq!(figures, [(Family::Quotes, 2, 1), (Family::Others, 1, 0)]);
        assert!(counts.take().is_empty());
    }
}
