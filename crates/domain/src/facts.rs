//! The facts of a request that listings filter and sort by, taken from its quote.

use crate::api_key::ApiKeyId;
use crate::catalog::Catalog;
use crate::ids::ChainId;
use crate::money::{Amount, UsdMicros};
use crate::quote::{CurrencyKey, Operation, Quote};

/// The kind of a request as listings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestType {
    Bridge,
    CrosschainSwap,
    SameChainSwap,
    Send,
    Wrap,
    Unwrap,
    /// The output is spent by calls of the caller's.
    Call,
}

impl RequestType {
    pub const ALL: [Self; 7] =
        [Self::Bridge, Self::CrosschainSwap, Self::SameChainSwap, Self::Send, Self::Wrap, Self::Unwrap, Self::Call];

    pub fn of(quote: &Quote) -> Self {
        if !quote.ask.options.calls.is_empty() {
            return Self::Call;
        }
        match quote.figures.operation {
            Operation::Bridge => Self::Bridge,
            Operation::Swap if quote.terms.is_none() => Self::SameChainSwap,
            Operation::Swap => Self::CrosschainSwap,
            Operation::Send => Self::Send,
            Operation::Wrap => Self::Wrap,
            Operation::Unwrap => Self::Unwrap,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bridge => "Bridge",
            Self::CrosschainSwap => "Crosschain Swap",
            Self::SameChainSwap => "Same-chain Swap",
            Self::Send => "Send",
            Self::Wrap => "Wrap",
            Self::Unwrap => "Unwrap",
            Self::Call => "Call",
        }
    }

    /// The kind of this name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

/// A way of transferring that not every request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    GaslessExecution,
    GaslessSwap,
    FastFill,
    GasTopUp,
    FixedRate,
    AppFees,
    DepositAddress,
}

impl Feature {
    pub const ALL: [Self; 7] = [
        Self::GaslessExecution,
        Self::GaslessSwap,
        Self::FastFill,
        Self::GasTopUp,
        Self::FixedRate,
        Self::AppFees,
        Self::DepositAddress,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GaslessExecution => "gasless_execution",
            Self::GaslessSwap => "gasless_swap",
            Self::FastFill => "fast_fill",
            Self::GasTopUp => "gas_top_up",
            Self::FixedRate => "fixed_rate",
            Self::AppFees => "app_fees",
            Self::DepositAddress => "deposit_address",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.as_str() == text)
    }

    /// Its bit among those of a request. Stored: it never changes.
    pub const fn bit(self) -> i64 {
        match self {
            Self::GaslessExecution => 1,
            Self::GaslessSwap => 2,
            Self::FastFill => 4,
            Self::GasTopUp => 8,
            Self::FixedRate => 16,
            Self::AppFees => 32,
            Self::DepositAddress => 64,
        }
    }

    /// The features that a quote asks for.
    pub fn quoted(quote: &Quote) -> Vec<Self> {
        let asked = |feature: &Self| match feature {
            Self::GasTopUp => quote.figures.top_up.is_some(),
            Self::FixedRate => quote.figures.fixed.is_some(),
            Self::AppFees => !quote.ask.options.app_fees.is_empty(),
            // Nothing of the quote tells.
            Self::FastFill => false,
            Self::DepositAddress => quote.ask.options.deposit_address.is_some(),
            Self::GaslessSwap => quote.ask.options.permit.is_some(),
            Self::GaslessExecution => quote.ask.options.relayed_gas.is_some(),
        };
        Self::ALL.into_iter().filter(asked).collect()
    }
}

/// Addresses and currencies are lower-case text: one form for every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub user: String,
    pub recipient: String,
    pub origin: ChainId,
    pub destination: ChainId,
    pub currency_in: String,
    pub currency_out: String,
    pub request_type: RequestType,
    /// The user's own transaction is all there is.
    pub same_chain: bool,
    pub key: Option<ApiKeyId>,
    pub referrer: Option<String>,
    /// The input's worth when it was quoted. Zero where its currency is no longer configured.
    pub amount: UsdMicros,
    /// The app fees' worth when they were quoted.
    pub app_fees: UsdMicros,
    /// The worth of the service's own fee when it was quoted.
    pub service_fees: UsdMicros,
    pub features: Vec<Feature>,
}

impl Facts {
    pub fn of(quote: &Quote, catalog: &Catalog) -> Self {
        let (ask, figures) = (&quote.ask, &quote.figures);
        let decimals = |key: &CurrencyKey| Some(catalog.chain(key.chain)?.currency(&key.address)?.decimals);
        let deposit = quote.terms.as_ref().map_or(&ask.origin, |terms| &terms.deposit);
        let amount = decimals(&ask.origin).and_then(|it| figures.prices.origin.usd_floor(figures.input, it).ok());
        let fees = |amount: Amount| figures.prices.deposit.usd_floor(amount, decimals(deposit)?).ok();
        let app_fees = figures.fees.app_total().ok().and_then(fees);
        Self {
            user: ask.user.text().to_lowercase(),
            recipient: ask.recipient.text().to_lowercase(),
            origin: ask.origin.chain,
            destination: ask.destination.chain,
            currency_in: ask.origin.address.text().to_lowercase(),
            currency_out: ask.destination.address.text().to_lowercase(),
            request_type: RequestType::of(quote),
            same_chain: quote.terms.is_none(),
            key: ask.key,
            referrer: ask.referrer.clone(),
            amount: amount.unwrap_or_default(),
            app_fees: app_fees.unwrap_or_default(),
            service_fees: fees(figures.fees.relay).unwrap_or_default(),
            features: Feature::quoted(quote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_every_bit_is_its_own() {
        for kind in RequestType::ALL {
            assert_eq!(RequestType::parse(&kind.as_str().to_uppercase()), Some(kind));
        }
        let mut bits = 0;
        for feature in Feature::ALL {
            assert_eq!(Feature::parse(feature.as_str()), Some(feature));
            assert_eq!(bits & feature.bit(), 0, "{feature:?}");
            bits |= feature.bit();
        }
    }
}
