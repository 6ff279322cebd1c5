//! The price of a token without a feed: the middle price of its deepest pool against a token that has one.
//!
//! For display and for limits only: any trade in a block moves this price. Payments are priced by quotes.

use alloy::primitives::{Address, U256, Uint};
use domain::money::{Amount, Price, UsdMicros};

use crate::pool::Pool;
use crate::snapshot::Snapshot;
use crate::watchlist::Feed;

/// Holds a squared price, with 192 binary places, times a power of ten.
type Wide = Uint<1024, 16>;

/// Decimal places of a price: more where it would have too few digits otherwise.
const PLACES: [u8; 3] = [18, 27, 36];
const FEWEST_DIGITS: u128 = 1_000_000;

impl Snapshot {
    /// The same snapshot with the prices that its pools give.
    #[must_use]
    pub fn with_spots(self) -> Self {
        let tokens = self.pools.tokens().iter().map(|token| token.address);
        let spots = tokens.filter_map(|token| Some((token, self.spot(token)?))).collect();
        Self { spots, ..self }
    }

    /// None for a token that has a feed, is in no pool with a token that has one, or whose feeds are too old.
    fn spot(&self, token: Address) -> Option<Price> {
        let place = self.pools.place(token)?;
        let ours = self.pools.tokens().get(place).filter(|token| !token.fed)?;
        if self.pools.wrapped() == Some(token) {
            return self.feed(Address::ZERO);
        }
        let sides = self.pools.neighbours(place).iter().filter_map(|neighbour| {
            let other = self.pools.tokens().get(neighbour.place)?;
            let price = self.fed(other.address)?;
            let value = |pool: &Pool| {
                let depth = price.usd_floor(Amount::new(pool.depth(other.address)), other.decimals);
                depth.unwrap_or(UsdMicros(i64::MAX))
            };
            let pools = self.pools.between(place, neighbour.place).iter();
            let (depth, pool) = pools.map(|pool| (value(pool), pool)).max_by_key(|(depth, _)| *depth)?;
            (depth > UsdMicros(0)).then_some((depth, pool, price, other.decimals))
        });
        let (_, pool, price, decimals) = sides.max_by_key(|(depth, ..)| *depth)?;
        converted(price, decimals, pool, token, ours.decimals)
    }

    /// True when nothing could price the currency, now or later today.
    pub(crate) fn is_unpriced(&self, currency: Address) -> bool {
        let place = self.pools.place(currency).filter(|_| self.pools.wrapped() != Some(currency));
        let fed = |place: usize| self.pools.tokens().get(place).is_some_and(|token| token.fed);
        !self.pools.is_partial() && place.is_some_and(|it| !fed(it) && self.pools.neighbours(it).is_empty())
    }

    /// The feed price of a currency: its own or, for the wrapped token, that of the native currency.
    pub fn fed(&self, token: Address) -> Option<Price> {
        self.feed(self.fed_as(token)?)
    }

    /// The feed itself.
    pub fn feed_of(&self, token: Address) -> Option<&Feed> {
        let token = self.fed_as(token)?;
        self.feeds.iter().find(|feed| feed.currency == token)
    }

    /// The currency whose feed prices a token.
    fn fed_as(&self, token: Address) -> Option<Address> {
        let wrapped = self.pools.wrapped() == Some(token) && !self.pools.token(token)?.fed;
        Some(if wrapped { Address::ZERO } else { token })
    }
}

/// The price of one whole `token`, given the price of the other one in the pool.
fn converted(other: Price, other_decimals: u8, pool: &Pool, token: Address, decimals: u8) -> Option<Price> {
    let squared = Wide::from(pool.sqrt_price()) * Wide::from(pool.sqrt_price());
    let one = Wide::from(1) << 192;
    // Units of the other token that a unit of this one costs.
    let (num, den) = if token == pool.key().token0 { (squared, one) } else { (one, squared) };
    let dollar = Price::new(1, 0).ok()?;
    let dollars_per_unit = Price::exchange((other, other_decimals), (dollar, 0)).ok()?;
    let answer = |places: u8| {
        let whole = Wide::from(10).pow(Wide::from(decimals.checked_add(places)?));
        let units = U256::checked_from_limbs_slice((num.checked_mul(whole)? / den).as_limbs())?;
        u128::try_from(Amount::new(units).mul_floor(dollars_per_unit).ok()?.units()).ok()
    };
    let mut found = None;
    for places in PLACES {
        let Some(answer) = answer(places) else { break };
        found = Some((answer, places));
        if answer >= FEWEST_DIGITS {
            break;
        }
    }
    let (answer, places) = found?;
    Price::new(answer, places).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MarketError;
    use crate::pool::tests::{pool, token};
    use crate::pools::tests::pools;
    use crate::snapshot::Quoted;
    use crate::snapshot::tests::snapshot;

    fn quoted(dollars: u128) -> Quoted {
        Quoted { price: Price::new(dollars * 100_000_000, 8).unwrap(), age_secs: 0, max_age_secs: 10 }
    }

    fn micros(price: Price) -> UsdMicros {
        price.usd_floor(Amount::new(domain::money::pow10(18)), 18).unwrap()
    }

    /// All pools stand at par; token 2 costs two dollars, the native currency three thousand.
    fn market(depths: [u128; 2]) -> Snapshot {
        let of = [((2, 3), depths[0]), ((1, 3), depths[1])];
        let of = of.map(|(tokens, depth)| pool(tokens, 3000, &[(-600, 600, depth)]));
        let prices = [(token(2), quoted(2)), (Address::ZERO, quoted(3_000))].into();
        Snapshot { pools: Arc::new(pools(of.into())), prices, ..snapshot() }.with_spots()
    }

    #[test]
    fn the_deepest_pool_in_dollars_decides() {
        let ether = 10_u128.pow(18);
        // 2,800 dollars' worth against 3,000, then 3,200.
        let (native, token_2) = (market([1_400 * ether, ether]), market([1_600 * ether, ether]));
        assert_eq!(micros(native.spot(token(3)).unwrap()), UsdMicros(3_000_000_000));
        assert_eq!(micros(token_2.spot(token(3)).unwrap()), UsdMicros(2_000_000));
        assert_eq!(token_2.price(token(3)).ok(), token_2.spot(token(3)));
    }

    #[test]
    fn a_token_whose_feed_is_silent_is_not_priced_by_pools() {
        let mut market = market([10_u128.pow(21); 2]);
        assert!(market.spot(token(2)).is_none() && market.spot(token(4)).is_none());
        market.prices.remove(&token(2));
        assert!(market.clone().with_spots().price(token(2)).is_err());
        // Nor by a pool against a token whose own feed is too old.
        market.prices.insert(Address::ZERO, Quoted { age_secs: 11, ..quoted(3_000) });
        let market = market.with_spots();
        assert!(market.price(token(3)).is_err() && market.price(token(1)).is_err());
    }

    #[test]
    fn an_unpriceable_token_is_told_from_one_not_priced_now() {
        let market = market([10_u128.pow(21); 2]);
        let stale = Quoted { age_secs: 11, ..quoted(2) };
        let late = Snapshot { prices: [(token(2), stale), (Address::ZERO, stale)].into(), ..market.clone() };
        let error = |market: &Snapshot, token| market.clone().with_spots().price(token).unwrap_err();
        assert!(matches!(error(&late, token(3)), MarketError::NoPrice { .. }), "its pools are there");
        let poolless = Snapshot { pools: Arc::new(pools(Vec::new())), ..market };
        assert!(matches!(error(&poolless, token(3)), MarketError::Unpriced { .. }));
        assert!(poolless.with_spots().price(token(2)).is_ok(), "it has a feed");
    }
}
