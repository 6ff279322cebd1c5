//! Amounts, prices and ratios: exact integers, with the rounding in the name.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use alloy_primitives::{U256, U512};

use crate::digits::Digits;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("amount out of range")]
pub struct OutOfRange;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number in decimal digits")]
pub struct NotAnAmount;

/// A count of a currency's smallest unit.
///
/// It has no `+`, `-`, `*` or `sum`: those of `U256` wrap in silence, in debug builds too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(U256);

impl Amount {
    pub const ZERO: Self = Self(U256::ZERO);

    pub const fn new(units: U256) -> Self {
        Self(units)
    }

    pub const fn units(self) -> U256 {
        self.0
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    pub fn checked_add(self, rhs: Self) -> Result<Self, OutOfRange> {
        self.0.checked_add(rhs.0).map(Self).ok_or(OutOfRange)
    }

    pub fn checked_sub(self, rhs: Self) -> Result<Self, OutOfRange> {
        self.0.checked_sub(rhs.0).map(Self).ok_or(OutOfRange)
    }

    /// What is left, or nothing: for headroom, never for a balance.
    pub fn saturating_sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }

    /// For what we pay out: the fraction stays with us.
    pub fn mul_floor(self, by: Ratio) -> Result<Self, OutOfRange> {
        match small_product(self.0, by) {
            Some((product, den)) => Ok(Self(U256::from(product / den))),
            None => narrow(wide(self.0, by.num) / U512::from(by.den)),
        }
    }

    /// For what we charge: the fraction is paid to us.
    pub fn mul_ceil(self, by: Ratio) -> Result<Self, OutOfRange> {
        match small_product(self.0, by) {
            Some((product, den)) => Ok(Self(U256::from(product.div_ceil(den)))),
            None => narrow(wide(self.0, by.num).div_ceil(U512::from(by.den))),
        }
    }

    /// The human-scaled figure: trailing zeros trimmed, at least one fractional digit.
    pub fn formatted(self, decimals: u8) -> String {
        Digits::scaled(self.0, decimals).to_string()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(true, "", Digits::of(self.0).as_str())
    }
}

impl FromStr for Amount {
    type Err = NotAnAmount;

    /// Decimal digits without sign, leading zero or separator; `U256` itself would also take hex and underscores.
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let canonical = text == "0" || (!text.starts_with('0') && !text.is_empty());
        if !canonical || text.len() > 78 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NotAnAmount);
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_| NotAnAmount)
    }
}

/// An amount owed either way: a cost, or, when negative, a reward. There is no negative zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signed {
    size: Amount,
    negative: bool,
}

impl Signed {
    pub const ZERO: Self = Self::cost(Amount::ZERO);

    pub const fn cost(size: Amount) -> Self {
        Self { size, negative: false }
    }

    pub fn reward(size: Amount) -> Self {
        Self { size, negative: !size.is_zero() }
    }

    /// What `more` exceeds `less` by, or falls short of it.
    pub fn difference(more: Amount, less: Amount) -> Self {
        match more.checked_sub(less) {
            Ok(size) => Self::cost(size),
            Err(OutOfRange) => Self::reward(less.saturating_sub(more)),
        }
    }

    pub const fn size(self) -> Amount {
        self.size
    }

    pub const fn is_negative(self) -> bool {
        self.negative
    }

    pub fn checked_add(self, rhs: Self) -> Result<Self, OutOfRange> {
        match (self.negative, rhs.negative) {
            (false, false) => Ok(Self::cost(self.size.checked_add(rhs.size)?)),
            (true, true) => Ok(Self::reward(self.size.checked_add(rhs.size)?)),
            (false, true) => Ok(Self::difference(self.size, rhs.size)),
            (true, false) => Ok(Self::difference(rhs.size, self.size)),
        }
    }

    pub fn checked_sub(self, rhs: Self) -> Result<Self, OutOfRange> {
        self.checked_add(Self { size: rhs.size, negative: !rhs.negative && !rhs.size.is_zero() })
    }

    /// What is left of an amount after this is taken out of it.
    pub fn taken_from(self, amount: Amount) -> Result<Amount, OutOfRange> {
        if self.negative { amount.checked_add(self.size) } else { amount.checked_sub(self.size) }
    }

    /// The human-scaled figure, as of an [`Amount`].
    #[inline]
    pub fn scaled(self, decimals: u8) -> Digits {
        Digits::scaled(self.size.0, decimals).negative(self.negative)
    }

    #[inline]
    pub fn digits(self) -> Digits {
        Digits::of(self.size.0).negative(self.negative)
    }
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.digits().as_str())
    }
}

/// The product and what it is divided by, where machine numbers hold them, as they do nearly always: dividing those is
/// several times as fast.
fn small_product(a: U256, by: Ratio) -> Option<(u128, u128)> {
    let small = |number: U256| match *number.as_limbs() {
        [low, high, 0, 0] => Some(u128::from(high) << 64 | u128::from(low)),
        _ => None,
    };
    Some((small(a)?.checked_mul(small(by.num)?)?, small(by.den)?))
}

fn wide(a: U256, b: U256) -> U512 {
    a.widening_mul(b)
}

fn narrow(value: U512) -> Result<Amount, OutOfRange> {
    U256::checked_from_limbs_slice(value.as_limbs()).map(Amount).ok_or(OutOfRange)
}

/// An exact, positive fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    num: U256,
    den: U256,
}

impl Ratio {
    pub fn new(num: U256, den: U256) -> Result<Self, OutOfRange> {
        if den.is_zero() { Err(OutOfRange) } else { Ok(Self { num, den }) }
    }

    pub fn bps(bps: u16) -> Self {
        Self { num: U256::from(bps), den: U256::from(10_000u16) }
    }

    /// One and so many basis points more.
    pub fn bps_more(bps: u16) -> Self {
        Self { num: U256::from(10_000u32 + u32::from(bps)), den: U256::from(10_000u16) }
    }

    pub fn inverse(self) -> Result<Self, OutOfRange> {
        Self::new(self.den, self.num)
    }

    pub fn times(self, by: Self) -> Result<Self, OutOfRange> {
        let num = self.num.checked_mul(by.num).ok_or(OutOfRange)?;
        Self::new(num, self.den.checked_mul(by.den).ok_or(OutOfRange)?)
    }

    /// The smaller of two.
    pub fn min(self, other: Self) -> Self {
        if wide(self.num, other.den) <= wide(other.num, self.den) { self } else { other }
    }

    /// The exact decimal to at most eighteen places, rounded down: `rate` on the wire.
    pub fn decimal(self) -> String {
        let scaled = Amount(self.num).mul_floor(Self { num: pow10(18), den: self.den });
        scaled.map_or_else(|_| "0.0".to_owned(), |amount| amount.formatted(18))
    }
}

/// `10^n` for the exponents that occur: decimals of currencies and feeds.
pub fn pow10(n: u8) -> U256 {
    POWERS.get(usize::from(n)).copied().unwrap_or_else(|| U256::from(10u8).pow(U256::from(n)))
}

/// Every power of ten that fits: a quote asks for a few dozen, and each would be computed anew.
static POWERS: LazyLock<[U256; 78]> = LazyLock::new(|| std::array::from_fn(|n| U256::from(10u8).pow(U256::from(n))));

/// Millionths of a US dollar: caps, ceilings and figures shown to people. Signed, because impacts are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsdMicros(pub i64);

impl UsdMicros {
    pub fn checked_add(self, rhs: Self) -> Result<Self, OutOfRange> {
        self.0.checked_add(rhs.0).map(Self).ok_or(OutOfRange)
    }

    pub fn checked_sub(self, rhs: Self) -> Result<Self, OutOfRange> {
        self.0.checked_sub(rhs.0).map(Self).ok_or(OutOfRange)
    }

    /// This figure as a signed percentage of `whole`, two decimals, never a negative zero.
    pub fn percent_of(self, whole: Self) -> Digits {
        let hundredths = (i128::from(self.0) * 10_000).checked_div(whole.0.into()).unwrap_or_default();
        Digits::fixed(U256::from(hundredths.unsigned_abs()), 2).negative(hundredths < 0)
    }

    /// Always six decimals.
    #[inline]
    pub fn digits(self) -> Digits {
        Digits::fixed(U256::from(self.0.unsigned_abs()), 6).negative(self.0 < 0)
    }
}

impl fmt::Display for UsdMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.digits().as_str())
    }
}

impl FromStr for UsdMicros {
    type Err = NotAnAmount;

    /// Dollars in decimal text with at most six places, as configuration files write them.
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 12 || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
            return Err(NotAnAmount);
        }
        format!("{whole}{fraction:0<6}").parse().map(Self).map_err(|_| NotAnAmount)
    }
}

/// What one whole unit of a currency costs in US dollars: an answer of a feed, `answer / 10^decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    answer: u128,
    decimals: u8,
}

impl Price {
    pub const DOLLAR: Self = Self { answer: 1, decimals: 0 };

    /// A feed that answers zero, or with absurd decimals, has no price.
    pub fn new(answer: u128, decimals: u8) -> Result<Self, OutOfRange> {
        if answer == 0 || decimals > 36 { Err(OutOfRange) } else { Ok(Self { answer, decimals }) }
    }

    pub const fn answer(self) -> u128 {
        self.answer
    }

    pub const fn decimals(self) -> u8 {
        self.decimals
    }

    /// Millionths of a dollar that the smallest unit costs, in lowest powers of ten.
    fn dollars_per_unit(self, currency_decimals: u8) -> Result<(U256, U256), OutOfRange> {
        let exponent = self.decimals.checked_add(currency_decimals).filter(|&n| n <= 72).ok_or(OutOfRange)?;
        let (up, down) = (6u8.saturating_sub(exponent), exponent.saturating_sub(6));
        let num = U256::from(self.answer).checked_mul(pow10(up)).ok_or(OutOfRange)?;
        Ok((num, pow10(down)))
    }

    pub fn usd_floor(self, amount: Amount, currency_decimals: u8) -> Result<UsdMicros, OutOfRange> {
        if amount.is_zero() {
            return Ok(UsdMicros(0));
        }
        let (num, den) = self.dollars_per_unit(currency_decimals)?;
        to_micros(amount.mul_floor(Ratio { num, den })?)
    }

    pub fn usd_ceil(self, amount: Amount, currency_decimals: u8) -> Result<UsdMicros, OutOfRange> {
        let (num, den) = self.dollars_per_unit(currency_decimals)?;
        to_micros(amount.mul_ceil(Ratio { num, den })?)
    }

    /// The least amount worth at least `usd`: for what we charge.
    pub fn amount_ceil(self, usd: UsdMicros, currency_decimals: u8) -> Result<Amount, OutOfRange> {
        let (num, den) = self.dollars_per_unit(currency_decimals)?;
        let micros = u64::try_from(usd.0).map_err(|_| OutOfRange)?;
        Amount(U256::from(micros)).mul_ceil(Ratio { num: den, den: num })
    }

    /// The most that is worth no more than `usd`: for what we pay out.
    pub fn amount_floor(self, usd: UsdMicros, currency_decimals: u8) -> Result<Amount, OutOfRange> {
        let (num, den) = self.dollars_per_unit(currency_decimals)?;
        let micros = u64::try_from(usd.0).map_err(|_| OutOfRange)?;
        Amount(U256::from(micros)).mul_floor(Ratio { num: den, den: num })
    }

    /// In dollars, towards zero.
    pub fn usd_signed(self, amount: Signed, currency_decimals: u8) -> Result<UsdMicros, OutOfRange> {
        let size = self.usd_floor(amount.size, currency_decimals)?;
        Ok(if amount.negative { UsdMicros(-size.0) } else { size })
    }

    /// Units of `to` that one unit of `from` is worth at these prices.
    pub fn exchange(from: (Self, u8), to: (Self, u8)) -> Result<Ratio, OutOfRange> {
        let (from_num, from_den) = from.0.dollars_per_unit(from.1)?;
        let (to_num, to_den) = to.0.dollars_per_unit(to.1)?;
        // Common powers of ten are dropped first: both products must fit 256 bits.
        let shared = from_den.min(to_den);
        let num = from_num.checked_mul(to_den / shared).ok_or(OutOfRange)?;
        let den = to_num.checked_mul(from_den / shared).ok_or(OutOfRange)?;
        Ratio::new(num, den)
    }
}

fn to_micros(amount: Amount) -> Result<UsdMicros, OutOfRange> {
    i64::try_from(amount.0).map(UsdMicros).map_err(|_| OutOfRange)
}

#[cfg(test)]
mod tests {
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
        for (micros, text) in [(0, "0.000000"), (-1, "-0.000001"), (12_340_000, "12.340000"), (-2_500_000, "-2.500000")]
        {
            assert_eq!(UsdMicros(micros).to_string(), text);
        }
        assert_eq!(UsdMicros(-1).percent_of(UsdMicros(1_000_000)).as_str(), "0.00");
        assert_eq!(UsdMicros(-25_000).percent_of(UsdMicros(1_000_000)).as_str(), "-2.50");
        assert_eq!(UsdMicros(7).percent_of(UsdMicros(0)).as_str(), "0.00");
        assert_eq!("0.02".parse(), Ok(UsdMicros(20_000)));
        assert_eq!("1.0000001".parse::<UsdMicros>(), Err(NotAnAmount));
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
}
