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
    /// Reading that a caller can cause has a quarter of all reading, so that it cannot starve the rest.
    Quote,
    /// The same for a caller whom nobody knows: half of that quarter, so that strangers leave some to those with a key.
    OpenQuote,
    Send,
}

impl Purpose {
    /// The part of a limit up to which calls of this purpose may fill the window.
    fn share(self, limit: u64) -> u64 {
        match self {
            Self::Send => limit,
            Self::Read | Self::Quote | Self::OpenQuote => limit - limit / 5,
            Self::Spare => limit - limit.saturating_mul(3) / 10,
        }
    }

    /// The purposes that count together with this one, and the part of a limit that they may fill: every part is held.
    fn parts(self) -> &'static [Part] {
        match self {
            Self::Quote => &[QUOTES],
            Self::OpenQuote => &[OPEN_QUOTES, QUOTES],
            Self::Read | Self::Spare | Self::Send => &[],
        }
    }
}

/// A part of all reading that some purposes share.
#[derive(Debug)]
struct Part {
    of: &'static [Purpose],
    divisor: u64,
}

const QUOTES: Part = Part { of: &[Purpose::Quote, Purpose::OpenQuote], divisor: 4 };
const OPEN_QUOTES: Part = Part { of: &[Purpose::OpenQuote], divisor: 8 };

#[derive(Clone, Debug)]
pub(super) struct Meter {
    quota: Quota,
    spent: Arc<Mutex<VecDeque<Call>>>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    at: Instant,
    weight: u32,
    purpose: Purpose,
}

impl Call {
    /// The time until it leaves the window.
    fn leaves_in(&self, now: Instant) -> Duration {
        WINDOW.saturating_sub(now.saturating_duration_since(self.at))
    }
}

impl Meter {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, spent: Arc::default() }
    }

    /// Counts a call, or says how long the window is full.
    pub(super) fn take(&self, weight: u32, purpose: Purpose, now: Instant) -> Result<(), Duration> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.front().is_some_and(|call| now.saturating_duration_since(call.at) >= WINDOW) {
            spent.pop_front();
        }
        if !fits(spent.iter(), weight, self.quota, |limit| purpose.share(limit)) {
            return Err(spent.front().map_or(WINDOW, |oldest| oldest.leaves_in(now)));
        }
        for part in purpose.parts() {
            let own = || spent.iter().filter(move |call| part.of.contains(&call.purpose));
            if !fits(own(), weight, self.quota, |limit| purpose.share(limit) / part.divisor) {
                return Err(own().next().map_or(WINDOW, |oldest| oldest.leaves_in(now)));
            }
        }
        spent.push_back(Call { at: now, weight, purpose });
        Ok(())
    }
}

/// True if one more call of this weight is within the share of both limits.
fn fits<'a>(spent: impl Iterator<Item = &'a Call>, weight: u32, quota: Quota, share: impl Fn(u64) -> u64) -> bool {
    let (calls, total) = spent.fold((1u64, u64::from(weight)), |(calls, total), call| {
        (calls.saturating_add(1), total.saturating_add(call.weight.into()))
    });
    calls <= share(u64::try_from(quota.calls).unwrap_or(u64::MAX)) && total <= share(quota.weight.into())
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
    fn quotes_have_a_quarter_of_the_reads_and_leave_the_rest_to_the_walk() {
        let meter = Meter::new(Quota { calls: 60, weight: 1_000_000 });
        let now = Instant::now();
        for _ in 0..12 {
            meter.take(300, Purpose::Quote, now).unwrap();
        }
        let later = now + Duration::from_secs(20);
        assert_eq!(meter.take(300, Purpose::Quote, later), Err(Duration::from_secs(40)));
        for _ in 0..36 {
            meter.take(300, Purpose::Read, later).unwrap();
        }
        assert!(meter.take(300, Purpose::Read, later).is_err(), "48 of 60 are for reading");
        meter.take(6, Purpose::Send, later).unwrap();
        meter.take(300, Purpose::Quote, now + WINDOW).unwrap();
    }

    #[test]
    fn strangers_have_half_of_what_quotes_have() {
        let meter = Meter::new(Quota { calls: 60, weight: 1_000_000 });
        let now = Instant::now();
        for _ in 0..6 {
            meter.take(300, Purpose::OpenQuote, now).unwrap();
        }
        assert_eq!(meter.take(300, Purpose::OpenQuote, now), Err(WINDOW));
        for _ in 0..6 {
            meter.take(300, Purpose::Quote, now).unwrap();
        }
        assert_eq!(meter.take(300, Purpose::Quote, now), Err(WINDOW), "12 of 48 are for all quotes");
    }

    #[test]
    fn strangers_have_nothing_once_quotes_with_a_key_have_used_it() {
        let meter = Meter::new(Quota { calls: 60, weight: 1_000_000 });
        let now = Instant::now();
        for _ in 0..12 {
            meter.take(300, Purpose::Quote, now).unwrap();
        }
        assert_eq!(meter.take(300, Purpose::OpenQuote, now), Err(WINDOW));
        meter.take(300, Purpose::Read, now).unwrap();
    }

    #[test]
    fn quotes_have_a_quarter_of_the_weight_as_well() {
        let meter = Meter::new(Quota { calls: 1_000, weight: 10_000 });
        let now = Instant::now();
        for _ in 0..4 {
            meter.take(500, Purpose::Quote, now).unwrap();
        }
        assert!(meter.take(500, Purpose::Quote, now).is_err(), "2000 of 8000 are for quotes");
        meter.take(500, Purpose::Read, now).unwrap();
    }

    #[test]
    fn reading_that_is_full_is_full_for_quotes_too() {
        let meter = Meter::new(Quota { calls: 10, weight: 10_000 });
        let now = Instant::now();
        for _ in 0..8 {
            meter.take(6, Purpose::Read, now).unwrap();
        }
        assert_eq!(meter.take(6, Purpose::Quote, now), Err(WINDOW));
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
