//! Calls of the venue by commands that a person waits for. They read more than a minute's quota has room for, so they
//! wait where the service gives way.

use std::future::Future;
use std::time::Duration;

use venue::VenueError;

/// Pauses for one call. The quota's window is a minute.
const MAX_PAUSES: u32 = 20;
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Calls the venue, and again after the pause that the venue's limit or our own asks for.
pub(crate) async fn patiently<T, F>(call: impl Fn() -> F) -> Result<T, VenueError>
where
    F: Future<Output = Result<T, VenueError>>,
{
    for _ in 0..MAX_PAUSES {
        match call().await {
            Err(VenueError::QuotaUsed(pause) | VenueError::Busy(pause)) => {
                tokio::time::sleep(pause.max(MIN_PAUSE)).await;
            }
            answer => return answer,
        }
    }
    call().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_used_quota_is_waited_for_and_any_other_error_is_told() {
        let calls = Cell::new(0);
        let answer = patiently(|| async {
            calls.set(calls.get() + 1);
            match calls.get() {
                1 => Err(VenueError::QuotaUsed(Duration::from_millis(1))),
                2 => Err(VenueError::Busy(Duration::from_millis(1))),
                n => Ok(n),
            }
        });
        assert_eq!(answer.await.unwrap(), 3);
        calls.set(0);
        let failing = patiently(|| async {
            calls.set(calls.get() + 1);
            Err::<(), _>(VenueError::Failing(503))
        });
        assert!(matches!(failing.await, Err(VenueError::Failing(503))));
        assert_eq!(calls.get(), 1);
    }
}
