//! One step of a swap: as far as one liquidity range reaches, and no further than a given price.
//!
//! The result equals the pool contract's to the unit, roundings included. Prices are square roots with 96 binary
//! places. An overflow there is none here.

use alloy::primitives::{U256, U512};

/// Fees are in millionths of the input.
const WHOLE: U256 = U256::from_limbs([1_000_000, 0, 0, 0]);

/// The side of a trade that is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    Input,
    Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The price after the step.
    pub price: U256,
    /// The input, fee included.
    pub input: U256,
    pub output: U256,
}

/// One step from a price towards another, with `left` of the fixed side still to trade.
pub(crate) fn step(price: U256, target: U256, liquidity: u128, left: U256, fee: u32, fixed: Fixed) -> Option<Step> {
    let down = price >= target;
    let fee = U256::from(fee);
    let after_fee = WHOLE.checked_sub(fee).filter(|rest| !rest.is_zero())?;
    match fixed {
        Fixed::Input => {
            let usable = mul_div(left, after_fee, WHOLE)?;
            let whole = input(price, target, liquidity, down)?;
            let end = if usable >= whole { target } else { after_input(price, liquidity, usable, down)? };
            let output = output(price, end, liquidity, down)?;
            if end == target {
                let input = whole.checked_add(mul_div_up(whole, fee, after_fee)?)?;
                return Some(Step { price: end, input, output });
            }
            // The whole input is used; the part that did not move the price is fee.
            Some(Step { price: end, input: left, output })
        }
        Fixed::Output => {
            let whole = output(price, target, liquidity, down)?;
            let end = if left >= whole { target } else { after_output(price, liquidity, left, down)? };
            let output = if end == target { whole } else { output(price, end, liquidity, down)? };
            let net = input(price, end, liquidity, down)?;
            let input = net.checked_add(mul_div_up(net, fee, after_fee)?)?;
            Some(Step { price: end, input, output: output.min(left) })
        }
    }
}

/// The input that moves the price, before the fee, rounded against the trader.
fn input(price: U256, end: U256, liquidity: u128, down: bool) -> Option<U256> {
    if down {
        let numerator: U256 = U256::from(liquidity) << 96;
        Some(mul_div_up(numerator, price - end, price)?.div_ceil(end))
    } else {
        let product: U512 = U256::from(liquidity).widening_mul(end - price);
        let rest = !(product.as_limbs()[0] == 0 && product.as_limbs()[1] & u64::from(u32::MAX) == 0);
        narrow(product >> 96)?.checked_add(U256::from(rest))
    }
}

/// The output of moving the price, rounded against the trader.
fn output(price: U256, end: U256, liquidity: u128, down: bool) -> Option<U256> {
    if down {
        let product: U512 = U256::from(liquidity).widening_mul(price - end);
        narrow(product >> 96)
    } else {
        let numerator: U256 = U256::from(liquidity) << 96;
        Some(mul_div(numerator, end - price, end)? / price)
    }
}

fn after_input(price: U256, liquidity: u128, amount: U256, down: bool) -> Option<U256> {
    if !down {
        let moved = mul_div(amount, U256::from(1) << 96, U256::from(liquidity))?;
        return price.checked_add(moved).filter(|price| price.bit_len() <= 160);
    }
    if amount.is_zero() {
        return Some(price);
    }
    let numerator: U256 = U256::from(liquidity) << 96;
    let exact = amount.checked_mul(price).and_then(|product| numerator.checked_add(product));
    match exact {
        Some(denominator) => mul_div_up(numerator, price, denominator),
        None => Some(numerator.div_ceil((numerator / price).checked_add(amount)?)),
    }
}

fn after_output(price: U256, liquidity: u128, amount: U256, down: bool) -> Option<U256> {
    if down {
        let moved = mul_div_up(amount, U256::from(1) << 96, U256::from(liquidity))?;
        return price.checked_sub(moved).filter(|price| !price.is_zero());
    }
    if amount.is_zero() {
        return Some(price);
    }
    let numerator: U256 = U256::from(liquidity) << 96;
    let denominator = numerator.checked_sub(amount.checked_mul(price)?).filter(|rest| !rest.is_zero())?;
    mul_div_up(numerator, price, denominator).filter(|price| price.bit_len() <= 160)
}

fn mul_div(a: U256, b: U256, denominator: U256) -> Option<U256> {
    if denominator.is_zero() {
        return None;
    }
    if let Some(product) = a.checked_mul(b) {
        return Some(product / denominator);
    }
    let product: U512 = a.widening_mul(b);
    narrow(product / U512::from(denominator))
}

fn mul_div_up(a: U256, b: U256, denominator: U256) -> Option<U256> {
    if denominator.is_zero() {
        return None;
    }
    if let Some(product) = a.checked_mul(b) {
        return Some(product.div_ceil(denominator));
    }
    let product: U512 = a.widening_mul(b);
    narrow(product.div_ceil(U512::from(denominator)))
}

fn narrow(value: U512) -> Option<U256> {
    U256::checked_from_limbs_slice(value.as_limbs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> U256 {
        text.parse().unwrap()
    }

    /// The cases of the contract's own test of this function: price, target, liquidity, left, fixed; price, input,
    /// output.
    #[test]
    fn the_published_cases_come_out() {
        let one = U256::from(1) << 96;
        let [target_101, target_1000, target_10000] = [
            units("79623317895830914510639640423"),
            units("250541448375047931186413801569"),
            units("792281625142643375935439503360"),
        ];
        let ether = U256::from(10).pow(U256::from(18));
        let two_ether = 2_000_000_000_000_000_000;
        let reached = step(one, target_101, two_ether, ether, 600, Fixed::Input).unwrap();
        assert_eq!(reached.price, target_101);
        assert_eq!(reached.input, units("9975124224178055") + units("5988667735148"));
        assert_eq!(reached.output, units("9925619580021728"));
        let reached = step(one, target_101, two_ether, ether, 600, Fixed::Output).unwrap();
        assert_eq!((reached.input, reached.output), (units("9981112891913203"), units("9925619580021728")));
        let spent = step(one, target_1000, two_ether, ether, 600, Fixed::Input).unwrap();
        assert_eq!((spent.input, spent.output), (ether, units("666399946655997866")));
        assert!(spent.price < target_1000);
        let filled = step(one, target_10000, two_ether, ether, 600, Fixed::Output).unwrap();
        assert_eq!(filled.input, units("2000000000000000000") + units("1200720432259356"));
        assert_eq!(filled.output, ether);
    }

    #[test]
    fn an_output_is_never_more_than_asked() {
        let step = step(
            units("417332158212080721273783715441582"),
            units("1452870262520218020823638996"),
            159_344_665_391_607_089_467_575_320_103,
            U256::from(1),
            1,
            Fixed::Output,
        )
        .unwrap();
        assert_eq!((step.input, step.output), (U256::from(2), U256::from(1)));
        assert_eq!(step.price, units("417332158212080721273783715441581"));
    }

    #[test]
    fn all_of_a_small_input_may_be_fee() {
        let step = step(
            U256::from(2413),
            units("79887613182836312"),
            1_985_041_575_832_132_834_610_021_537_970,
            U256::from(10),
            1872,
            Fixed::Input,
        )
        .unwrap();
        assert_eq!((step.price, step.input, step.output), (U256::from(2413), U256::from(10), U256::ZERO));
    }
}
