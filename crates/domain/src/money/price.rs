//! Prices in US dollars.

use alloy_primitives::U256;

use super::{Amount, OutOfRange, Ratio, Signed, UsdMicros, pow10};

/// The price of one whole unit of a currency in US dollars: an answer of a feed, `answer / 10^decimals`.
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
        let size = self.usd_floor(amount.size(), currency_decimals)?;
        Ok(if amount.is_negative() { UsdMicros(-size.0) } else { size })
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
