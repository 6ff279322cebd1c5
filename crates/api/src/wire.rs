//! Shapes that several routes share.

use std::collections::HashMap;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use domain::account::{Account, Vm};
use domain::catalog::{Catalog, Chain, Currency};
use domain::ids::ChainId;
use domain::money::{Amount, OutOfRange, Signed, UsdMicros};
use domain::time::Timestamp;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use crate::json::Figure;

/// The interface's word for a kind of machine.
pub(crate) fn vm_type(vm: Vm) -> &'static str {
    match vm {
        Vm::Evm => "evm",
        Vm::Venue => "lvm",
        Vm::Svm => "svm",
    }
}

/// Borrowed from the catalogue: an answer names a currency a dozen times.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Currency)]
pub(crate) struct CurrencyBody<'a> {
    pub chain_id: u64,
    pub address: &'a str,
    pub symbol: &'a str,
    pub name: &'a str,
    pub decimals: u8,
    pub metadata: Metadata<'a>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Metadata)]
pub(crate) struct Metadata<'a> {
    #[serde(rename = "logoURI")]
    pub logo_uri: &'a str,
    pub verified: bool,
    pub is_native: bool,
}

impl<'a> From<&'a Currency> for CurrencyBody<'a> {
    fn from(currency: &'a Currency) -> Self {
        Self {
            chain_id: currency.chain.0,
            address: currency.address.text(),
            symbol: &currency.symbol,
            name: &currency.name,
            decimals: currency.decimals,
            metadata: Metadata { logo_uri: &currency.logo_uri, verified: true, is_native: currency.native },
        }
    }
}

/// Every currency of the catalogue as it is shown, written once: an answer names currencies a dozen times, and half of its
/// amounts are nothing.
#[derive(Debug)]
pub struct Rendered(HashMap<ChainId, Vec<(Account, Written)>>);

#[derive(Debug)]
struct Written {
    currency: Box<RawValue>,
    /// No amount of it.
    nothing: Box<RawValue>,
}

impl Written {
    fn new(currency: &Currency) -> serde_json::Result<Self> {
        let shown = to_raw_value(&CurrencyBody::from(currency))?;
        let written = Self { nothing: shown.clone(), currency: shown };
        let nothing = AmountBody::new(Shown { currency, written: &written }, Amount::ZERO, UsdMicros(0));
        Ok(Self { nothing: to_raw_value(&Members(nothing))?, ..written })
    }
}

impl Rendered {
    pub fn new(catalog: &Catalog) -> serde_json::Result<Self> {
        let written = |currency: &Currency| Ok((currency.address.clone(), Written::new(currency)?));
        let of_chain = |chain: &Chain| Ok((chain.id, chain.currencies().map(written).collect::<Result<_, _>>()?));
        catalog.chains().iter().map(of_chain).collect::<serde_json::Result<_>>().map(Self)
    }

    /// None only for a currency of another catalogue.
    pub fn of<'a>(&'a self, currency: &'a Currency) -> Option<Shown<'a>> {
        let written = self.0.get(&currency.chain)?.iter().find(|(address, _)| *address == currency.address);
        written.map(|(_, written)| Shown { currency, written })
    }
}

/// A currency, and how it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    currency: &'a Currency,
    written: &'a Written,
}

impl<'a> Shown<'a> {
    pub fn currency(self) -> &'a Currency {
        self.currency
    }
}

impl Deref for Shown<'_> {
    type Target = Currency;

    fn deref(&self) -> &Currency {
        self.currency
    }
}

// Figures stay numbers until they are written.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(as = Amount, rename_all = "camelCase")]
pub(crate) struct AmountBody<'a> {
    #[schema(value_type = CurrencyBody<'a>)]
    currency: &'a Written,
    #[schema(value_type = String)]
    amount: Signed,
    // The decimals: whole units are made of them when they are written.
    #[schema(value_type = String)]
    amount_formatted: u8,
    #[schema(value_type = String)]
    amount_usd: Dollars,
    #[schema(value_type = String)]
    minimum_amount: Signed,
}

impl PartialEq for AmountBody<'_> {
    fn eq(&self, other: &Self) -> bool {
        // Each currency is rendered once, so that its place tells it from the others.
        ptr::eq(self.currency, other.currency)
            && self.amount == other.amount
            && self.amount_formatted == other.amount_formatted
            && self.amount_usd == other.amount_usd
            && self.minimum_amount == other.minimum_amount
    }
}

impl<'a> AmountBody<'a> {
    pub(crate) fn new(currency: Shown<'a>, amount: Amount, usd: UsdMicros) -> Self {
        Self::with_minimum(currency, amount, usd, amount)
    }

    pub(crate) fn with_minimum(currency: Shown<'a>, amount: Amount, usd: UsdMicros, minimum: Amount) -> Self {
        Self { minimum_amount: Signed::cost(minimum), ..Self::signed(currency, Signed::cost(amount), usd) }
    }

    pub(crate) fn signed(currency: Shown<'a>, amount: Signed, usd: UsdMicros) -> Self {
        Self {
            currency: currency.written,
            amount,
            amount_formatted: currency.decimals,
            amount_usd: Dollars(usd),
            minimum_amount: amount,
        }
    }
}

impl<'a> AmountBody<'a> {
    /// As it is written for every amount that is nothing.
    fn nothing(&self) -> Option<&'a RawValue> {
        let nothing =
            self.amount == Signed::ZERO && self.minimum_amount == Signed::ZERO && self.amount_usd.0 == UsdMicros(0);
        nothing.then_some(&*self.currency.nothing)
    }
}

impl Serialize for AmountBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.nothing() {
            Some(nothing) => nothing.serialize(serializer),
            None => Members(*self).serialize(serializer),
        }
    }
}

/// An amount member by member, as a body needs it that has them among its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'a>(pub AmountBody<'a>);

/// Most amounts are their own minimum, whose text is then made once.
impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let AmountBody { currency, amount, amount_formatted: decimals, amount_usd, minimum_amount } = &self.0;
        let digits = Figure(amount.digits());
        let mut body = serializer.serialize_struct("Amount", 5)?;
        body.serialize_field("currency", &currency.currency)?;
        body.serialize_field("amount", &digits)?;
        body.serialize_field("amountFormatted", &Figure(amount.scaled(*decimals)))?;
        body.serialize_field("amountUsd", amount_usd)?;
        match minimum_amount == amount {
            true => body.serialize_field("minimumAmount", &digits)?,
            false => body.serialize_field("minimumAmount", &Figure(minimum_amount.digits()))?,
        }
        body.end()
    }
}

/// The amounts of an answer that may be equal, each written once: where nothing is swapped, the input is the deposit
/// and the refund too.
#[derive(Debug, Default)]
pub(crate) struct Amounts<'a>(Vec<(AmountBody<'a>, Arc<RawValue>)>);

#[derive(Clone, Debug)]
pub(crate) enum WrittenAmount<'a> {
    Nothing(&'a RawValue),
    Some(Arc<RawValue>),
}

impl<'a> Amounts<'a> {
    /// An error only if an amount cannot be written, as any figure that does not fit.
    pub(crate) fn write(&mut self, amount: AmountBody<'a>) -> Result<WrittenAmount<'a>, OutOfRange> {
        if let Some(nothing) = amount.nothing() {
            return Ok(WrittenAmount::Nothing(nothing));
        }
        if let Some((_, written)) = self.0.iter().find(|(known, _)| *known == amount) {
            return Ok(WrittenAmount::Some(written.clone()));
        }
        let written: Arc<RawValue> = to_raw_value(&Members(amount)).map_err(|_| OutOfRange)?.into();
        self.0.push((amount, written.clone()));
        Ok(WrittenAmount::Some(written))
    }
}

impl Serialize for WrittenAmount<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing(nothing) => nothing.serialize(serializer),
            Self::Some(written) => written.serialize(serializer),
        }
    }
}

/// Dollars with six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dollars(pub UsdMicros);

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Figure(self.0.digits()).serialize(serializer)
    }
}

/// A cost, negative; or a benefit, positive.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Usd {
    #[schema(value_type = String)]
    pub usd: Dollars,
}

impl From<UsdMicros> for Usd {
    fn from(usd: UsdMicros) -> Self {
        Self { usd: Dollars(usd) }
    }
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Impact {
    #[schema(value_type = String)]
    pub usd: Dollars,
    #[schema(value_type = String)]
    pub percent: Percent,
}

impl Impact {
    pub(crate) fn new(usd: UsdMicros, of: UsdMicros) -> Self {
        Self { usd: Dollars(usd), percent: Percent { part: usd, of } }
    }
}

/// A share, with two decimals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent {
    pub part: UsdMicros,
    pub of: UsdMicros,
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Figure(self.part.percent_of(self.of)).serialize(serializer)
    }
}

/// A point in time as records show it: ISO 8601 in UTC, with milliseconds.
pub(crate) fn iso(at: Timestamp) -> String {
    let ((year, month, day), millis) = (at.date(), at.millis().rem_euclid(86_400_000));
    let (secs, millis) = (millis / 1_000, millis % 1_000);
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_shown_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_001, "2024-03-01T00:00:00.001Z"),
            (1_790_000_123_456, "2026-09-21T14:15:23.456Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(Timestamp::from_millis(millis)), text);
        }
    }
}
