//! Figures as text, without allocating: a quote is written with about a hundred of them.

use std::fmt::{self, Write};

use alloy_primitives::U256;
use arrayvec::ArrayString;

/// A sign, a zero, a point, as many places as a byte can say, and a mark with a byte behind.
const MAX_LEN: usize = 264;
/// As many digits as the largest number has.
const MAX_WHOLE_LEN: usize = 78;
const ZEROS: &str = match str::from_utf8(&[b'0'; MAX_LEN]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// The text of a number.
///
/// It is large to hand around, so what makes one is inlined where it is used.
#[derive(Clone, Copy)]
pub struct Digits(ArrayString<MAX_LEN>);

impl Digits {
    /// A whole number.
    #[inline]
    pub fn of(number: U256) -> Self {
        let mut text = ArrayString::new();
        text.push_str(&whole(number));
        Self(text)
    }

    /// The number over `10^decimals`, with all its places.
    #[inline]
    pub fn fixed(number: U256, decimals: u8) -> Self {
        match decimals {
            0 => Self::of(number),
            _ => Self(pointed(number, decimals)),
        }
    }

    /// The same, trailing zeros trimmed, with at least one place.
    #[inline]
    pub fn scaled(number: U256, decimals: u8) -> Self {
        let mut text = pointed(number, decimals);
        let places = text.bytes().rev().take(usize::from(decimals));
        let zeros = places.take_while(|digit| *digit == b'0').count();
        text.truncate(text.len() - zeros);
        if zeros == usize::from(decimals) {
            text.push('0');
        }
        Self(text)
    }

    /// With a sign in front.
    #[inline]
    #[must_use]
    pub fn negative(self, negative: bool) -> Self {
        if !negative {
            return self;
        }
        let mut text = ArrayString::new();
        text.push('-');
        text.push_str(&self.0);
        Self(text)
    }

    /// With a mark and another number behind. The mark is one byte.
    #[inline]
    #[must_use]
    pub fn marked(mut self, mark: char, number: u8) -> Self {
        self.0.push(mark);
        self.0.push_str(itoa::Buffer::new().format(number));
        self
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn whole(number: U256) -> ArrayString<MAX_WHOLE_LEN> {
    let mut text = ArrayString::new();
    match (u64::try_from(number), u128::try_from(number)) {
        (Ok(number), _) => text.push_str(itoa::Buffer::new().format(number)),
        (_, Ok(number)) => text.push_str(itoa::Buffer::new().format(number)),
        // There is room for the largest number.
        _ => drop(write!(text, "{number}")),
    }
    text
}

/// A number with its point, behind at least one digit.
#[inline]
fn pointed(number: U256, decimals: u8) -> ArrayString<MAX_LEN> {
    let (digits, decimals) = (whole(number), usize::from(decimals));
    let mut text = ArrayString::new();
    match digits.len().checked_sub(decimals) {
        Some(before) if before > 0 => {
            text.push_str(&digits[..before]);
            text.push('.');
            text.push_str(&digits[before..]);
        }
        _ => {
            text.push_str("0.");
            text.push_str(&ZEROS[..decimals - digits.len()]);
            text.push_str(&digits);
        }
    }
    text
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_at_the_edges_of_a_chunk_are_whole() {
        let chunk = U256::from(10_000_000_000_000_000_000u64);
        for number in [
            U256::ZERO,
            U256::from(9),
            U256::from(u64::MAX),
            U256::from(u64::MAX) + U256::from(1),
            chunk * U256::from(7),
            chunk * chunk,
            chunk * chunk + U256::from(3),
            U256::from(10).pow(U256::from(77)),
            U256::MAX,
        ] {
            assert_eq!(Digits::of(number).as_str(), number.to_string());
        }
    }

    #[test]
    fn a_point_has_a_figure_on_both_sides() {
        for (number, decimals, fixed, scaled) in [
            (0, 0, "0", "0.0"),
            (7, 0, "7", "7.0"),
            (700, 0, "700", "700.0"),
            (0, 6, "0.000000", "0.0"),
            (250_000_000, 6, "250.000000", "250.0"),
            (41_700, 6, "0.041700", "0.0417"),
            (1, 1, "0.1", "0.1"),
            (10, 1, "1.0", "1.0"),
        ] {
            assert_eq!(Digits::fixed(U256::from(number), decimals).as_str(), fixed);
            assert_eq!(Digits::scaled(U256::from(number), decimals).as_str(), scaled);
        }
    }

    #[test]
    fn a_mark_stands_before_the_number_behind_it() {
        for (number, behind, text) in
            [(U256::ZERO, 0, "0:0"), (U256::from(u128::MAX), 36, "340282366920938463463374607431768211455:36")]
        {
            assert_eq!(Digits::of(number).marked(':', behind).as_str(), text);
        }
        let longest = Digits::fixed(U256::ZERO, u8::MAX).negative(true).marked(':', u8::MAX);
        assert!(longest.as_str().ends_with("0:255"));
    }

    proptest! {
        /// Even places that no currency has, of the largest number there is.
        #[test]
        fn what_is_scaled_is_the_number_with_a_point(limbs: [u64; 4], decimals: u8, negative: bool) {
            let number = U256::from_limbs(limbs);
            let places = usize::from(decimals);
            let padded = format!("{number:0>width$}", width = places + 1);
            let (whole, fraction) = padded.split_at(padded.len() - places);
            let sign = if negative { "-" } else { "" };
            let trimmed = fraction.trim_end_matches('0');
            let trimmed = if trimmed.is_empty() { "0" } else { trimmed };
            let scaled = Digits::scaled(number, decimals).negative(negative);
            prop_assert_eq!(scaled.as_str(), format!("{sign}{whole}.{trimmed}"));
            let fixed = Digits::fixed(number, decimals).negative(negative);
            let point = if places > 0 { "." } else { "" };
            prop_assert_eq!(fixed.as_str(), format!("{sign}{whole}{point}{fraction}"));
        }
    }
}
