//! The format of a stored outcome, with its version, under the rules of `stored_quote`.

use alloy_primitives::Address;
use domain::ledger::UsdcMicros;
use domain::money::Amount;
use domain::outcome::{self, Outcome};
use serde::{Deserialize, Serialize};

use crate::columns::unknown;
use crate::stored_quote::text::{PriceText, Text, to_json};
use crate::stored_quote::v1::Sponsorship;
use crate::stored_quote::version;
use crate::{Row, StoreError};

const VERSION: u32 = 1;

/// The version of a row that names none.
fn first() -> u32 {
    VERSION
}

#[derive(Debug, Serialize, Deserialize)]
struct OutcomeRow {
    #[serde(default = "first")]
    v: u32,
    price: PriceText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sponsored: Option<Sponsored>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    app_fees: Vec<AppFeePaid>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sponsored {
    wallet: Address,
    fees: Sponsorship,
    payment: i64,
    drift: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    market: Option<Text<Amount>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct AppFeePaid {
    recipient: Address,
    amount: Text<Amount>,
    /// Null while the worth is not known.
    credit: Option<i64>,
}

/// The text of an outcome's row.
pub(crate) fn write(outcome: &Outcome) -> String {
    to_json(&OutcomeRow::from(outcome))
}

/// The outcome in a column.
pub(crate) fn of(row: &Row, index: usize) -> Result<Outcome, StoreError> {
    let text = row.text(index)?;
    match version(text) {
        Some(VERSION) => read(text).ok_or(unknown(index, "an outcome")),
        Some(found) => Err(StoreError::FormatNewer { found, known: VERSION }),
        None => Err(unknown(index, "an outcome")),
    }
}

fn read(text: &str) -> Option<Outcome> {
    serde_json::from_str::<OutcomeRow>(text).ok().map(Into::into)
}

impl From<&Outcome> for OutcomeRow {
    fn from(Outcome { price, sponsored, app_fees }: &Outcome) -> Self {
        let app_fee = |outcome::AppFeePaid { recipient, amount, credit }: &_| AppFeePaid {
            recipient: *recipient,
            amount: Text(*amount),
            credit: credit.map(|credit| credit.0),
        };
        Self {
            v: VERSION,
            price: PriceText(*price),
            sponsored: sponsored.as_ref().map(Into::into),
            app_fees: app_fees.iter().map(app_fee).collect(),
        }
    }
}

impl From<OutcomeRow> for Outcome {
    fn from(OutcomeRow { v: _, price, sponsored, app_fees }: OutcomeRow) -> Self {
        let app_fee = |AppFeePaid { recipient, amount, credit }| outcome::AppFeePaid {
            recipient,
            amount: amount.0,
            credit: credit.map(UsdcMicros),
        };
        let app_fees = app_fees.into_iter().map(app_fee).collect();
        Self { price: price.0, sponsored: sponsored.map(Into::into), app_fees }
    }
}

impl From<&outcome::Sponsored> for Sponsored {
    fn from(outcome::Sponsored { wallet, fees, payment, drift, market }: &outcome::Sponsored) -> Self {
        Self { wallet: *wallet, fees: fees.into(), payment: payment.0, drift: drift.0, market: market.map(Text) }
    }
}

impl From<Sponsored> for outcome::Sponsored {
    fn from(Sponsored { wallet, fees, payment, drift, market }: Sponsored) -> Self {
        Self {
            wallet,
            fees: fees.into(),
            payment: UsdcMicros(payment),
            drift: UsdcMicros(drift),
            market: market.map(|Text(amount)| amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_version_are_read_and_written_as_they_were() {
        for row in [
            include_str!("stored_quote/rows/outcome_app_fees.json"),
            include_str!("stored_quote/rows/outcome_fixed_rate.json"),
        ] {
            let outcome = read(row).unwrap();
            let written = write(&outcome);
            assert_eq!(written, row.trim_end().replacen('{', r#"{"v":1,"#, 1));
            assert_eq!(read(&written), Some(outcome));
        }
    }
}
