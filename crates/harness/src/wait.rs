//! Waiting for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The longest wait for a condition on a busy machine, before the run is called stuck.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Polls a condition until it holds.
pub async fn eventually<F, Fut>(what: &str, mut is_so: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool>>,
{
    let began = Instant::now();
    while began.elapsed() < WAIT_TIMEOUT {
        if is_so().await? {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("not in time: {what}")
}
