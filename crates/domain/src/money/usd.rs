//! US dollars.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::U256;

use super::{NotAnAmount, OutOfRange};
use crate::digits::Digits;

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

    /// This figure as a signed percentage of `whole`, two decimals, rounded half away from zero: a cost is not shown as
    /// less than it is because its last digits were cut off. Never a negative zero.
    pub fn percent_of(self, whole: Self) -> Digits {
        let (part, of) = (u128::from(self.0.unsigned_abs()) * 10_000, u128::from(whole.0.unsigned_abs()));
        let hundredths = (2 * part + of).checked_div(2 * of).unwrap_or_default();
        let negative = (self.0 < 0) != (whole.0 < 0) && hundredths > 0;
        Digits::fixed(U256::from(hundredths), 2).negative(negative)
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
