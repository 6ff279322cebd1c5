//! A pair of currencies, and the fees, slippage and rate that follow from it.

use crate::catalog::{Class, Currency};
use crate::money::{OutOfRange, Price, Ratio, pow10};
use crate::quote::Operation;
use crate::terms::Terms;

pub use crate::terms::ByClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub operation: Operation,
    pub class: Class,
}

impl Pair {
    /// The same asset is bridged; anything else is a swap of the rarer one's class.
    pub fn of(from: &Currency, to: &Currency) -> Self {
        if from.id == to.id {
            return Self { operation: Operation::Bridge, class: from.class };
        }
        let class = match (from.class, to.class) {
            (Class::Stable, Class::Stable) => Class::Stable,
            (Class::Minor, _) | (_, Class::Minor) => Class::Minor,
            (Class::Major, Class::Stable | Class::Major) | (Class::Stable, Class::Major) => Class::Major,
        };
        Self { operation: Operation::Swap, class }
    }

    pub fn is_exchange(self) -> bool {
        self.operation == Operation::Swap
    }

    pub fn relay_bps(self, terms: &Terms) -> u16 {
        if self.is_exchange() { terms.relay_bps.of(self.class) } else { 0 }
    }

    /// Our cost of turning the one back into the other.
    pub fn spread_bps(self, terms: &Terms) -> u16 {
        if self.is_exchange() { terms.spread_bps.of(self.class) } else { 0 }
    }

    /// Relay fee and spread together.
    pub fn charged_bps(self, terms: &Terms) -> u16 {
        self.relay_bps(terms).saturating_add(self.spread_bps(terms))
    }

    pub fn slippage_bps(self, terms: &Terms, pools: bool) -> u16 {
        match (self.operation, self.class) {
            (Operation::Bridge, Class::Stable) if !pools => terms.stable_slippage_bps,
            _ => terms.slippage_bps,
        }
    }

    /// One asset is worth itself on every chain, whatever two feeds say a moment apart.
    pub fn rate(self, from: (&Currency, Price), to: (&Currency, Price)) -> Result<Ratio, OutOfRange> {
        if self.is_exchange() {
            Price::exchange((from.1, from.0.decimals), (to.1, to.0.decimals))
        } else {
            Ratio::new(pow10(to.0.decimals), pow10(from.0.decimals))
        }
    }
}

impl Pair {
    /// The rate we exchange at: that of the feeds, and never better than what a pool would give us for it once our
    /// spread is off. A feed may lag behind the market by more than we charge; a pool that somebody moved only costs
    /// the one who moved it.
    pub fn bounded(self, feeds: Ratio, pool: Option<Ratio>, terms: &Terms) -> Result<Ratio, OutOfRange> {
        let (Some(pool), true) = (pool, self.is_exchange()) else { return Ok(feeds) };
        let kept = 10_000u16.checked_sub(self.spread_bps(terms)).filter(|kept| *kept > 0).ok_or(OutOfRange)?;
        Ok(feeds.min(pool.times(Ratio::bps(kept).inverse()?)?))
    }
}
