//! The need for a currency: how much of it is missing from its target, and what a trade does to that.

use alloy_primitives::U256;

use crate::money::{Amount, OutOfRange};

/// The part of a target that a need is measured in.
const WHOLE_BPS: u16 = 10_000;

/// A currency's stock beside its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    pub held: Amount,
    pub target: Amount,
}

impl Stock {
    /// The average need while this much comes in, in basis points of the target, rounded down; negative above the
    /// target. A need is never more than the whole target, on either side of it.
    ///
    /// The average over the trade and not the need before it: the last unit fills less of a need than the first, and
    /// beyond the target none.
    pub fn need_while_adding(self, amount: Amount) -> Result<i32, OutOfRange> {
        self.average(self.held, self.held.checked_add(amount)?, false)
    }

    /// The average need while this much goes out, rounded up.
    pub fn need_while_taking(self, amount: Amount) -> Result<i32, OutOfRange> {
        let below = self.held.saturating_sub(amount);
        // More than there is cannot be paid out; the need is measured as far as it goes.
        self.average(below, self.held, true)
    }

    /// The average need over all stocks from `low` to `high`.
    fn average(self, low: Amount, high: Amount, up: bool) -> Result<i32, OutOfRange> {
        let (target, low, high) = (self.target.units(), low.units(), high.units());
        if target.is_zero() {
            return Ok(0);
        }
        let whole = U256::from(WHOLE_BPS);
        let times = |a: U256, b: U256| a.checked_mul(b).ok_or(OutOfRange);
        if low == high {
            let (need, above) = if low > target { (low - target, true) } else { (target - low, false) };
            let need = need.min(target);
            let scaled = times(need, whole)?;
            let bps = if up != above { scaled.div_ceil(target) } else { scaled / target };
            return signed(bps, above);
        }
        // Twice the area between stock and target, times the target, on either side of it.
        let area = |distance: U256| {
            let within = distance.min(target);
            let beyond = times(distance - within, target)?;
            times(within, within)?.checked_add(times(beyond, U256::from(2))?).ok_or(OutOfRange)
        };
        let between = |near: U256, far: U256| area(far).and_then(|far| area(near).map(|near| far - near));
        let below = between(target.saturating_sub(high), target.saturating_sub(low))?;
        let above = between(low.saturating_sub(target), high.saturating_sub(target))?;
        let (size, is_above) = if above > below { (above - below, true) } else { (below - above, false) };
        let over = times(times(high - low, target)?, U256::from(2))?;
        let scaled = times(size, whole)?;
        let bps = if up != is_above { scaled.div_ceil(over) } else { scaled / over };
        signed(bps, is_above)
    }
}

fn signed(bps: U256, negative: bool) -> Result<i32, OutOfRange> {
    let bps = i32::try_from(bps).map_err(|_| OutOfRange)?;
    Ok(if negative { -bps } else { bps })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(units: u128) -> Amount {
        Amount::new(U256::from(units))
    }

    fn stock(held: u128, target: u128) -> Stock {
        Stock { held: amount(held), target: amount(target) }
    }

    #[test]
    fn a_need_is_averaged_over_the_trade() {
        for (held, adds, bps) in [
            (0, 0, 10_000),
            (0, 1_000, 5_000),
            (500, 0, 5_000),
            (500, 500, 2_500),
            // Past the target, what fills the need and what goes beyond it make up for each other.
            (500, 1_000, 0),
            (1_000, 500, -2_500),
            // A trade far beyond the target is nearly all surplus.
            (0, 1_000_000, -9_980),
            (5_000, 100, -10_000),
        ] {
            assert_eq!(stock(held, 1_000).need_while_adding(amount(adds)), Ok(bps), "{held} and {adds}");
        }
        for (held, takes, bps) in [
            (1_000, 0, 0),
            (1_000, 1_000, 5_000),
            (2_000, 2_000, 0),
            (2_000, 1_000, -5_000),
            (500, 1, 5_005),
            (500, 10_000, 7_500),
        ] {
            assert_eq!(stock(held, 1_000).need_while_taking(amount(takes)), Ok(bps), "{held} less {takes}");
        }
        assert_eq!(stock(5, 0).need_while_adding(amount(7)), Ok(0), "without a target there is no need");
    }

    proptest! {
        /// A larger trade never has a better average, and never a better one than its first unit.
        #[test]
        fn a_larger_trade_is_never_better(
            held in 0u128..1 << 100, target in 1u128..1 << 100, small in 0u128..1 << 100, more in 0u128..1 << 100,
        ) {
            let stock = stock(held, target);
            let adding = |units| stock.need_while_adding(amount(units)).unwrap();
            prop_assert!(adding(small + more) <= adding(small) + 1);
            prop_assert!(adding(small).abs() <= 10_000);
            let taking = |units| stock.need_while_taking(amount(units)).unwrap();
            prop_assert!(taking(small + more) >= taking(small) - 1);
            prop_assert!(taking(small).abs() <= 10_000);
        }
    }
}
