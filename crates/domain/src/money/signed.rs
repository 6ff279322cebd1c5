//! Amounts that may be owed either way.

use std::fmt;

use super::{Amount, OutOfRange};
use crate::digits::Digits;

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

    /// The amount by which `more` exceeds `less`, negative where it falls short of it.
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

    /// The rest of an amount after this is taken out of it.
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
