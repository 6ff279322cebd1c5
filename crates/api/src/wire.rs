//! Shapes that several routes share.

use domain::account::Vm;
use domain::catalog::Currency;
use domain::money::{Amount, UsdMicros};
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

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Currency)]
pub struct CurrencyBody {
    pub chain_id: u64,
    pub address: String,
    pub symbol: String,
    pub name: String,
    pub decimals: u8,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(rename = "logoURI")]
    pub logo_uri: String,
    pub verified: bool,
    pub is_native: bool,
}

impl From<&Currency> for CurrencyBody {
    fn from(currency: &Currency) -> Self {
        Self {
            chain_id: currency.chain.0,
            address: currency.address.to_string(),
            symbol: currency.symbol.clone(),
            name: currency.name.clone(),
            decimals: currency.decimals,
            metadata: Metadata { logo_uri: currency.logo_uri.clone(), verified: true, is_native: currency.native },
        }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Amount)]
pub struct AmountBody {
    pub currency: CurrencyBody,
    pub amount: String,
    pub amount_formatted: String,
    pub amount_usd: String,
    pub minimum_amount: String,
}

impl AmountBody {
    pub fn new(currency: &Currency, amount: Amount, usd: UsdMicros) -> Self {
        Self::with_minimum(currency, amount, usd, amount)
    }

    pub fn with_minimum(currency: &Currency, amount: Amount, usd: UsdMicros, minimum: Amount) -> Self {
        Self {
            currency: currency.into(),
            amount: amount.to_string(),
            amount_formatted: amount.formatted(currency.decimals),
            amount_usd: usd.to_string(),
            minimum_amount: minimum.to_string(),
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
