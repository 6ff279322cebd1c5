//! Upkeep: deliveries that nobody will take are given up, and the old log is deleted, in small batches.

use std::time::Duration;

use domain::time::Timestamp;
use metrics::gauge;
use store::{Store, StoreError, Tx, webhooks};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::env::{Env, Settings};

const INTERVAL: Duration = Duration::from_secs(30);
/// Batches of one kind in one round; the rest waits for the next.
const MAX_BATCHES: usize = 100;
/// The pause between two batches, in which payments go first.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(store: Store, settings: Settings, env: Env, stop: CancellationToken) {
    loop {
        if let Err(failure) = round(&store, &settings, (env.clock)()).await {
            warn!(error = &failure as &dyn std::error::Error, "the upkeep of webhooks failed; it is tried again");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

async fn round(store: &Store, settings: &Settings, now: Timestamp) -> Result<(), StoreError> {
    let before = |age: Duration| {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.millis().saturating_sub(age))
    };
    let (too_old, forgotten) = (before(settings.max_age), before(settings.kept_for));
    batches(store, move |tx| webhooks::drop_ended(tx, now)).await?;
    batches(store, move |tx| webhooks::drop_old(tx, too_old, now)).await?;
    batches(store, move |tx| webhooks::prune(tx, forgotten)).await?;
    let (due, oldest) = store.read(webhooks::backlog).await?;
    let age = oldest.map_or(0, |oldest| now.millis().saturating_sub(oldest.millis()).max(0) / 1_000);
    gauge!("causeway_webhooks_due").set(u32::try_from(due).unwrap_or(u32::MAX));
    gauge!("causeway_webhooks_oldest_due_seconds").set(u32::try_from(age).unwrap_or(u32::MAX));
    Ok(())
}

/// Runs a batch until there is nothing more to do.
async fn batches(
    store: &Store,
    batch: impl Fn(&mut Tx<'_>) -> Result<bool, StoreError> + Clone + Send + 'static,
) -> Result<(), StoreError> {
    for _ in 0..MAX_BATCHES {
        if !store.write(batch.clone()).await? {
            return Ok(());
        }
        tokio::time::sleep(BATCH_INTERVAL).await;
    }
    Ok(())
}
