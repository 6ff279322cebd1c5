//! The amounts and the route of a request, as v2 shows them.

use domain::catalog::Currency;
use domain::money::OutOfRange;
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use super::Reading;
use crate::listing::figures::{Figures, Priced};
use crate::listing::members::route::{self, Side, oracle, rate, sources};
use crate::wire::{AmountBody, Dollars, Members, iso};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestMetadataV2)]
pub(crate) struct MetadataV2<'a> {
    sender: &'a str,
    recipient: &'a str,
    /// The user's payment: as quoted, until the deposit is known.
    currency_in: AmountNow<'a>,
    /// The amount that arrives: as quoted, until the fill is decided.
    currency_out: AmountNow<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency_gas_topup: Option<AmountBody<'a>>,
    /// Output units per input unit.
    rate: String,
    route: RouteV2<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote_oracle_price: Option<OraclePriceV2<'a>>,
}

/// An amount with its worth at the time of the request, and now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AmountNowV2)]
pub(crate) struct AmountNow<'a> {
    #[serde(flatten)]
    #[schema(value_type = AmountBody<'a>)]
    amount: Members<'a>,
    #[schema(value_type = String)]
    amount_usd_current: Dollars,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RouteV2)]
pub(crate) struct RouteV2<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<SideV2<'a>>,
    /// Absent for a same-chain request.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<SideV2<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteSideV2)]
pub(crate) struct SideV2<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_currency: Option<AmountBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_currency: Option<AmountBody<'a>>,
    router: &'static str,
    included_swap_sources: Vec<&'static str>,
}

/// The prices that the quote went by.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OraclePriceV2)]
pub(crate) struct OraclePriceV2<'a> {
    /// Output units per input unit.
    rate: String,
    /// One unit of the input, in its smallest.
    input_amount: String,
    output_amount: String,
    observed_at: String,
    from: PricedCurrency<'a>,
    to: PricedCurrency<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PricedCurrencyV2)]
pub(crate) struct PricedCurrency<'a> {
    chain_id: u64,
    address: &'a str,
    currency_id: &'a str,
    decimals: u8,
}

impl<'a> From<&'a Currency> for PricedCurrency<'a> {
    fn from(currency: &'a Currency) -> Self {
        Self {
            chain_id: currency.chain.0,
            address: currency.address.text(),
            currency_id: &currency.id,
            decimals: currency.decimals,
        }
    }
}

impl<'a> MetadataV2<'a> {
    pub(super) fn new(listed: &'a Listed, figures: &Figures<'a>, reading: Reading<'a>) -> Result<Self, OutOfRange> {
        let quote = &listed.request.quote;
        let actual = route::actual(listed, figures, &route::quoted(listed, figures)?)?;
        let (input, output) = (actual.input, actual.output);
        let arrives = match output == quote.figures.output {
            true => figures.destination.at_least(output, quote.figures.minimum)?,
            false => figures.destination.amount(output)?,
        };
        let now = |priced: Priced<'a>, amount, body| {
            let usd = reading.usd_now(priced, amount)?;
            Ok::<_, OutOfRange>(AmountNow { amount: Members(body), amount_usd_current: Dollars(usd) })
        };
        let side = |side: Side<'a>, swap| SideV2 {
            input_currency: side.input_currency,
            output_currency: side.output_currency,
            router: side.router,
            included_swap_sources: sources(swap),
        };
        let (destination, top_up) =
            actual.destination.map_or((None, None), |it| (Some(it.side), it.currency_gas_topup));
        Ok(Self {
            sender: quote.ask.user.text(),
            recipient: quote.ask.recipient.text(),
            currency_in: now(figures.origin, input, figures.origin.amount(input)?)?,
            currency_out: now(figures.destination, output, arrives)?,
            currency_gas_topup: top_up,
            rate: actual.rate,
            route: RouteV2 {
                origin: actual.origin.map(|it| side(it, quote.origin_swap.as_ref())),
                destination: destination.map(|it| side(it, quote.destination_swap.as_ref())),
            },
            quote_oracle_price: OraclePriceV2::new(listed, figures)?,
        })
    }
}

impl<'a> OraclePriceV2<'a> {
    /// None where one of the currencies has no price.
    fn new(listed: &Listed, figures: &Figures<'a>) -> Result<Option<Self>, OutOfRange> {
        let Some((input, output)) = oracle(figures)? else { return Ok(None) };
        Ok(Some(Self {
            rate: rate(input, output, figures)?,
            input_amount: input.to_string(),
            output_amount: output.to_string(),
            observed_at: iso(listed.request.quote.created_at),
            from: figures.origin.currency.currency().into(),
            to: figures.destination.currency.currency().into(),
        }))
    }
}
