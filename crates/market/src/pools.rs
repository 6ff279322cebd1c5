//! All pools of a chain that are known exactly at one block, and the tokens they trade.

use std::ops::Range;

use alloy::primitives::Address;

use crate::pool::Pool;
use crate::watchlist::Watchlist;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolToken {
    pub address: Address,
    pub decimals: u8,
    /// True for a token with a feed: pools do not price it, not even while the feed is silent.
    pub fed: bool,
}

/// A token that can be traded for another.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    /// Its index among the tokens.
    pub place: usize,
    /// The indexes of the pair's pools.
    pools: Range<usize>,
}

/// Empty on a chain without a DEX.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    wrapped: Option<Address>,
    tokens: Vec<PoolToken>,
    /// Sorted by token 0, token 1 and fee.
    pools: Vec<Pool>,
    /// The neighbours of each token, in the order of `tokens`.
    neighbours: Vec<Vec<Neighbour>>,
    /// True when some pools were not read yet, or not at this block.
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
        Self { wrapped: Some(dex.wrapped), tokens, partial: true, ..Self::default() }
    }

    /// The same tokens with these pools.
    pub fn with(&self, mut pools: Vec<Pool>) -> Self {
        pools.sort_by_key(|pool| (pool.key().token0, pool.key().token1, pool.key().fee));
        let mut neighbours = vec![Vec::new(); self.tokens.len()];
        let pair = |pool: &Pool| (pool.key().token0, pool.key().token1);
        let mut first = 0;
        for of_pair in pools.chunk_by(|a, b| pair(a) == pair(b)) {
            let (token0, token1) = pair(&of_pair[0]);
            let of_pair = first..first + of_pair.len();
            first = of_pair.end;
            if let (Some(a), Some(b)) = (self.place(token0), self.place(token1)) {
                neighbours[a].push(Neighbour { place: b, pools: of_pair.clone() });
                neighbours[b].push(Neighbour { place: a, pools: of_pair });
            }
        }
        neighbours.iter_mut().for_each(|of| of.sort_by_key(|neighbour| neighbour.place));
        Self { wrapped: self.wrapped, tokens: self.tokens.clone(), pools, neighbours, partial: false }
    }

    /// The same pools, where more are known to exist.
    pub(crate) fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// True when a route may exist that is not in here: a pair that cannot be traded now may be in a moment.
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
        self.tokens.get(self.place(address)?)
    }

    /// The index of a token among the tokens.
    pub(crate) fn place(&self, address: Address) -> Option<usize> {
        self.tokens.binary_search_by_key(&address, |token| token.address).ok()
    }

    /// The tokens that a token can be traded for, in the order of the tokens.
    pub(crate) fn neighbours(&self, place: usize) -> &[Neighbour] {
        self.neighbours.get(place).map_or(&[], Vec::as_slice)
    }

    /// The pools of a pair, in either order.
    pub(crate) fn between(&self, a: usize, b: usize) -> &[Pool] {
        let neighbours = self.neighbours(a);
        let found = neighbours.binary_search_by_key(&b, |neighbour| neighbour.place);
        found.map_or(&[], |at| self.pools.get(neighbours[at].pools.clone()).unwrap_or_default())
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
        let place = |byte| pools.place(token(byte)).unwrap();
        let fees = |a, b| pools.between(place(a), place(b)).iter().map(|pool| pool.key().fee).collect::<Vec<_>>();
        assert_eq!((fees(1, 3), fees(3, 1)), (vec![500, 3000], vec![500, 3000]));
        assert_eq!((fees(2, 1), fees(3, 2), fees(3, 4)), (vec![500], vec![500], vec![]));
        let neighbours = |byte| pools.neighbours(place(byte)).iter().map(|it| it.place).collect::<Vec<_>>();
        assert_eq!([1, 2, 3, 4].map(neighbours), [vec![1, 2], vec![0, 2], vec![0, 1], vec![]]);
        assert_eq!(pools.place(token(5)), None);
    }
}
