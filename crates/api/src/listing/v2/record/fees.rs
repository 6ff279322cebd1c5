//! The fees of a request, as v2 shows them.

use domain::money::{Amount, OutOfRange, Signed, UsdMicros};
use domain::outcome::Outcome;
use domain::quote::Quote;
use domain::request::State;
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use super::Reading;
use crate::listing::figures::{Figures, Priced};
use crate::listing::members::fees::{self, FeeParts};
use crate::wire::{Dollars, Usd};

/// In smallest units of the fee currency.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeesV2)]
pub(crate) struct FeesV2 {
    /// Gas of the fill, and native currency delivered beside it.
    gas: String,
    fixed: String,
    /// By the class of the currencies and the inventory; negative where the transfer is welcome.
    price: String,
    /// Zero: there is no gateway.
    gateway: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeesUsdV2)]
pub(crate) struct FeesUsdV2 {
    #[schema(value_type = String)]
    gas: Dollars,
    #[schema(value_type = String)]
    fixed: Dollars,
    #[schema(value_type = String)]
    price: Dollars,
    #[schema(value_type = String)]
    gateway: Dollars,
}

pub(super) fn quoted(quote: &Quote, figures: &Figures<'_>) -> Result<(FeesV2, FeesUsdV2), OutOfRange> {
    let fees = &quote.figures.fees;
    let gas = Signed::cost(fees.fill_gas.checked_add(fees.top_up)?);
    let (fixed, price) = (Signed::cost(fees.flat), Signed::cost(fees.relay).checked_add(fees.rebalance)?);
    let (text, usd) = (|fee: Signed| fee.digits().to_string(), |fee| figures.deposit.usd_signed(fee).map(Dollars));
    Ok((
        FeesV2 { gas: text(gas), fixed: text(fixed), price: text(price), gateway: text(Signed::ZERO) },
        FeesUsdV2 { gas: usd(gas)?, fixed: usd(fixed)?, price: usd(price)?, gateway: Dollars(UsdMicros::default()) },
    ))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AppFeeV2)]
pub(crate) struct AppFeeV2 {
    recipient: String,
    bps: String,
    amount: String,
    /// When it was charged.
    #[schema(value_type = String)]
    amount_usd: Dollars,
    /// Now.
    #[schema(value_type = String)]
    amount_usd_current: Dollars,
}

/// A fee for an app: who gets it, its share of the deposit and its size.
type Share = (alloy_primitives::Address, u16, Amount);

fn bodies(
    shares: impl Iterator<Item = Share>,
    currency: Priced<'_>,
    reading: Reading<'_>,
) -> Result<Vec<AppFeeV2>, OutOfRange> {
    let body = |(recipient, bps, amount): Share| {
        Ok(AppFeeV2 {
            recipient: format!("{recipient:#x}"),
            bps: bps.to_string(),
            amount: amount.to_string(),
            amount_usd: Dollars(currency.usd(amount)?),
            amount_usd_current: Dollars(reading.usd_now(currency, amount)?),
        })
    };
    shares.map(body).collect()
}

pub(super) fn app_fees(
    listed: &Listed,
    figures: &Figures<'_>,
    reading: Reading<'_>,
) -> Result<Vec<AppFeeV2>, OutOfRange> {
    let quote = &listed.request.quote;
    let quoted = quote.ask.options.app_fees.iter().zip(&quote.figures.fees.app);
    bodies(quoted.map(|(asked, amount)| (asked.recipient, asked.bps, *amount)), figures.deposit, reading)
}

/// The outcome of a fill that was made.
pub(super) fn outcome(listed: &Listed) -> Option<&Outcome> {
    listed.outcome.as_ref().filter(|_| listed.request.state == State::Success)
}

pub(super) fn paid_app_fees(
    listed: &Listed,
    figures: &Figures<'_>,
    reading: Reading<'_>,
) -> Result<Vec<AppFeeV2>, OutOfRange> {
    let Some(outcome) = outcome(listed) else { return Ok(Vec::new()) };
    let paid = listed.request.quote.ask.options.app_fees.iter().zip(&outcome.app_fees);
    let currency = Priced { price: outcome.price, ..figures.deposit };
    bodies(paid.map(|(asked, paid)| (paid.recipient, asked.bps, paid.amount)), currency, reading)
}

/// The parts of the price in dollars, with the sign of what they mean for the user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PriceImpactsV2)]
pub(crate) struct PriceImpacts {
    quoted: PriceImpact,
    actual: PriceImpact,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PriceImpactV2)]
pub(crate) struct PriceImpact {
    swap: Usd,
    execution: Usd,
    relay: Usd,
    app: Usd,
    sponsored: Usd,
}

impl From<FeeParts> for PriceImpact {
    fn from(parts: FeeParts) -> Self {
        Self {
            swap: Usd { usd: parts.swap.usd },
            execution: Usd { usd: parts.execution.usd },
            relay: Usd { usd: parts.platform.usd },
            app: Usd { usd: parts.app.usd },
            sponsored: Usd { usd: parts.sponsored.usd },
        }
    }
}

impl PriceImpacts {
    pub(super) fn new(listed: &Listed, figures: &Figures<'_>) -> Result<Self, OutOfRange> {
        let [quoted, actual] = fees::both(listed, figures)?.map(PriceImpact::from);
        Ok(Self { quoted, actual })
    }
}
