//! The grid of prices: tick `n` stands at the price 1.0001^n, kept as its square root with 96 binary places.

use alloy::primitives::{U256, uint};

pub(crate) const MAX_TICK: i32 = 887_272;
pub(crate) const LOWEST_PRICE: U256 = uint!(4295128739_U256);
pub(crate) const HIGHEST_PRICE: U256 = uint!(1461446703485210103287273052203988822378723970342_U256);

/// A price at which liquidity begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    pub index: i32,
    /// The liquidity added when the price rises across the tick.
    pub net: i128,
    /// Precomputed: a swap looks at it every time it passes.
    pub(crate) price: U256,
}

impl Tick {
    /// None outside of the grid.
    pub fn new(index: i32, net: i128) -> Option<Self> {
        (index.abs() <= MAX_TICK).then(|| Self { index, net, price: sqrt_price(index) })
    }

    pub fn sqrt_price(&self) -> U256 {
        self.price
    }
}

/// 2^128 / 1.0001^(2^i / 2), as the pool's contract has them: its rounding is part of the price.
const FACTORS: [u128; 20] = [
    0xfffcb933bd6fad37aa2d162d1a594001,
    0xfff97272373d413259a46990580e213a,
    0xfff2e50f5f656932ef12357cf3c7fdcc,
    0xffe5caca7e10e4e61c3624eaa0941cd0,
    0xffcb9843d60f6159c9db58835c926644,
    0xff973b41fa98c081472e6896dfb254c0,
    0xff2ea16466c96a3843ec78b326b52861,
    0xfe5dee046a99a2a811c461f1969c3053,
    0xfcbe86c7900a88aedcffc83b479aa3a4,
    0xf987a7253ac413176f2b074cf7815e54,
    0xf3392b0822b70005940c7a398e4b70f3,
    0xe7159475a2c29b7443b29c7fa6e889d9,
    0xd097f3bdfd2022b8845ad8f792aa5825,
    0xa9f746462d870fdf8a65dc1f90e061e5,
    0x70d869a156d2a1b890bb3df62baf32f7,
    0x31be135f97d08fd981231505542fcfa6,
    0x9aa508b5b7a84e1c677de54f3e99bc9,
    0x5d6af8dedb81196699c329225ee604,
    0x2216e584f5fa1ea926041bedfe98,
    0x48a170391f7dc42444e8fa2,
];

/// Valid for ticks of the grid. The products stay below 2^256: a factor has 128 bits, and the ratio at most 129.
pub(crate) fn sqrt_price(tick: i32) -> U256 {
    let distance = tick.unsigned_abs();
    let mut ratio = U256::from(1) << 128;
    for (bit, &factor) in FACTORS.iter().enumerate() {
        if distance & (1 << bit) != 0 {
            ratio = (ratio * U256::from(factor)) >> 128;
        }
    }
    if tick > 0 {
        ratio = U256::MAX / ratio;
    }
    // Rounded up, so that the tick of a tick's price is that tick.
    (ratio + U256::from(u32::MAX)) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_ends_where_the_contract_says() {
        assert_eq!(sqrt_price(-MAX_TICK), LOWEST_PRICE);
        assert_eq!(sqrt_price(MAX_TICK), HIGHEST_PRICE);
        assert_eq!(sqrt_price(0), U256::from(1) << 96);
        assert!(Tick::new(MAX_TICK + 1, 0).is_none() && Tick::new(-MAX_TICK - 1, 0).is_none());
    }

    #[test]
    fn known_prices_come_out() {
        // From the tests of the contract's own library.
        for (tick, price) in [
            (50, "79426470787362580746886972461"),
            (-50, "79030349367926598376800521322"),
            (500_000, "5697689776495288729098254600827762987878"),
            (-738_203, "7409801140451"),
        ] {
            assert_eq!(sqrt_price(tick).to_string(), price, "{tick}");
        }
    }

    #[test]
    fn a_higher_tick_has_a_higher_price() {
        for tick in (-MAX_TICK..MAX_TICK).step_by(997) {
            assert!(sqrt_price(tick) < sqrt_price(tick + 1));
        }
    }
}
