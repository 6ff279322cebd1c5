//! Figures as text, without allocating: a quote is written with about a hundred of them.

use std::fmt;

use alloy_primitives::U256;

/// A zero, as many places as a byte can say, a point and a sign.
const ROOM: usize = 260;
/// Left free behind the last digit, for the point and the zero of a figure without places.
const SPARE: usize = 2;

/// The text of a number, written from its last digit to its first.
///
/// It is large to hand around, so what makes one is inlined where it is used.
#[derive(Clone, Copy)]
pub struct Digits {
    bytes: [u8; ROOM],
    from: usize,
    to: usize,
}

/// Nineteen digits at a time, as many as any 64 bits hold.
const CHUNK_DIVISOR: u64 = 10_000_000_000_000_000_000;
const CHUNK_DIGITS: usize = 19;
/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let (mut pairs, mut n) = ([[0; 2]; 100], 0);
    while n < 100 {
        pairs[n as usize] = [b'0' + n / 10, b'0' + n % 10];
        n += 1;
    }
    pairs
};

impl Digits {
    /// A whole number.
    #[inline]
    pub fn of(number: U256) -> Self {
        let mut digits = Self::NONE;
        digits.put(number);
        digits
    }

    const NONE: Self = Self { bytes: [b'0'; ROOM], from: ROOM - SPARE, to: ROOM - SPARE };

    fn put(&mut self, number: U256) {
        let mut rest = number;
        while rest.bit_len() > 128 {
            let (above, chunk) = rest.div_rem(U256::from(CHUNK_DIVISOR));
            self.push_chunk(chunk.as_limbs()[0]);
            rest = above;
        }
        let [low, high, ..] = *rest.as_limbs();
        let mut rest = u128::from(high) << 64 | u128::from(low);
        while rest > u128::from(u64::MAX) {
            let above = rest / u128::from(CHUNK_DIVISOR);
            self.push_chunk((rest - above * u128::from(CHUNK_DIVISOR)) as u64);
            rest = above;
        }
        self.push(rest as u64);
    }

    /// The number over `10^decimals`, with all its places.
    #[inline]
    pub fn fixed(number: U256, decimals: u8) -> Self {
        let mut digits = Self::NONE;
        digits.put(number);
        let decimals = usize::from(decimals);
        if decimals == 0 {
            return digits;
        }
        let point = digits.to - decimals;
        // The figures before the point make room for it, at least one of them.
        digits.from = digits.from.min(point - 1);
        digits.bytes.copy_within(digits.from..point, digits.from - 1);
        digits.bytes[point - 1] = b'.';
        digits.from -= 1;
        digits
    }

    /// The same, trailing zeros trimmed, with at least one place.
    #[inline]
    pub fn scaled(number: U256, decimals: u8) -> Self {
        let mut digits = Self::fixed(number, decimals);
        if decimals == 0 {
            digits.bytes[digits.to] = b'.';
            digits.to += SPARE;
            return digits;
        }
        let least = digits.to - usize::from(decimals) + 1;
        while digits.to > least && digits.bytes[digits.to - 1] == b'0' {
            digits.to -= 1;
        }
        digits
    }

    /// With a sign in front.
    #[inline]
    #[must_use]
    pub fn negative(mut self, negative: bool) -> Self {
        if negative {
            self.from -= 1;
            self.bytes[self.from] = b'-';
        }
        self
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.from..self.to]).unwrap_or_default()
    }

    /// Exactly as many digits as a chunk has: what it does not fill are zeros.
    fn push_chunk(&mut self, chunk: u64) {
        let from = self.from - CHUNK_DIGITS;
        self.push(chunk);
        self.from = from;
    }

    fn push(&mut self, mut number: u64) {
        while number >= 100 {
            self.push_pair(number % 100);
            number /= 100;
        }
        if number >= 10 {
            self.push_pair(number);
        } else {
            self.push_digit(number);
        }
    }

    fn push_pair(&mut self, pair: u64) {
        let pair = PAIRS[pair as usize];
        self.from -= 2;
        self.bytes[self.from..self.from + 2].copy_from_slice(&pair);
    }

    fn push_digit(&mut self, digit: u64) {
        self.from -= 1;
        self.bytes[self.from] = b'0' + digit as u8;
    }
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
        let chunk = U256::from(CHUNK_DIVISOR);
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
