//! The best route from one currency to another through at most two pools.
//!
//! Output grows with input, so the best two hops are the best first hop followed by the best second one: every pool on
//! the way is asked once or twice, and combinations are not tried.

use alloy::primitives::{Address, U256};
use domain::money::Amount;
use domain::swap::{Exchange, Offer, Path};

use crate::pool::Pool;
use crate::pools::Pools;
use crate::snapshot::Snapshot;

/// The market of one currency for another at the snapshot's block.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    pools: &'a Pools,
    from: Address,
    to: Address,
}

/// Equal for the same tokens among the same pools.
impl PartialEq for Routes<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.from, self.to) == (other.from, other.to) && std::ptr::eq(self.pools, other.pools)
    }
}

impl Snapshot {
    /// The zero address is the native currency. None where the chain has no pools, or the two are one currency.
    pub fn exchange(&self, from: Address, to: Address) -> Option<Routes<'_>> {
        let wrapped = self.pools.wrapped()?;
        let in_pools = |currency: Address| if currency.is_zero() { wrapped } else { currency };
        (from != to).then(|| Routes { pools: &self.pools, from: in_pools(from), to: in_pools(to) })
    }
}

/// A token, and its index among the tokens.
#[derive(Clone, Copy)]
struct Place {
    token: Address,
    at: usize,
}

/// A route, and the amount at its far end.
#[derive(Clone, Copy)]
struct PricedRoute<'a> {
    amount: U256,
    first: &'a Pool,
    second: Option<&'a Pool>,
}

impl Exchange for Routes<'_> {
    fn sell(&self, input: Amount) -> Option<Offer> {
        let input = input.units();
        let best = |from: Place, to: Place, input| {
            let pools = self.pools.between(from.at, to.at).iter();
            let offers = pools.filter_map(|pool| Some((pool.sell(from.token, input)?, pool)));
            // Of equal offers, the first: fee tiers are in order.
            offers.reduce(|best, offer| if offer.0 > best.0 { offer } else { best })
        };
        self.offer(input, best, |offer, best| offer > best, self.from, self.to)
    }

    fn buy(&self, output: Amount) -> Option<Offer> {
        let output = output.units();
        let best = |to: Place, from: Place, output| {
            let pools = self.pools.between(from.at, to.at).iter();
            let offers = pools.filter_map(|pool| Some((pool.buy(to.token, output)?, pool)));
            offers.reduce(|best, offer| if offer.0 < best.0 { offer } else { best })
        };
        self.offer(output, best, |offer, best| offer < best, self.to, self.from)
    }
}

impl<'a> Routes<'a> {
    /// The best offer from `near`, the side whose amount is known, to the other.
    fn offer(
        &self,
        amount: U256,
        best: impl Fn(Place, Place, U256) -> Option<(U256, &'a Pool)>,
        better: impl Fn(U256, U256) -> bool,
        near: Address,
        far: Address,
    ) -> Option<Offer> {
        if amount.is_zero() {
            return None;
        }
        if near == far {
            return Some(Offer { amount: Amount::new(amount), path: Path::wrapping(near) });
        }
        let place = |token| Some(Place { token, at: self.pools.place(token)? });
        let (start, end) = (place(near)?, place(far)?);
        let mut found = best(start, end, amount).map(|(amount, first)| PricedRoute { amount, first, second: None });
        for neighbour in self.pools.neighbours(end.at).iter().filter(|neighbour| neighbour.place != start.at) {
            let Some(token) = self.pools.tokens().get(neighbour.place) else { continue };
            let middle = Place { token: token.address, at: neighbour.place };
            let Some((between, first)) = best(start, middle, amount) else { continue };
            let Some((amount, second)) = best(middle, end, between) else { continue };
            if found.is_none_or(|found| better(amount, found.amount)) {
                found = Some(PricedRoute { amount, first, second: Some(second) });
            }
        }
        let route = found.filter(|route| !route.amount.is_zero())?;
        Some(Offer { amount: Amount::new(route.amount), path: self.path(near, &route)? })
    }

    fn path(&self, near: Address, route: &PricedRoute<'_>) -> Option<Path> {
        let middle = route.first.other(near);
        let mut tokens = vec![near, middle];
        let mut fees = vec![route.first.key().fee];
        if let Some(second) = route.second {
            tokens.push(second.other(middle));
            fees.push(second.key().fee);
        }
        // A path reads in the direction of the trade.
        if near != self.from {
            tokens.reverse();
            fees.reverse();
        }
        Path::new(tokens, fees).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::pool::tests::{pool, token};
    use crate::pools::tests::pools;
    use crate::snapshot::tests::snapshot;

    fn market(of: Vec<Pool>) -> Snapshot {
        Snapshot { pools: Arc::new(pools(of)), ..snapshot() }
    }

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    const WIDE: [(i32, i32, u128); 2] = [(-887_220, 887_220, 1_000_000_000_000), (-600, 1_200, 9_000_000_000_000)];

    #[test]
    fn the_cheapest_way_is_taken_even_if_it_is_longer() {
        let direct = pool((1, 3), 10_000, &WIDE);
        let hops = [pool((1, 2), 500, &WIDE), pool((1, 2), 3000, &WIDE), pool((2, 3), 500, &WIDE)];
        let market = market([vec![direct], hops.to_vec()].concat());
        let exchange = market.exchange(token(1), token(3)).unwrap();
        for offer in [exchange.sell(amount(1_000_000)).unwrap(), exchange.buy(amount(1_000_000)).unwrap()] {
            assert_eq!(
                (offer.path.tokens(), offer.path.fees()),
                (&[token(1), token(2), token(3)][..], &[500, 500][..])
            );
        }
        // In the opposite direction, the path is reversed.
        let back = market.exchange(token(3), token(1)).unwrap().buy(amount(1_000_000)).unwrap();
        assert_eq!(back.path.tokens(), [token(3), token(2), token(1)]);
    }

    #[test]
    fn nothing_for_something_is_no_offer() {
        let market = market(vec![pool((1, 3), 10_000, &WIDE)]);
        let exchange = market.exchange(token(1), token(3)).unwrap();
        assert_eq!(exchange.sell(amount(1)), None);
        assert_eq!(exchange.sell(amount(0)), None);
        assert!(market.exchange(token(1), token(2)).unwrap().sell(amount(1_000)).is_none());
    }

    #[test]
    fn without_a_dex_nothing_is_exchanged() {
        assert!(snapshot().exchange(Address::ZERO, token(1)).is_none());
    }

    proptest! {
        #[test]
        fn more_sold_never_brings_less(sold in 1_u64.., more in 0_u64..) {
            let market = market(vec![pool((1, 3), 3000, &WIDE), pool((1, 2), 500, &WIDE), pool((2, 3), 500, &WIDE)]);
            let exchange = market.exchange(token(1), token(3)).unwrap();
            let less = exchange.sell(amount(sold)).map(|offer| offer.amount);
            let more = exchange.sell(amount(sold.saturating_add(more))).map(|offer| offer.amount);
            prop_assert!(less <= more);
        }
    }
}
