//! A Uniswap V3 pool in memory, and the amounts it pays.
//!
//! The chain walks from tick to tick, and rounds at the end of every word of its tick bitmap, even where liquidity does
//! not change. To agree with it to the unit, so do we.

use std::sync::Arc;

use alloy::primitives::{Address, U256, U512};

use crate::step::{Fixed, step};
use crate::tick::{self, HIGHEST_PRICE, LOWEST_PRICE, Tick};

/// Ticks and words that one quote may pass. A trade beyond them costs more gas than a block likes, and is no offer.
const MAX_STEPS: usize = 128;

/// Ticks in a word of the chain's bitmap.
const WORD: i32 = 256;

/// The parts of a pool that are fixed at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKey {
    pub address: Address,
    /// The token with the lower address; a price is the cost of one unit of it in the other token.
    pub token0: Address,
    pub token1: Address,
    /// In millionths of the input.
    pub fee: u32,
    pub spacing: i32,
}

/// A pool as it stood at one block.
#[derive(Clone, Debug)]
pub struct Pool {
    key: PoolKey,
    sqrt_price: U256,
    /// As the chain has it: at a boundary the price alone does not say on which side it stands.
    tick: i32,
    liquidity: u128,
    ticks: Arc<[Tick]>,
}

impl Pool {
    /// None when the parts contradict each other, or the pool has no price: the liquidity must be the sum over all
    /// ticks up to the current one, and nothing may be left beyond the last.
    pub fn new(key: PoolKey, sqrt_price: U256, tick: i32, liquidity: u128, ticks: Arc<[Tick]>) -> Option<Self> {
        let known = key.spacing > 0 && (LOWEST_PRICE..HIGHEST_PRICE).contains(&sqrt_price);
        let sorted = ticks.is_sorted_by(|a, b| a.index < b.index);
        let (mut here, mut total) = (0_i128, 0_i128);
        for each in ticks.iter() {
            total = total.checked_add(each.net).filter(|&liquidity| liquidity >= 0)?;
            if each.index <= tick {
                here = total;
            }
        }
        let adds_up = u128::try_from(here) == Ok(liquidity) && total == 0;
        (known && sorted && adds_up).then_some(Self { key, sqrt_price, tick, liquidity, ticks })
    }

    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    pub fn sqrt_price(&self) -> U256 {
        self.sqrt_price
    }

    pub fn liquidity(&self) -> u128 {
        self.liquidity
    }

    pub fn tick(&self) -> i32 {
        self.tick
    }

    pub fn ticks(&self) -> &Arc<[Tick]> {
        &self.ticks
    }

    /// The output for this much of `token`; none when the pool cannot take all of it.
    pub fn sell(&self, token: Address, input: U256) -> Option<U256> {
        self.swap(token == self.key.token0, input, Fixed::Input)
    }

    /// The cost of this much of `token`; none when the pool cannot give all of it.
    pub fn buy(&self, token: Address, output: U256) -> Option<U256> {
        self.swap(token == self.key.token1, output, Fixed::Output)
    }

    /// The other token of the pair.
    pub fn other(&self, token: Address) -> Address {
        if token == self.key.token0 { self.key.token1 } else { self.key.token0 }
    }

    /// The amount of a token that the liquidity at the current price stands for, were it spread over all prices.
    pub fn depth(&self, token: Address) -> U256 {
        let liquidity = U512::from(self.liquidity);
        let price = U512::from(self.sqrt_price);
        let depth: U512 = if token == self.key.token0 { (liquidity << 96) / price } else { (liquidity * price) >> 96 };
        // A pool that claims more than fits the type is no measure of anything.
        U256::checked_from_limbs_slice(depth.as_limbs()).unwrap_or_default()
    }

    /// True when nothing that either quote depends on differs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let state = |pool: &Self| (pool.key, pool.sqrt_price, pool.tick, pool.liquidity);
        state(self) == state(other) && Arc::ptr_eq(&self.ticks, &other.ticks)
    }

    /// `down` sells token 0, so its price falls.
    fn swap(&self, down: bool, amount: U256, fixed: Fixed) -> Option<U256> {
        let one = U256::from(1);
        let limit = if down { LOWEST_PRICE + one } else { HIGHEST_PRICE - one };
        let room = if down { self.sqrt_price > limit } else { self.sqrt_price < limit };
        // The chain counts in signed numbers.
        if !room || amount.is_zero() || amount.bit_len() > 255 {
            return None;
        }
        let mut above = self.ticks.partition_point(|tick| tick.index <= self.tick);
        let (mut price, mut at, mut liquidity) = (self.sqrt_price, self.tick, self.liquidity);
        let (mut left, mut other) = (amount, U256::ZERO);
        for _ in 0..MAX_STEPS {
            let edge = self.edge(at, down);
            let tick = if down { above.checked_sub(1).map(|below| &self.ticks[below]) } else { self.ticks.get(above) };
            let tick = tick.filter(|tick| if down { tick.index >= edge } else { tick.index <= edge });
            let (index, next) = tick.map_or_else(|| (edge, tick::sqrt_price(edge)), |tick| (tick.index, tick.price));
            let target = if down { next.max(limit) } else { next.min(limit) };
            let step = step(price, target, liquidity, left, self.key.fee, fixed)?;
            let (used, gained) = match fixed {
                Fixed::Input => (step.input, step.output),
                Fixed::Output => (step.output, step.input),
            };
            left = left.checked_sub(used)?;
            other = other.checked_add(gained)?;
            if left.is_zero() {
                return Some(other).filter(|other| other.bit_len() <= 255);
            }
            price = step.price;
            if price != next {
                return None;
            }
            if let Some(tick) = tick {
                let net = if down { tick.net.checked_neg()? } else { tick.net };
                liquidity = liquidity.checked_add_signed(net)?;
                above = if down { above - 1 } else { above + 1 };
            }
            at = if down { index - 1 } else { index };
        }
        None
    }

    /// The end of the bitmap word in which the chain looks for the next tick.
    fn edge(&self, at: i32, down: bool) -> i32 {
        let place = at.div_euclid(self.key.spacing);
        let place = if down { place.div_euclid(WORD) * WORD } else { (place + 1).div_euclid(WORD) * WORD + (WORD - 1) };
        (place * self.key.spacing).clamp(-tick::MAX_TICK, tick::MAX_TICK)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn token(byte: u8) -> Address {
        Address::repeat_byte(byte)
    }

    /// A pool at price one, with positions of the given reaches and liquidity around it.
    pub(crate) fn pool(tokens: (u8, u8), fee: u32, positions: &[(i32, i32, u128)]) -> Pool {
        let spacing = 60;
        let mut nets = std::collections::BTreeMap::new();
        let mut liquidity = 0;
        for &(lower, upper, amount) in positions {
            *nets.entry(lower).or_insert(0) += i128::try_from(amount).unwrap();
            *nets.entry(upper).or_insert(0) -= i128::try_from(amount).unwrap();
            liquidity += if (lower..upper).contains(&0) { amount } else { 0 };
        }
        let ticks: Arc<[_]> = nets.into_iter().map(|(index, net)| Tick::new(index, net).unwrap()).collect();
        let address = Address::left_padding_from(&[tokens.0, tokens.1, (fee / 100) as u8]);
        let key = PoolKey { address, token0: token(tokens.0), token1: token(tokens.1), fee, spacing };
        Pool::new(key, U256::from(1) << 96, 0, liquidity, ticks).unwrap()
    }

    fn ticked() -> Pool {
        pool(
            (1, 2),
            3000,
            &[(-887_220, 887_220, 1_000_000_000), (-600, 600, 50_000_000_000), (-60, 1_200, 7_000_000_000)],
        )
    }

    #[test]
    fn parts_that_contradict_each_other_are_no_pool() {
        let Pool { key, sqrt_price, tick, liquidity, ticks } = ticked();
        assert!(Pool::new(key, sqrt_price, tick, liquidity, ticks.clone()).is_some());
        assert!(Pool::new(key, sqrt_price, tick, liquidity + 1, ticks.clone()).is_none());
        assert!(Pool::new(key, U256::ZERO, tick, liquidity, ticks.clone()).is_none());
        assert!(Pool::new(key, sqrt_price, tick, liquidity, ticks[..ticks.len() - 1].into()).is_none());
        assert!(Pool::new(key, sqrt_price, tick, liquidity, Arc::new([])).is_none());
        // A pool without liquidity yet is nothing unusual.
        assert!(Pool::new(key, sqrt_price, tick, 0, Arc::new([])).is_some());
    }

    #[test]
    fn a_pool_that_runs_dry_makes_no_offer() {
        let narrow = pool((1, 2), 500, &[(-60, 60, 1_000_000)]);
        assert!(narrow.sell(token(1), U256::from(1_000)).is_some());
        assert_eq!(narrow.sell(token(1), U256::from(1_000_000)), None);
        assert_eq!(narrow.buy(token(1), U256::from(1_000_000)), None);
        assert_eq!(narrow.sell(token(1), U256::ZERO), None);
        assert_eq!(narrow.sell(token(1), U256::MAX), None);
    }

    proptest! {
        #[test]
        fn more_in_never_brings_less_out(amount in 1_u64.., more in 0_u64.., side in 1_u8..3) {
            let pool = ticked();
            let less = pool.sell(token(side), U256::from(amount));
            let more = pool.sell(token(side), U256::from(amount) + U256::from(more));
            prop_assert!(more.is_none() || less <= more);
        }

        #[test]
        fn a_purchase_costs_no_less_than_selling_would_need(amount in 1_u64..1_000_000_000, side in 1_u8..3) {
            let pool = ticked();
            if let Some(cost) = pool.buy(token(side), U256::from(amount)) {
                let other = pool.other(token(side));
                prop_assert!(pool.sell(other, cost).unwrap() >= U256::from(amount));
            }
        }
    }
}
