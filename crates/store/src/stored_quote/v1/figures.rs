//! The figures of a stored quote.

use domain::fixed_rate::{self, FixedRate};
use domain::money::Amount;
use domain::{fees, quote as rules};
use serde::{Deserialize, Serialize};

use super::super::text::{PriceText, SignedText, Text};
use super::sponsor::Sponsorship;

/// Written as a list, whose order never changes.
#[derive(Debug, Deserialize)]
pub struct Figures {
    operation: OperationName,
    input: Text<Amount>,
    deposit: Text<Amount>,
    exchanged: Text<Amount>,
    paid: Text<Amount>,
    output: Text<Amount>,
    minimum: Text<Amount>,
    fees: Fees,
    #[serde(default)]
    top_up: Option<Text<Amount>>,
    #[serde(default)]
    sponsorship: Option<Sponsorship>,
    #[serde(default)]
    fixed: Option<Fixed>,
    origin_gas: Text<Amount>,
    slippage_bps: u16,
    prices: Prices,
    time_estimate_secs: u32,
}

as_list!(Figures {
    operation,
    input,
    deposit,
    exchanged,
    paid,
    output,
    minimum,
    fees,
    top_up,
    sponsorship,
    fixed,
    origin_gas,
    slippage_bps,
    prices,
    time_estimate_secs,
});

impl From<&rules::Figures> for Figures {
    fn from(figures: &rules::Figures) -> Self {
        let rules::Figures {
            operation,
            input,
            deposit,
            exchanged,
            paid,
            output,
            minimum,
            fees,
            top_up,
            sponsorship,
            fixed,
            origin_gas,
            slippage_bps,
            prices,
            time_estimate_secs,
        } = figures;
        let fixed_rate =
            |fixed_rate::Fixed { rate, market_output }| Fixed { rate: Text(rate), market_output: Text(market_output) };
        Self {
            operation: OperationName(*operation),
            input: Text(*input),
            deposit: Text(*deposit),
            exchanged: Text(*exchanged),
            paid: Text(*paid),
            output: Text(*output),
            minimum: Text(*minimum),
            fees: fees.into(),
            top_up: top_up.map(Text),
            sponsorship: sponsorship.as_ref().map(Into::into),
            fixed: fixed.map(fixed_rate),
            origin_gas: Text(*origin_gas),
            slippage_bps: *slippage_bps,
            prices: (*prices).into(),
            time_estimate_secs: *time_estimate_secs,
        }
    }
}

impl From<Figures> for rules::Figures {
    fn from(figures: Figures) -> Self {
        let fixed = |Fixed { rate, market_output }| fixed_rate::Fixed { rate: rate.0, market_output: market_output.0 };
        Self {
            operation: figures.operation.0,
            input: figures.input.0,
            deposit: figures.deposit.0,
            exchanged: figures.exchanged.0,
            paid: figures.paid.0,
            output: figures.output.0,
            minimum: figures.minimum.0,
            fees: figures.fees.into(),
            top_up: figures.top_up.map(|Text(amount)| amount),
            sponsorship: figures.sponsorship.map(Into::into),
            fixed: figures.fixed.map(fixed),
            origin_gas: figures.origin_gas.0,
            slippage_bps: figures.slippage_bps,
            prices: figures.prices.into(),
            time_estimate_secs: figures.time_estimate_secs,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OperationName(#[serde(with = "Operation")] rules::Operation);

#[derive(Serialize, Deserialize)]
#[serde(remote = "rules::Operation")]
enum Operation {
    Bridge,
    Swap,
    Wrap,
    Unwrap,
    Send,
}

#[derive(Debug, Serialize, Deserialize)]
struct Fixed {
    rate: Text<FixedRate>,
    market_output: Text<Amount>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Fees {
    fill_gas: Text<Amount>,
    #[serde(skip_serializing_if = "Text::<Amount>::is_zero")]
    top_up: Text<Amount>,
    flat: Text<Amount>,
    #[serde(skip_serializing_if = "Text::<Amount>::is_zero")]
    relay: Text<Amount>,
    #[serde(skip_serializing_if = "SignedText::is_zero")]
    rebalance: SignedText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    app: Vec<Text<Amount>>,
}

impl From<&fees::Fees> for Fees {
    fn from(fees::Fees { fill_gas, top_up, flat, relay, rebalance, app }: &fees::Fees) -> Self {
        Self {
            fill_gas: Text(*fill_gas),
            top_up: Text(*top_up),
            flat: Text(*flat),
            relay: Text(*relay),
            rebalance: SignedText(*rebalance),
            app: app.iter().copied().map(Text).collect(),
        }
    }
}

impl From<Fees> for fees::Fees {
    fn from(Fees { fill_gas, top_up, flat, relay, rebalance, app }: Fees) -> Self {
        Self {
            fill_gas: fill_gas.0,
            top_up: top_up.0,
            flat: flat.0,
            relay: relay.0,
            rebalance: rebalance.0,
            app: app.into_iter().map(|Text(fee)| fee).collect(),
        }
    }
}

/// Six prices, written as a list.
#[derive(Debug, Deserialize)]
pub struct Prices {
    origin: PriceText,
    deposit: PriceText,
    origin_native: PriceText,
    payout: PriceText,
    destination: PriceText,
    destination_native: PriceText,
}

as_list!(Prices { origin, deposit, origin_native, payout, destination, destination_native });

impl From<rules::Prices> for Prices {
    fn from(prices: rules::Prices) -> Self {
        let rules::Prices { origin, deposit, origin_native, payout, destination, destination_native } = prices;
        Self {
            origin: PriceText(origin),
            deposit: PriceText(deposit),
            origin_native: PriceText(origin_native),
            payout: PriceText(payout),
            destination: PriceText(destination),
            destination_native: PriceText(destination_native),
        }
    }
}

impl From<Prices> for rules::Prices {
    fn from(prices: Prices) -> Self {
        Self {
            origin: prices.origin.0,
            deposit: prices.deposit.0,
            origin_native: prices.origin_native.0,
            payout: prices.payout.0,
            destination: prices.destination.0,
            destination_native: prices.destination_native.0,
        }
    }
}
