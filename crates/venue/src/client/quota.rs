//! Our own limit on calls, kept below the venue's: a client that is throttled cannot pay.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);

/// Calls and their weights in a rolling minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub calls: usize,
    pub weight: u32,
}

impl Quota {
    /// The venue's limits for an account without a tier of its own.
    pub const STANDARD: Self = Self { calls: 60, weight: 24_000 };
    pub const PREMIUM: Self = Self { calls: 4_000, weight: 24_000 };
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reading leaves a fifth of everything to payments.
    Read,
    /// Reading that may wait leaves a tenth more to reading that may not.
    Spare,
    Send,
}

impl Purpose {
    /// The part of a limit up to which calls of this purpose may fill the window.
    fn share(self, limit: u64) -> u64 {
        match self {
            Self::Send => limit,
            Self::Read => limit - limit / 5,
            Self::Spare => limit - limit.saturating_mul(3) / 10,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Meter {
    quota: Quota,
    spent: Arc<Mutex<VecDeque<(Instant, u32)>>>,
}

impl Meter {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, spent: Arc::default() }
    }

    /// Counts a call, or says how long the window is full.
    pub(super) fn take(&self, weight: u32, purpose: Purpose, now: Instant) -> Result<(), Duration> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            spent.pop_front();
        }
        let Quota { calls, weight: most } = self.quota;
        let total: u64 = spent.iter().fold(weight.into(), |sum: u64, (_, weight)| sum.saturating_add((*weight).into()));
        let number = u64::try_from(spent.len()).unwrap_or(u64::MAX);
        if number < purpose.share(u64::try_from(calls).unwrap_or(u64::MAX)) && total <= purpose.share(most.into()) {
            spent.push_back((now, weight));
            return Ok(());
        }
        let oldest = spent.front().map_or(WINDOW, |(at, _)| WINDOW.saturating_sub(now.saturating_duration_since(*at)));
        Err(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_leaves_room_for_payments() {
        let meter = Meter::new(Quota { calls: 10, weight: 10_000 });
        let now = Instant::now();
        for _ in 0..8 {
            meter.take(300, Purpose::Read, now).unwrap();
        }
        assert_eq!(meter.take(300, Purpose::Read, now), Err(WINDOW));
        meter.take(6, Purpose::Send, now).unwrap();
        meter.take(6, Purpose::Send, now).unwrap();
        assert!(meter.take(6, Purpose::Send, now).is_err());
    }

    #[test]
    fn reading_that_may_wait_leaves_room_for_reading_that_may_not() {
        let meter = Meter::new(Quota { calls: 10, weight: 10_000 });
        let now = Instant::now();
        for _ in 0..7 {
            meter.take(300, Purpose::Spare, now).unwrap();
        }
        assert_eq!(meter.take(300, Purpose::Spare, now), Err(WINDOW));
        meter.take(300, Purpose::Read, now).unwrap();
        assert!(meter.take(300, Purpose::Read, now).is_err());
        meter.take(6, Purpose::Send, now).unwrap();
    }

    #[test]
    fn the_window_rolls() {
        let meter = Meter::new(Quota { calls: 1, weight: 10_000 });
        let now = Instant::now();
        meter.take(6, Purpose::Send, now).unwrap();
        assert_eq!(meter.take(6, Purpose::Send, now + Duration::from_secs(20)), Err(Duration::from_secs(40)));
        meter.take(6, Purpose::Send, now + WINDOW).unwrap();
    }

    #[test]
    fn heavy_calls_fill_the_window_by_weight() {
        let meter = Meter::new(Quota { calls: 1_000, weight: 1_000 });
        let now = Instant::now();
        meter.take(500, Purpose::Read, now).unwrap();
        assert!(meter.take(500, Purpose::Read, now).is_err(), "800 are for reading");
        meter.take(500, Purpose::Send, now).unwrap();
    }
}
