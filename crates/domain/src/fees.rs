//! The fees of a transfer: fixed amounts, and shares of the deposit, in the deposit's currency.
//!
//! Shares are rounded up together and then split, so that a deposit of one unit more never leaves less. The shares of
//! others are rounded down; the fraction stays with the first share that has one.

use alloy_primitives::{Address, U256};

use crate::money::{Amount, OutOfRange, Ratio, Signed};

/// A share of the input for an integrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppFee {
    pub recipient: Address,
    pub bps: u16,
}

/// Taken out of the deposit, each in its smallest unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    /// Gas of the fill on the destination.
    pub fill_gas: Amount,
    /// Native currency delivered beside the output.
    pub top_up: Amount,
    pub flat: Amount,
    /// The service's share, by the class of the pair.
    pub relay: Amount,
    /// The cost of bringing the inventory back to where it was; a reward where the transfer does just that.
    pub rebalance: Signed,
    /// One for each app fee that was asked for, in the same order.
    pub app: Vec<Amount>,
}

/// The most that failed fills cost whoever made them fail, as a multiple of the quoted gas of a fill.
const MAX_WASTED_GAS_TIMES: u64 = 3;

impl Fees {
    /// The most gas of failed fills that is charged for: more than that is not the caller's doing.
    pub fn max_wasted_gas(&self) -> Result<Amount, OutOfRange> {
        self.fill_gas.mul_floor(Ratio::new(U256::from(MAX_WASTED_GAS_TIMES), U256::ONE)?)
    }

    /// The fees that do not depend on how much is deposited.
    pub fn fixed(&self) -> Result<Amount, OutOfRange> {
        self.fill_gas.checked_add(self.top_up)?.checked_add(self.flat)
    }

    pub fn app_total(&self) -> Result<Amount, OutOfRange> {
        self.app.iter().try_fold(Amount::ZERO, |sum, fee| sum.checked_add(*fee))
    }

    /// The fees that are shares of the deposit.
    pub fn shares(&self) -> Result<Signed, OutOfRange> {
        Signed::cost(self.relay.checked_add(self.app_total()?)?).checked_add(self.rebalance)
    }

    /// The same for this part of the deposit, which may be more than the whole. A reward is for the quoted amount, by
    /// which our inventory was measured: it shrinks with the deposit and does not grow with it.
    pub fn scaled_shares(&self, part: Ratio) -> Result<Signed, OutOfRange> {
        let shares = self.shares()?;
        let whole = Ratio::bps(10_000);
        if !self.rebalance.is_negative() || part.min(whole) == part {
            return Ok(if shares.is_negative() {
                Signed::reward(shares.size().mul_floor(part)?)
            } else {
                Signed::cost(shares.size().mul_ceil(part)?)
            });
        }
        let costs = self.relay.checked_add(self.app_total()?)?;
        Signed::cost(costs.mul_ceil(part)?).checked_add(self.rebalance)
    }

    pub fn total(&self) -> Result<Signed, OutOfRange> {
        Signed::cost(self.fixed()?).checked_add(self.shares()?)
    }

    /// Gas of the fill, what is delivered beside it, and the flat fee.
    pub fn execution(&self) -> Result<Amount, OutOfRange> {
        self.fixed()
    }
}

/// The charges for a pair of places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    pub fill_gas: Amount,
    pub top_up: Amount,
    pub flat: Amount,
    pub relay_bps: u16,
    pub app_bps: Vec<u16>,
    /// Negative for a reward.
    pub rebalance_bps: i16,
}

const WHOLE_BPS: u32 = 10_000;

fn share(bps: u32) -> Result<Ratio, OutOfRange> {
    Ratio::new(U256::from(bps), U256::from(WHOLE_BPS))
}

impl Charge {
    fn cost_bps(&self) -> u32 {
        let app: u32 = self.app_bps.iter().copied().map(u32::from).sum();
        u32::from(self.relay_bps) + app + u32::try_from(self.rebalance_bps).unwrap_or(0)
    }

    fn reward_bps(&self) -> u32 {
        u32::from(self.rebalance_bps.min(0).unsigned_abs())
    }

    /// Checks that the shares together stay below the whole.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if self.cost_bps() >= WHOLE_BPS { Err(OutOfRange) } else { Ok(()) }
    }

    pub fn fees(&self, deposit: Amount) -> Result<Fees, OutOfRange> {
        self.check()?;
        let costs = deposit.mul_ceil(share(self.cost_bps())?)?;
        let floor = |bps: u32| deposit.mul_floor(share(bps)?);
        let mut app = self.app_bps.iter().map(|bps| floor(u32::from(*bps))).collect::<Result<Vec<_>, _>>()?;
        let mut rebalance = floor(u32::try_from(self.rebalance_bps).unwrap_or(0))?;
        let relay = floor(u32::from(self.relay_bps))?;
        let parts = app.iter().try_fold(relay.checked_add(rebalance)?, |sum, fee| sum.checked_add(*fee))?;
        let rest = costs.checked_sub(parts)?;
        let mut relay = relay;
        let first = if self.relay_bps > 0 {
            Some(&mut relay)
        } else {
            app.iter_mut().zip(&self.app_bps).find(|(_, bps)| **bps > 0).map(|(fee, _)| fee)
        };
        let first = first.unwrap_or(&mut rebalance);
        *first = first.checked_add(rest)?;
        let rebalance = match self.rebalance_bps {
            ..0 => Signed::reward(floor(self.reward_bps())?),
            0.. => Signed::cost(rebalance),
        };
        Ok(Fees { fill_gas: self.fill_gas, top_up: self.top_up, flat: self.flat, relay, rebalance, app })
    }

    /// About the deposit of which this much is left, where nobody else pays.
    pub fn gross(&self, left: Amount) -> Result<Amount, OutOfRange> {
        let kept = (WHOLE_BPS + self.reward_bps()).checked_sub(self.cost_bps()).filter(|kept| *kept > 0);
        let gross = left.checked_add(self.fill_gas)?.checked_add(self.top_up)?.checked_add(self.flat)?;
        gross.mul_ceil(Ratio::new(U256::from(WHOLE_BPS), U256::from(kept.ok_or(OutOfRange)?))?)
    }
}

/// The least amount for which something holds that holds for all greater ones, looked for around a guess.
pub fn least(guess: Amount, holds: impl Fn(Amount) -> bool) -> Option<Amount> {
    // Each step is twice the last: the guess is a few units off, or the bounds of the type are soon reached.
    const MAX_STEPS: u32 = 256;
    let step = |n: u32| Amount::new(U256::ONE << n);
    let (mut fails, mut good);
    if holds(guess) {
        (fails, good) = (None, guess);
        for n in 0..MAX_STEPS {
            let below = guess.saturating_sub(step(n));
            if !holds(below) {
                fails = Some(below);
                break;
            }
            good = below;
            if below.is_zero() {
                return Some(below);
            }
        }
    } else {
        fails = Some(guess);
        good = (0..MAX_STEPS).map_while(|n| guess.checked_add(step(n)).ok()).find(|above| {
            let holds = holds(*above);
            if !holds {
                fails = Some(*above);
            }
            holds
        })?;
    }
    let mut fails = fails?;
    while good.checked_sub(fails).is_ok_and(|gap| gap > step(0)) {
        let middle = fails.checked_add(Amount::new(good.saturating_sub(fails).units() >> 1)).ok()?;
        if holds(middle) {
            good = middle;
        } else {
            fails = middle;
        }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(units: u128) -> Amount {
        Amount::new(U256::from(units))
    }

    fn charge() -> impl Strategy<Value = Charge> {
        (0u128..1 << 40, 0u16..50, proptest::collection::vec(0u16..300, 0..4), -50i16..50).prop_map(
            |(flat, relay_bps, app_bps, rebalance_bps)| Charge {
                flat: amount(flat),
                relay_bps,
                app_bps,
                rebalance_bps,
                ..Charge::default()
            },
        )
    }

    #[test]
    fn the_fraction_stays_with_the_first_share() {
        let fees = |relay_bps, app_bps: &[u16], rebalance_bps| {
            let charge = Charge { relay_bps, app_bps: app_bps.to_vec(), rebalance_bps, ..Charge::default() };
            let fees = charge.fees(amount(10_001)).unwrap();
            (fees.relay.to_string(), fees.app.iter().map(ToString::to_string).collect::<Vec<_>>(), fees.rebalance)
        };
        assert_eq!(fees(1, &[1], 0), ("2".into(), vec!["1".into()], Signed::ZERO));
        assert_eq!(fees(0, &[0, 1], 0), ("0".into(), vec!["0".into(), "2".into()], Signed::ZERO));
        assert_eq!(fees(0, &[], 1), ("0".into(), vec![], Signed::cost(amount(2))));
        assert_eq!(fees(0, &[], -1), ("0".into(), vec![], Signed::reward(amount(1))));
        assert_eq!(fees(0, &[], 0), ("0".into(), vec![], Signed::ZERO));
    }

    #[test]
    fn a_reward_shrinks_with_the_deposit_and_does_not_grow_with_it() {
        let charge = Charge { relay_bps: 2, rebalance_bps: -10, ..Charge::default() };
        let fees = charge.fees(amount(1_000_000)).unwrap();
        let shares = |num: u64, den: u64| fees.scaled_shares(Ratio::new(U256::from(num), U256::from(den)).unwrap());
        assert_eq!(shares(1, 1), Ok(Signed::reward(amount(800))));
        assert_eq!(shares(1, 2), Ok(Signed::reward(amount(400))));
        // Costs of 200 for each time the quoted amount, and one reward of 1,000.
        assert_eq!(shares(2, 1), Ok(Signed::reward(amount(600))));
        assert_eq!(shares(100, 1), Ok(Signed::cost(amount(19_000))));
    }

    proptest! {
        #[test]
        fn one_unit_more_never_leaves_less(charge in charge(), deposit in 0u128..1 << 100) {
            let left = |deposit: Amount| charge.fees(deposit).unwrap().total().unwrap().taken_from(deposit);
            if let Ok(less) = left(amount(deposit)) {
                prop_assert!(left(amount(deposit + 1)).unwrap() >= less);
            }
        }

        #[test]
        fn no_share_is_charged_twice(charge in charge(), deposit in 0u128..1 << 100) {
            let fees = charge.fees(amount(deposit)).unwrap();
            let exact = U256::from(deposit) * U256::from(charge.cost_bps());
            let taken = fees.relay.checked_add(fees.app_total().unwrap()).unwrap();
            let taken = if fees.rebalance.is_negative() { taken } else { taken.checked_add(fees.rebalance.size()).unwrap() };
            prop_assert_eq!(taken.units(), exact.div_ceil(U256::from(10_000)));
        }

        #[test]
        fn the_least_is_found_from_any_guess(target in 0u128..1 << 90, guess in 0u128..1 << 90) {
            prop_assert_eq!(least(amount(guess), |at| at >= amount(target)), Some(amount(target)));
        }
    }
}
