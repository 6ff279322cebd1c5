//! The native-currency levels of the filler wallets.

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use domain::gas_refill::GasLevels;
use domain::money::Amount;
use serde::{Deserialize, Serialize};

/// Levels in whole units of the native currency, as decimal text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GasRefillConfig {
    /// The level to which `causeway topup` refills each filler.
    pub target: String,
    /// The level below which `doctor` and the metrics warn.
    pub low: String,
}

impl GasRefillConfig {
    pub fn amounts(&self, decimals: u8) -> Result<GasLevels> {
        let levels = GasLevels {
            target: amount(&self.target, decimals).context("gas_refill.target")?,
            low: amount(&self.low, decimals).context("gas_refill.low")?,
        };
        ensure!(levels.low <= levels.target, "gas_refill.low: must not be more than the target");
        Ok(levels)
    }
}

fn amount(text: &str, decimals: u8) -> Result<Amount> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !whole.is_empty() && whole.len() <= 12 && fraction.len() <= usize::from(decimals);
    ensure!(fits && digits(whole) && digits(fraction), "must be whole units in decimal text such as \"2.5\"");
    let units = format!("{whole}{fraction:0<width$}", width = usize::from(decimals));
    Ok(Amount::new(U256::from_str_radix(&units, 10).context("must be whole units in decimal text")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_to_the_last_decimal_and_nothing_else_is() {
        let of = |units: u64| Amount::new(U256::from(units));
        for (text, units) in [("2.5", 2_500), ("0", 0), ("0.001", 1), ("12", 12_000), ("007", 7_000)] {
            assert_eq!(amount(text, 3).ok(), Some(of(units)), "{text}");
        }
        for bad in ["", ".5", "1.2345", "-1", "1e3", "1 ", "1.2.3", "1234567890123"] {
            assert!(amount(bad, 3).is_err(), "{bad}");
        }
        let levels = |target: &str, low: &str| GasRefillConfig { target: target.to_owned(), low: low.to_owned() };
        assert!(levels("1", "0.5").amounts(18).is_ok());
        assert!(levels("1", "1.5").amounts(18).is_err());
    }
}
