//! All pools of a chain that are known exactly at one block, and the tokens they trade.

use alloy::primitives::Address;

use crate::pool::Pool;
use crate::refresh::Watchlist;

/// Where to look for pools.
#[derive(Clone, Debug)]
pub struct Dex {
    pub factory: Address,
    pub quoter: Address,
    /// The token that stands for the native currency in pools.
    pub wrapped: Address,
    /// Tokens and their decimals, the wrapped one included. Pools are looked for between all of them.
    pub tokens: Vec<(Address, u8)>,
    /// In millionths.
    pub fee_tiers: Vec<u32>,
    /// A pool with more ticks than this is left out: anyone can make one, and reading it would hold up all others.
    pub most_ticks: usize,
}

/// Far above what pools in use have.
pub const MOST_TICKS: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolToken {
    pub address: Address,
    pub decimals: u8,
    /// It has a feed, so pools do not price it, not even while the feed is silent.
    pub fed: bool,
}

/// Without a DEX there is nothing in it.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    wrapped: Option<Address>,
    tokens: Vec<PoolToken>,
    /// By token 0, token 1 and fee.
    pools: Vec<Pool>,
    /// Some pools there are were not read yet, or not at this block.
    partial: bool,
}

impl Pools {
    pub fn new(watchlist: &Watchlist) -> Self {
        let Some(dex) = &watchlist.dex else { return Self::default() };
        let fed = |token| watchlist.feeds.iter().any(|feed| feed.currency == token);
        let token = |&(address, decimals)| PoolToken { address, decimals, fed: fed(address) };
        let mut tokens: Vec<_> = dex.tokens.iter().map(token).collect();
        tokens.sort_by_key(|token| token.address);
        tokens.dedup_by_key(|token| token.address);
        Self { wrapped: Some(dex.wrapped), tokens, pools: Vec::new(), partial: true }
    }

    /// The same tokens with these pools.
    pub fn with(&self, mut pools: Vec<Pool>) -> Self {
        pools.sort_by_key(|pool| (pool.key().token0, pool.key().token1, pool.key().fee));
        Self { wrapped: self.wrapped, tokens: self.tokens.clone(), pools, partial: false }
    }

    /// The same, where more pools are known to exist.
    pub(crate) fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Whether a way may exist that is not in here: what cannot be traded now may be in a moment.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    pub fn all(&self) -> &[Pool] {
        &self.pools
    }

    pub fn wrapped(&self) -> Option<Address> {
        self.wrapped
    }

    pub(crate) fn tokens(&self) -> &[PoolToken] {
        &self.tokens
    }

    pub(crate) fn token(&self, address: Address) -> Option<&PoolToken> {
        let place = self.tokens.binary_search_by_key(&address, |token| token.address).ok()?;
        self.tokens.get(place)
    }

    /// The pools of a pair, in whichever order it is named.
    pub(crate) fn between(&self, a: Address, b: Address) -> &[Pool] {
        let pair = (a.min(b), a.max(b));
        let of = |pool: &Pool| (pool.key().token0, pool.key().token1);
        let first = self.pools.partition_point(|pool| of(pool) < pair);
        let count = self.pools[first..].iter().take_while(|pool| of(pool) == pair).count();
        &self.pools[first..first + count]
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let alike = self.partial == other.partial && self.pools.len() == other.pools.len();
        alike && self.pools.iter().zip(&other.pools).all(|(a, b)| a.is_same(b))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pool::tests::{pool, token};

    /// Tokens 1 to 4 with 18 decimals, of which the first is the wrapped one and the second has a feed.
    pub(crate) fn pools(pools: Vec<Pool>) -> Pools {
        let known = |byte| PoolToken { address: token(byte), decimals: 18, fed: byte == 2 };
        Pools { wrapped: Some(token(1)), tokens: (1..5).map(known).collect(), ..Pools::default() }.with(pools)
    }

    #[test]
    fn a_pair_is_found_in_either_order() {
        let position = [(-60, 60, 1_000)];
        let pools = pools(vec![
            pool((2, 3), 500, &position),
            pool((1, 3), 3000, &position),
            pool((1, 2), 500, &position),
            pool((1, 3), 500, &position),
        ]);
        let fees = |a, b| pools.between(token(a), token(b)).iter().map(|pool| pool.key().fee).collect::<Vec<_>>();
        assert_eq!((fees(1, 3), fees(3, 1)), (vec![500, 3000], vec![500, 3000]));
        assert_eq!((fees(2, 1), fees(3, 2), fees(3, 4)), (vec![500], vec![500], vec![]));
    }
}
