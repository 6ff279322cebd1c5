//! Amounts, prices and ratios: exact integers, with the rounding in the name.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use alloy_primitives::{U256, U512};

use crate::digits::Digits;

mod price;
mod signed;
#[cfg(test)]
mod tests;
mod usd;

pub use price::Price;
pub use signed::Signed;
pub use usd::UsdMicros;

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

    /// The difference, or nothing: for headroom, never for a balance.
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
