//! A rate the integrator stands for, whatever the market does.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::U256;

use crate::digits::Digits;
use crate::money::{Amount, OutOfRange, Price, Ratio, Signed, UsdMicros, pow10};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be two positive decimals with a colon between them, input:output")]
pub struct NotARate;

/// `input:output`: so much in, so much out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRate {
    /// Both with `SCALE` decimal places.
    input: u128,
    output: u128,
}

const SCALE: usize = 18;

impl FromStr for FixedRate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let (input, output) = text.split_once(':').ok_or(NotARate)?;
        Ok(Self { input: decimal(input)?, output: decimal(output)? })
    }
}

fn decimal(text: &str) -> Result<u128, NotARate> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || fraction.len() > SCALE || !digits(whole) || !digits(fraction) {
        return Err(NotARate);
    }
    // Thirty figures at most, and a `u128` has room for 38.
    let zeros = std::iter::repeat_n(b'0', SCALE - fraction.len());
    let figures = whole.bytes().chain(fraction.bytes()).chain(zeros);
    let scaled = figures.fold(0, |scaled: u128, figure| scaled * 10 + u128::from(figure - b'0'));
    if scaled == 0 { Err(NotARate) } else { Ok(scaled) }
}

impl fmt::Display for FixedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |scaled: u128| Digits::scaled(U256::from(scaled), SCALE as u8);
        write!(f, "{}:{}", text(self.input), text(self.output))
    }
}

impl FixedRate {
    /// Smallest units out per smallest unit in.
    pub fn ratio(self, input_decimals: u8, output_decimals: u8) -> Result<Ratio, OutOfRange> {
        let side = |scaled: u128, decimals: u8| U256::from(scaled).checked_mul(pow10(decimals)).ok_or(OutOfRange);
        Ratio::new(side(self.output, output_decimals)?, side(self.input, input_decimals)?)
    }
}

/// The furthest from the market that an integrator may promise: beyond it somebody would drain its balance.
pub const MAX_DEVIATION_BPS: u16 = 500;

/// A quote's fixed rate, beside what the market would have given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub rate: FixedRate,
    /// The output at the market's rate, had the same fees been sponsored.
    pub market_output: Amount,
}

impl Fixed {
    /// The cost of the fixed rate to the user beside the market: negative when it is better than that.
    pub fn fee(&self, output: Amount, price: Price, decimals: u8) -> Result<UsdMicros, OutOfRange> {
        price.usd_signed(Signed::difference(self.market_output, output), decimals)
    }

    /// Further from the market than [`MAX_DEVIATION_BPS`].
    pub fn deviates(&self, output: Amount) -> Result<bool, OutOfRange> {
        let most = self.market_output.mul_floor(Ratio::bps(MAX_DEVIATION_BPS))?;
        Ok(Signed::difference(self.market_output, output).size() > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_two_positive_decimals() {
        for good in ["1:1", "1:0.9996", "1.0005:1", "0.000000000000000001:1"] {
            let rate: FixedRate = good.parse().unwrap();
            assert_eq!(rate.to_string().parse(), Ok(rate), "{good}");
        }
        for bad in ["", "1", "1:", ":1", "0:1", "1:0", "1:0.0", "-1:1", "1:1:1", "1e3:1", " 1:1", "1:.5", "a:b"] {
            assert_eq!(bad.parse::<FixedRate>(), Err(NotARate), "{bad}");
        }
    }

    #[test]
    fn what_the_integrator_earns_or_loses_is_as_published() {
        // 250 USDC in at $1, `p` the price of one USDT in USDC, fees of $0.07 sponsored.
        for (rate, p, market, fixed, fee) in [
            ("1:1", 100_000_000, "250000000", "250000000", 0),
            ("1:1", 99_920_000, "250200160", "250000000", 199_999),
            ("1:1", 100_060_000, "249850089", "250000000", -150_000),
            ("1:0.9996", 100_000_000, "250000000", "249900000", 100_000),
            ("1:0.9996", 99_920_000, "250200160", "249900000", 299_919),
            ("1:0.9996", 100_060_000, "249850089", "249900000", -49_940),
        ] {
            let (dollar, usdt) = (Price::new(100_000_000, 8).unwrap(), Price::new(p, 8).unwrap());
            let input: Amount = "250000000".parse().unwrap();
            let rate: FixedRate = rate.parse().unwrap();
            let market_output = input.mul_floor(Price::exchange((dollar, 6), (usdt, 6)).unwrap()).unwrap();
            let output = input.mul_floor(rate.ratio(6, 6).unwrap()).unwrap();
            assert_eq!((market_output.to_string(), output.to_string()), (market.to_owned(), fixed.to_owned()));
            let it = Fixed { rate, market_output };
            assert_eq!(it.fee(output, usdt, 6), Ok(UsdMicros(fee)), "{rate} at {p}");
            assert_eq!(it.deviates(output), Ok(false));
        }
        let far = Fixed { rate: "1:2".parse().unwrap(), market_output: "1000".parse().unwrap() };
        assert_eq!(far.deviates("1050".parse().unwrap()), Ok(false));
        assert_eq!(far.deviates("1051".parse().unwrap()), Ok(true));
        assert_eq!(far.deviates("949".parse().unwrap()), Ok(true));
    }
}
