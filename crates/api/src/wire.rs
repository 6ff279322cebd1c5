//! Shapes that several routes share.

use domain::account::Vm;
use domain::catalog::Currency;
use domain::money::{Amount, Signed, UsdMicros};
use serde::Serialize;
use utoipa::ToSchema;

/// The interface's word for a kind of machine.
pub fn vm_type(vm: Vm) -> &'static str {
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
pub struct CurrencyBody<'a> {
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
pub struct Metadata<'a> {
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

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Amount)]
pub struct AmountBody<'a> {
    pub currency: CurrencyBody<'a>,
    pub amount: String,
    pub amount_formatted: String,
    pub amount_usd: String,
    pub minimum_amount: String,
}

impl<'a> AmountBody<'a> {
    pub fn new(currency: &'a Currency, amount: Amount, usd: UsdMicros) -> Self {
        Self::with_minimum(currency, amount, usd, amount)
    }

    pub fn with_minimum(currency: &'a Currency, amount: Amount, usd: UsdMicros, minimum: Amount) -> Self {
        Self { minimum_amount: minimum.to_string(), ..Self::signed(currency, Signed::cost(amount), usd) }
    }

    pub fn signed(currency: &'a Currency, amount: Signed, usd: UsdMicros) -> Self {
        Self {
            currency: currency.into(),
            amount: amount.to_string(),
            amount_formatted: amount.formatted(currency.decimals),
            amount_usd: usd.to_string(),
            minimum_amount: amount.to_string(),
        }
    }
}

/// A cost, negative; or a benefit, positive.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Usd {
    pub usd: String,
}

impl From<UsdMicros> for Usd {
    fn from(usd: UsdMicros) -> Self {
        Self { usd: usd.to_string() }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Impact {
    pub usd: String,
    pub percent: String,
}

impl Impact {
    pub fn new(usd: UsdMicros, of: UsdMicros) -> Self {
        Self { usd: usd.to_string(), percent: usd.percent_of(of) }
    }
}
