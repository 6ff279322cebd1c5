//! The debt of a fast fill whose deposit did not come in time.
//!
//! When its window ends, the deposit is owed in USDC at the worth of that moment, and a deposit that lands later is
//! worth what it was when it landed. Both times are the chain's, not those at which the service looks: while it is
//! away nobody gets longer to decide. Feeds are behind the market, so the price is the worst for the integrator from that
//! time until the feeds have caught up.

use std::time::Duration;

use crate::ledger::UsdcMicros;

/// The time within which a feed follows the market.
pub const FEED_LAG: Duration = Duration::from_secs(60);

/// The charge in place of a deposit: its worth at the end of the window. Where no feed remembers that, its worth now,
/// or its worth at the fill if that is more: a price that fell meanwhile is nobody's gain. None while neither is known.
pub fn charge(at_end: Option<UsdcMicros>, at_fill: UsdcMicros, now: Option<UsdcMicros>) -> Option<UsdcMicros> {
    at_end.or_else(|| now.map(|now| now.max(at_fill)))
}

/// The credit for a deposit that landed after the window: never more than was charged in its place, than it was worth
/// when it landed, or than it is worth now that it is final.
pub fn credit(charged: UsdcMicros, landed: Option<UsdcMicros>, now: UsdcMicros) -> UsdcMicros {
    charged.min(now).min(landed.unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: [i64; 5] = [800, 950, 1_000, 1_050, 1_300];

    /// Every price at the end of the window, when the deposit lands and when it is final: from the end of the window on
    /// the integrator owes so many dollars, and never ends with more than it would by paying them.
    #[test]
    fn whatever_the_price_does_after_the_window_nobody_gains_by_depositing_late_or_not_at_all() {
        for at_fill in PRICES.map(UsdcMicros) {
            for at_end in PRICES.map(UsdcMicros) {
                for now in PRICES.map(UsdcMicros) {
                    let charged = charge(Some(at_end), at_fill, Some(now)).unwrap();
                    assert_eq!(charged, at_end, "the charge does not depend on when somebody looks");
                    for landed in PRICES.map(UsdcMicros) {
                        let credit = credit(charged, Some(landed), now);
                        let paid = landed.0 + charged.0 - credit.0;
                        assert!(paid >= at_end.0, "{at_end:?} {landed:?} {now:?}");
                        let (low, high) = (at_end.min(landed).min(now), at_end.max(landed).max(now));
                        assert!(paid - landed.0 <= high.0 - low.0, "it costs at most what the price moved");
                    }
                }
            }
        }
    }

    #[test]
    fn where_no_feed_remembers_a_price_that_fell_is_not_passed_on() {
        for (at_fill, now, charged) in [(1_000, 900, 1_000), (1_000, 1_100, 1_100), (1_000, 1_000, 1_000)] {
            let (at_fill, now) = (UsdcMicros(at_fill), UsdcMicros(now));
            assert_eq!(charge(None, at_fill, Some(now)), Some(UsdcMicros(charged)));
            assert_eq!(credit(UsdcMicros(charged), None, now), now);
        }
        assert_eq!(charge(None, UsdcMicros(1_000), None), None, "it waits for a price");
    }
}
