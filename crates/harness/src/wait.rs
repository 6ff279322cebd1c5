//! Waiting for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The longest wait for a condition, before the run is called stuck: far beyond what a busy machine takes.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Polls a condition until it holds.
pub async fn eventually<F, Fut>(what: &str, mut is_so: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    found(what, || {
        let is_so = is_so();
        async move { Ok(is_so.await?.then_some(())) }
    })
    .await
}

/// Polls for a value until there is one. The value is the one that was seen, and not that of a second look.
pub async fn found<T, F, Fut>(what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    let began = Instant::now();
    while began.elapsed() < WAIT_TIMEOUT {
        if let Some(value) = look().await? {
            return Ok(value);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("not in time: {what}")
}
