//! The rate at which an app balance is credited for another currency: never better than our own rate of exchange.
//!
//! Every credit in USDC that comes from another currency is made at such a rate: app fees, native funding, gains of
//! fixed rates, late deposits of fast fills. At the bare price of a feed each of them would be a way to exchange for
//! nothing, at a moment that the other side chooses.

use crate::catalog::Currency;
use crate::ledger::UsdcMicros;
use crate::money::{Amount, OutOfRange, Price, Ratio};
use crate::pair::Pair;
use crate::terms::Terms;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditRate {
    /// The price of the currency that is credited for.
    pub price: Price,
    rate: Ratio,
    usdc_decimals: u8,
}

impl CreditRate {
    /// The rate of the feeds, bounded by what pools give, less relay fee and spread. USDC counts as itself.
    pub fn new(
        (currency, price): (&Currency, Price),
        (usdc, usdc_price): (&Currency, Price),
        pools: Option<Ratio>,
        terms: &Terms,
    ) -> Result<Self, OutOfRange> {
        let pair = Pair::of(currency, usdc);
        let feeds = pair.rate((currency, price), (usdc, usdc_price))?;
        let kept = Ratio::bps(10_000u16.saturating_sub(pair.charged_bps(terms)));
        let rate = pair.bounded(feeds, pools, terms)?.times(kept)?;
        Ok(Self { price, rate, usdc_decimals: usdc.decimals })
    }

    /// The credit for an amount. The fraction stays with us.
    pub fn micros(&self, amount: Amount) -> Result<UsdcMicros, OutOfRange> {
        UsdcMicros::of(amount.mul_floor(self.rate)?, self.usdc_decimals)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;
    use crate::catalog::Class;
    use crate::pricing::tests::{currency, terms};

    fn dollars(dollars: u128) -> Price {
        Price::new(dollars * 100_000_000, 8).unwrap()
    }

    #[test]
    fn a_credit_is_never_better_than_an_exchange() {
        let (eth, usdc) = (currency(8453, 0, "eth", 18, Class::Major), currency(8453, 1, "usdc", 6, Class::Stable));
        let terms = terms();
        let charged = i64::from(terms.relay_bps.of(Class::Major) + terms.spread_bps.of(Class::Major));
        assert!(charged > 0);
        let ether = Amount::new(U256::from(10).pow(U256::from(18)));
        let credit = |pools: Option<u64>| {
            let pools = pools.map(|usdc| Ratio::new(U256::from(usdc), ether.units()).unwrap());
            CreditRate::new((&eth, dollars(3_000)), (&usdc, dollars(1)), pools, &terms)
                .unwrap()
                .micros(ether)
                .unwrap()
                .0
        };
        let at = |dollars: i64| dollars * 100 * (10_000 - charged);
        assert_eq!(credit(None), at(3_000));
        assert_eq!(credit(Some(3_500_000_000)), at(3_000), "a pool that pays more does not raise it");
        let relay = i64::from(terms.relay_bps.of(Class::Major));
        assert!(credit(Some(2_000_000_000)) <= 2_000 * 100 * (10_000 - relay), "a pool that pays less bounds it");
    }

    #[test]
    fn usdc_is_credited_as_itself() {
        let usdc = currency(8453, 1, "usdc", 6, Class::Stable);
        let there = currency(10, 1, "usdc", 18, Class::Stable);
        let rate = CreditRate::new((&there, dollars(2)), (&usdc, dollars(1)), None, &terms()).unwrap();
        assert_eq!(rate.micros(Amount::new(U256::from(1_999_999_999_999u64))), Ok(UsdcMicros(1)));
    }
}
