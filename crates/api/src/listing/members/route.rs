//! The route of a request's money: as it was quoted, and as it turned out.

use domain::money::{Amount, OutOfRange, Ratio};
use domain::quote::{Bound, Swap};
use domain::request::State;
use serde::Serialize;
use store::listing::Listed;
use store::payments::Purpose;
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::swap_sources::SOURCE;
use crate::wire::AmountBody;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RouteEndsV3)]
pub(crate) struct Ends<'a> {
    #[schema(required = true)]
    pub origin: Option<Side<'a>>,
    #[schema(required = true)]
    pub destination: Option<Side<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteOutcomeV3)]
pub(crate) struct ActualEnds<'a> {
    #[schema(required = true)]
    pub origin: Option<Side<'a>>,
    #[schema(required = true)]
    pub destination: Option<ActualSide<'a>>,
    /// Output units per input unit.
    pub rate: String,
    /// The user's payment, and the amount that arrived.
    #[serde(skip)]
    pub input: Amount,
    #[serde(skip)]
    pub output: Amount,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteSideV3)]
pub(crate) struct Side<'a> {
    #[schema(required = true)]
    pub input_currency: Option<AmountBody<'a>>,
    #[schema(required = true)]
    pub output_currency: Option<AmountBody<'a>>,
    pub router: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteDestinationV3)]
pub(crate) struct ActualSide<'a> {
    #[serde(flatten)]
    pub side: Side<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency_gas_topup: Option<AmountBody<'a>>,
}

const fn router(swap: Option<&Swap>) -> &'static str {
    if swap.is_some() { SOURCE } else { "relay" }
}

pub(crate) fn sources(swap: Option<&Swap>) -> Vec<&'static str> {
    swap.map(|_| SOURCE).into_iter().collect()
}

pub(crate) fn quoted<'a>(listed: &'a Listed, figures: &Figures<'a>) -> Result<Ends<'a>, OutOfRange> {
    let quote = &listed.request.quote;
    let amounts = &quote.figures;
    let least_deposit = match quote.origin_swap.as_ref().map(|swap| swap.bound) {
        Some(Bound::LeastOutput(least)) if quote.terms.is_some() => least,
        _ => amounts.deposit,
    };
    let least_paid = match &quote.destination_swap {
        Some(_) => amounts.paid.mul_floor(Ratio::new(amounts.minimum.units(), amounts.output.units())?)?,
        None => amounts.minimum,
    };
    let input = figures.origin.amount(amounts.input)?;
    let arrives = figures.destination.at_least(amounts.output, amounts.minimum)?;
    let side = |input, output, swap| Side { input_currency: Some(input), output_currency: Some(output), router: swap };
    // On the same chain there is one trade, and it is the origin's.
    if quote.terms.is_none() {
        return Ok(Ends { origin: Some(side(input, arrives, router(quote.origin_swap.as_ref()))), destination: None });
    }
    let deposit = figures.deposit.at_least(amounts.deposit, least_deposit)?;
    let paid = figures.payout.at_least(amounts.paid, least_paid)?;
    Ok(Ends {
        origin: Some(side(input, deposit, router(quote.origin_swap.as_ref()))),
        destination: Some(side(paid, arrives, router(quote.destination_swap.as_ref()))),
    })
}

/// Where nothing has happened yet, the actual way mirrors the quoted one.
pub(crate) fn actual<'a>(
    listed: &'a Listed,
    figures: &Figures<'a>,
    quoted: &Ends<'a>,
) -> Result<ActualEnds<'a>, OutOfRange> {
    let request = &listed.request;
    let (quote, amounts) = (&request.quote, &request.quote.figures);
    let mut origin = quoted.origin;
    let (mut input, mut output) = (amounts.input, amounts.output);
    if let (Some(side), Some(deposit)) = (&mut origin, &listed.deposit) {
        let deposited = figures.deposit.amount(deposit.amount)?;
        // Without a swap, the deposit is what the user paid; a swap's input is what was quoted.
        if quote.origin_swap.is_none() {
            side.input_currency = Some(deposited);
            input = deposit.amount;
        }
        let tried = listed.payments.iter().any(|payment| payment.purpose == Purpose::Fill);
        side.output_currency = tried.then_some(deposited);
    }
    let mut destination = quoted.destination;
    let fill = listed.payments.iter().find(|payment| payment.purpose == Purpose::Fill);
    if let (Some(side), Some(fill)) = (&mut destination, fill) {
        side.input_currency = Some(figures.payout.amount(fill.amount)?);
        if quote.destination_swap.is_none() {
            side.output_currency = Some(figures.destination.amount(fill.amount)?);
            output = fill.amount;
        }
    }
    let filled = request.state == State::Success;
    let top_up = amounts.top_up.filter(|_| filled).map(|amount| figures.destination_native.amount(amount));
    let currency_gas_topup = top_up.transpose()?;
    Ok(ActualEnds {
        origin,
        destination: destination.map(|side| ActualSide { side, currency_gas_topup }),
        rate: rate(input, output, figures)?,
        input,
        output,
    })
}

pub(crate) fn rate(input: Amount, output: Amount, figures: &Figures<'_>) -> Result<String, OutOfRange> {
    // A relayed call exchanges nothing.
    if input.is_zero() {
        return Ok("0".to_owned());
    }
    crate::quote::rate(input, output, &figures.origin.currency, &figures.destination.currency)
}

/// One unit of the input, and its worth of the output, by the prices of the quote. None where one of them has none.
pub(crate) fn oracle(figures: &Figures<'_>) -> Result<Option<(Amount, Amount)>, OutOfRange> {
    let unit = Amount::new(domain::money::pow10(figures.origin.currency.decimals));
    let worth = figures.origin.usd(unit)?;
    let output = figures.destination.price.amount_floor(worth, figures.destination.currency.decimals);
    Ok(output.ok().map(|output| (unit, output)))
}

/// The money that went back, or is about to.
pub(crate) fn refunded<'a>(listed: &Listed, figures: &Figures<'a>) -> Result<Option<AmountBody<'a>>, OutOfRange> {
    if !matches!(listed.request.state, State::Refunding | State::Refunded) {
        return Ok(None);
    }
    let back = listed.payments.iter().find(|payment| match payment.purpose {
        Purpose::Refund | Purpose::Return | Purpose::Payout => true,
        Purpose::Fill | Purpose::Excess | Purpose::Refill | Purpose::Claim | Purpose::Sweep | Purpose::Relay => false,
    });
    let back = back.map(|payment| (payment.chain, payment.currency, payment.amount));
    let deposit = listed.deposit.map(|deposit| (deposit.chain, deposit.currency, deposit.amount));
    let Some((chain, currency, amount)) = back.or(deposit) else { return Ok(None) };
    figures.at(chain, currency).map(|priced| priced.amount(amount)).transpose()
}
