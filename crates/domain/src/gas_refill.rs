//! The native currency that each filler wallet works with, and what it takes to fill it up.

use alloy_primitives::Address;

use crate::money::{Amount, Ratio};

/// The balance a wallet should have, and the one it should not fall below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasLevels {
    pub target: Amount,
    pub low: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    pub wallet: Address,
    pub has: Amount,
    pub amount: Amount,
}

/// A gap of less than this share of the target is not worth a transaction.
const LEAST_BPS: u16 = 500;

impl GasLevels {
    pub fn is_low(&self, has: Amount) -> bool {
        has < self.low
    }

    /// The amount that fills up a wallet, where that is worth a transaction.
    pub fn lacks(&self, has: Amount) -> Option<Amount> {
        let least = self.target.mul_ceil(Ratio::bps(LEAST_BPS)).unwrap_or_default();
        Some(self.target.saturating_sub(has)).filter(|amount| !amount.is_zero() && *amount >= least)
    }

    /// The gap of each wallet, the poorest first, as far as `spare` reaches: a wallet is filled up or left as it is.
    pub fn refills(&self, wallets: &[(Address, Amount)], spare: Amount) -> Vec<Refill> {
        let lacking =
            wallets.iter().filter_map(|&(wallet, has)| Some(Refill { wallet, has, amount: self.lacks(has)? }));
        let mut lacking: Vec<Refill> = lacking.collect();
        lacking.sort_by_key(|lacking| (lacking.has, lacking.wallet));
        let mut spare = spare;
        lacking.retain(|lacking| match spare.checked_sub(lacking.amount) {
            Ok(left) => {
                spare = left;
                true
            }
            Err(_) => false,
        });
        lacking
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use proptest::prelude::*;

    use super::*;

    fn of(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    fn wallet(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    const LEVELS: fn() -> GasLevels = || GasLevels { target: of(100), low: of(20) };

    #[test]
    fn the_poorest_are_filled_up_first_as_far_as_it_reaches() {
        let wallets = [(wallet(1), of(90)), (wallet(2), of(10)), (wallet(3), of(50)), (wallet(4), of(100))];
        let amounts = |spare| -> Vec<(Address, Amount)> {
            LEVELS().refills(&wallets, of(spare)).iter().map(|it| (it.wallet, it.amount)).collect()
        };
        assert_eq!(amounts(1_000), [(wallet(2), of(90)), (wallet(3), of(50)), (wallet(1), of(10))]);
        assert_eq!(amounts(140), [(wallet(2), of(90)), (wallet(3), of(50))]);
        // A spare amount too small for the poorest may still do for another.
        assert_eq!(amounts(60), [(wallet(3), of(50)), (wallet(1), of(10))]);
        assert_eq!(amounts(0), []);
    }

    #[test]
    fn next_to_nothing_is_not_worth_a_transaction() {
        assert_eq!(LEVELS().refills(&[(wallet(1), of(96))], of(1_000)), []);
        assert_eq!(LEVELS().refills(&[(wallet(1), of(95))], of(1_000)).len(), 1);
        assert!(LEVELS().is_low(of(19)) && !LEVELS().is_low(of(20)));
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_can_be_spared(balances in proptest::collection::vec(0u64..200, 0..10), spare in 0u64..500) {
            let wallets: Vec<_> = balances.iter().zip(1u8..).map(|(has, n)| (wallet(n), of(*has))).collect();
            let given = LEVELS().refills(&wallets, of(spare));
            let sum = given.iter().fold(U256::ZERO, |sum, it| sum + it.amount.units());
            prop_assert!(sum <= U256::from(spare));
            prop_assert!(given.iter().all(|it| it.has.checked_add(it.amount) == Ok(of(100))));
        }
    }
}
