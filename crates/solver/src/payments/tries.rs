//! Tries of a payment that failed: how many, and how long after one another.

use std::time::Duration;

use domain::time::Timestamp;
use store::payments::Purpose;

/// Void payments after which no other is tried: a recipient that refuses money must not cost us gas for ever.
pub const fn max_voids(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Fill | Purpose::Refund | Purpose::Excess | Purpose::Claim => 2,
        Purpose::Return | Purpose::Refill | Purpose::Payout | Purpose::Relay => 1,
        // A reorg that takes the money away for a while has it fail as well.
        Purpose::Sweep => 6,
    }
}

/// The same for money that goes back on the venue: a rejection costs no gas there, and there is no depository out of
/// which an allocator could pay instead.
const MAX_VOIDS_ON_VENUE: u64 = 10;
/// The pause before a second try on the venue; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextTry {
    Now,
    Later,
    Never,
}

/// The next try of a payment with so many void ones, the last of which ended at the given time.
pub(super) fn next(purpose: Purpose, on_venue: bool, voids: u64, last: Option<Timestamp>, now: Timestamp) -> NextTry {
    let goes_back = matches!(purpose, Purpose::Refund | Purpose::Excess | Purpose::Return);
    if !on_venue || !goes_back {
        return if voids < max_voids(purpose) { NextTry::Now } else { NextTry::Never };
    }
    if voids >= MAX_VOIDS_ON_VENUE {
        return NextTry::Never;
    }
    let Some(last) = last else { return NextTry::Now };
    let doublings = u32::try_from(voids.saturating_sub(1)).unwrap_or(u32::MAX);
    let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(doublings));
    if now >= last.plus(pause) { NextTry::Now } else { NextTry::Later }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_that_the_venue_rejects_is_tried_again_after_a_pause() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        // Purpose, on the venue, void payments, seconds since the last of them.
        for (purpose, on_venue, voids, since, expected) in [
            (Purpose::Return, false, 0, None, NextTry::Now),
            (Purpose::Return, false, 1, Some(0), NextTry::Never),
            (Purpose::Fill, true, 1, Some(0), NextTry::Now),
            (Purpose::Fill, true, 2, Some(900), NextTry::Never),
            (Purpose::Return, true, 0, None, NextTry::Now),
            (Purpose::Return, true, 1, Some(1), NextTry::Later),
            (Purpose::Return, true, 1, Some(2), NextTry::Now),
            (Purpose::Refund, true, 4, Some(15), NextTry::Later),
            (Purpose::Refund, true, 4, Some(16), NextTry::Now),
            (Purpose::Excess, true, 9, Some(511), NextTry::Later),
            (Purpose::Excess, true, 9, Some(512), NextTry::Now),
            (Purpose::Return, true, 10, Some(100_000), NextTry::Never),
        ] {
            let last = since.map(|_| at(1_000));
            let now = at(1_000 + since.unwrap_or_default());
            assert_eq!(next(purpose, on_venue, voids, last, now), expected, "{purpose:?} {on_venue} {voids} {since:?}");
        }
    }
}
