use alloy_primitives::{U256, U512};
use proptest::prelude::*;

use super::*;

fn amount(units: u128) -> Amount {
    Amount::new(U256::from(units))
}

#[test]
fn amounts_are_read_in_one_form() {
    for good in ["0", "1", "1000000", &U256::MAX.to_string()] {
        assert_eq!(good.parse::<Amount>().map(|a| a.to_string()), Ok(good.to_owned()));
    }
    let too_big = format!("{}0", U256::MAX);
    for bad in ["", "-1", "+1", "01", "00", "1.5", "1e3", "0x10", "1_000", " 1", "١", &too_big] {
        assert_eq!(bad.parse::<Amount>(), Err(NotAnAmount), "{bad}");
    }
}

#[test]
fn formatting_keeps_one_fractional_digit() {
    for (units, decimals, text) in [
        (0, 6, "0.0"),
        (250_000_000, 6, "250.0"),
        (41_700, 6, "0.0417"),
        (1, 18, "0.000000000000000001"),
        (7, 0, "7.0"),
    ] {
        assert_eq!(amount(units).formatted(decimals), text);
    }
}

#[test]
fn dollars_have_six_decimals_and_no_negative_zero() {
    for (micros, text) in [(0, "0.000000"), (-1, "-0.000001"), (12_340_000, "12.340000"), (-2_500_000, "-2.500000")] {
        assert_eq!(UsdMicros(micros).to_string(), text);
    }
    assert_eq!(UsdMicros(-1).percent_of(UsdMicros(1_000_000)).as_str(), "0.00");
    assert_eq!("0.02".parse(), Ok(UsdMicros(20_000)));
    assert_eq!("1.0000001".parse::<UsdMicros>(), Err(NotAnAmount));
}

#[test]
fn a_percentage_is_rounded_half_away_from_zero() {
    for (micros, percent) in [
        (-25_000, "-2.50"),
        (-150, "-0.02"),
        (-149, "-0.01"),
        (-50, "-0.01"),
        (-49, "0.00"),
        (49, "0.00"),
        (50, "0.01"),
    ] {
        assert_eq!(UsdMicros(micros).percent_of(UsdMicros(1_000_000)).as_str(), percent, "{micros}");
    }
    assert_eq!(UsdMicros(i64::MIN).percent_of(UsdMicros(i64::MAX)).as_str(), "-100.00");
    assert_eq!(UsdMicros(7).percent_of(UsdMicros(0)).as_str(), "0.00");
}

#[test]
fn prices_convert_between_currencies() {
    let eth = Price::new(300_000_000_000, 8).unwrap();
    let usdc = Price::new(100_000_000, 8).unwrap();
    assert_eq!(eth.usd_floor(amount(1_000_000_000_000_000_000), 18), Ok(UsdMicros(3_000_000_000)));
    assert_eq!(usdc.amount_ceil(UsdMicros(20_000), 6), Ok(amount(20_000)));
    let rate = Price::exchange((eth, 18), (usdc, 6)).unwrap();
    assert_eq!(amount(1_000_000_000_000_000_000).mul_floor(rate), Ok(amount(3_000_000_000)));
    let back = Price::exchange((usdc, 6), (eth, 18)).unwrap();
    assert_eq!(amount(3_000_000_000).mul_floor(back), Ok(amount(1_000_000_000_000_000_000)));
}

#[test]
fn signed_amounts_add_across_zero() {
    let (three, five) = (Signed::cost(amount(3)), Signed::reward(amount(5)));
    assert_eq!(three.checked_add(five).unwrap().to_string(), "-2");
    assert_eq!(three.checked_sub(five).unwrap().to_string(), "8");
    assert_eq!(five.checked_sub(five).unwrap(), Signed::ZERO);
    assert_eq!(five.taken_from(amount(1)), Ok(amount(6)));
    assert_eq!(three.taken_from(amount(1)), Err(OutOfRange));
    assert_eq!(five.scaled(0).as_str(), "-5.0");
}

#[test]
fn arithmetic_never_wraps() {
    assert_eq!(Amount::new(U256::MAX).checked_add(amount(1)), Err(OutOfRange));
    assert_eq!(amount(1).checked_sub(amount(2)), Err(OutOfRange));
    assert_eq!(Amount::new(U256::MAX).mul_ceil(Ratio::new(U256::from(2), U256::from(1)).unwrap()), Err(OutOfRange));
    assert_eq!(Ratio::new(U256::from(1), U256::ZERO), Err(OutOfRange));
}

proptest! {
    #[test]
    fn the_two_roundings_differ_by_at_most_one(units: u128, num: u64, den in 1u64..) {
        let ratio = Ratio::new(U256::from(num), U256::from(den)).unwrap();
        let floor = amount(units).mul_floor(ratio).unwrap();
        let ceil = amount(units).mul_ceil(ratio).unwrap();
        prop_assert!(floor <= ceil && ceil.checked_sub(floor).unwrap() <= amount(1));
    }

    /// Numbers of every length, those among them whose product just fits machine numbers and those where it does not.
    #[test]
    fn small_numbers_are_multiplied_and_divided_as_large_ones_are(
        numbers: [u128; 3], shifts in [0u32..128, 0u32..128, 0u32..128],
    ) {
        let [units, num, den] = [0, 1, 2].map(|n| U256::from(numbers[n] >> shifts[n]));
        if let Ok(ratio) = Ratio::new(num, den) {
            let product = units.checked_mul(num).unwrap();
            let (whole, rest) = product.div_rem(den);
            prop_assert_eq!(Amount(units).mul_floor(ratio), Ok(Amount(whole)));
            let above = if rest.is_zero() { whole } else { whole + U256::from(1) };
            prop_assert_eq!(Amount(units).mul_ceil(ratio), Ok(Amount(above)));
        }
    }

    /// In lowest terms and not, at every number of places.
    #[test]
    fn a_price_is_its_answer_over_a_power_of_ten(
        units: u64, answer in 1u64.., places in 0u8..=36, decimals in 0u8..=24,
    ) {
        let price = Price::new(answer.into(), places).unwrap();
        let micros = U512::from(units) * U512::from(answer) * U512::from(1_000_000);
        let (whole, rest) = micros.div_rem(U512::from(pow10(places + decimals)));
        let usd = |micros: U512| i64::try_from(micros).map(UsdMicros).map_err(|_| OutOfRange);
        prop_assert_eq!(price.usd_floor(amount(units.into()), decimals), usd(whole));
        let above = if rest.is_zero() { whole } else { whole + U512::from(1) };
        prop_assert_eq!(price.usd_ceil(amount(units.into()), decimals), usd(above));
    }

    #[test]
    fn charging_then_valuing_never_loses_a_cent(micros in 0i64..1_000_000_000_000, answer in 1u64.., decimals in 0u8..=24) {
        let price = Price::new(u128::from(answer), 8).unwrap();
        let charged = price.amount_ceil(UsdMicros(micros), decimals).unwrap();
        prop_assert!(price.usd_ceil(charged, decimals).unwrap() >= UsdMicros(micros));
    }

    #[test]
    fn an_amount_survives_its_text(units: [u64; 4]) {
        let amount = Amount::new(U256::from_limbs(units));
        prop_assert_eq!(amount.to_string().parse::<Amount>(), Ok(amount));
    }
}
