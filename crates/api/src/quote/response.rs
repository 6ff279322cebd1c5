//! A quote as the client reads it: steps, fees, details and the order.

use alloy_primitives::U256;
use domain::account::Account;
use domain::catalog::{Catalog, Chain, Currency};
use domain::money::{Amount, OutOfRange, Price, Ratio, Signed, UsdMicros, pow10};
use domain::quote::{Bound, Operation, Quote, Swap};
use domain::sponsorship::Sponsorship;
use serde::{Serialize, Serializer};
use solver::Quoted;
use utoipa::ToSchema;

use crate::quote::sponsor::{self, SponsorshipBody};
use crate::swap_sources::SOURCE;
use crate::wire::{AmountBody, Amounts, Dollars, Impact, Percent, Rendered, Shown, Usd, WrittenAmount};

mod protocol;
mod signature;
mod steps;

use protocol::{Protocol, protocol};
use steps::{StepBody, step_body};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QuoteResponse)]
pub(crate) struct QuoteResponse<'a> {
    steps: Vec<StepBody<'a>>,
    fees: FeesBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee_sponsorship: Option<SponsorshipBody<'a>>,
    details: Details<'a>,
    /// Absent for a same-chain request.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol<'a>>,
}

/// A quote without what makes it a promise.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PriceResponse)]
pub(crate) struct PriceResponse<'a> {
    fees: FeesBody<'a>,
    details: Details<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FeesBody)]
pub(crate) struct FeesBody<'a> {
    /// The gas of the user's own transactions on the origin. Outside every other figure.
    gas: AmountBody<'a>,
    relayer: AmountBody<'a>,
    relayer_gas: AmountBody<'a>,
    relayer_service: AmountBody<'a>,
    app: AmountBody<'a>,
    #[schema(value_type = AmountBody<'a>)]
    subsidized: WrittenAmount<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Details)]
pub(crate) struct Details<'a> {
    operation: &'static str,
    sender: &'a str,
    recipient: &'a str,
    #[schema(value_type = AmountBody<'a>)]
    currency_in: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    currency_out: WrittenAmount<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency_gas_topup: Option<AmountBody<'a>>,
    #[schema(value_type = AmountBody<'a>)]
    refund_currency: WrittenAmount<'a>,
    total_impact: Impact,
    swap_impact: Impact,
    expanded_price_impact: ExpandedImpact,
    /// Output units per input unit.
    rate: String,
    slippage_tolerance: SlippageBody,
    /// Seconds.
    time_estimate: u32,
    /// Smallest units; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "known")]
    #[schema(value_type = Option<String>)]
    user_balance: Option<Amount>,
    is_fixed_rate: bool,
    /// Positive where the fixed rate is worse for the user than the market.
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed_rate_fee: Option<Usd>,
    route: Route<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExpandedImpact {
    swap: Usd,
    execution: Usd,
    relay: Usd,
    app: Usd,
    sponsored: Usd,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SlippageBody {
    total: String,
    origin: Slippage,
    destination: Slippage,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Slippage {
    #[schema(value_type = String)]
    usd: Dollars,
    #[serde(serialize_with = "crate::json::amount")]
    #[schema(value_type = String)]
    value: Amount,
    #[schema(value_type = String)]
    percent: Percent,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Route<'a> {
    origin: RouteSide<'a>,
    destination: RouteSide<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouteSide<'a> {
    #[schema(value_type = AmountBody<'a>)]
    input_currency: WrittenAmount<'a>,
    #[schema(value_type = AmountBody<'a>)]
    output_currency: WrittenAmount<'a>,
    router: &'static str,
    included_swap_sources: &'static [&'static str],
}

/// The four currencies of a quote, and the native ones.
pub(crate) struct Currencies<'a> {
    origin: Shown<'a>,
    deposit: Shown<'a>,
    payout: Shown<'a>,
    destination: Shown<'a>,
    origin_chain: &'a Chain,
    origin_native: Shown<'a>,
    destination_native: Shown<'a>,
}

impl<'a> Currencies<'a> {
    /// None only if a currency of the quote is no longer configured.
    pub(crate) fn of(quote: &Quote, catalog: &'a Catalog, rendered: &'a Rendered) -> Option<Self> {
        let (ask, terms) = (&quote.ask, quote.terms.as_ref());
        let origin_chain = catalog.chain(ask.origin.chain)?;
        let destination_chain = catalog.chain(ask.destination.chain)?;
        let shown = |chain: &'a Chain, address: &Account| rendered.of(chain.currency(address)?);
        let origin = shown(origin_chain, &ask.origin.address)?;
        let destination = shown(destination_chain, &ask.destination.address)?;
        Some(Self {
            origin,
            deposit: terms.map_or(Some(origin), |terms| shown(origin_chain, &terms.deposit.address))?,
            payout: terms.map_or(Some(destination), |terms| shown(destination_chain, &terms.payout.address))?,
            destination,
            origin_chain,
            origin_native: rendered.of(&origin_chain.native)?,
            destination_native: rendered.of(&destination_chain.native)?,
        })
    }
}

/// The figures of a quote in dollars, each at the price it was quoted with. A sum is added up from what is
/// shown, so that a reader who adds gets the same figure to the last digit.
struct Worth {
    input: UsdMicros,
    output: UsdMicros,
    execution: UsdMicros,
    relay: UsdMicros,
    app: UsdMicros,
    sponsored: UsdMicros,
    /// Execution, relay and what rebalancing costs.
    relayer: UsdMicros,
}

impl<'a> QuoteResponse<'a> {
    pub(crate) fn new(
        quoted: &'a Quoted,
        currencies: &Currencies<'a>,
        signature: Option<[u8; 65]>,
    ) -> Result<Self, OutOfRange> {
        let quote = &quoted.quote;
        let figures = &quote.figures;
        let (fees, prices, deposit) = (&figures.fees, &figures.prices, currencies.deposit);
        let usd = |amount: Signed| prices.deposit.usd_signed(amount, deposit.decimals);
        let cost = |amount: Amount, usd: UsdMicros| AmountBody::new(deposit, amount, usd);
        let sponsorship = figures.sponsorship.as_ref();
        let sponsored_usd = |it: &Sponsorship| sponsor::sponsored_usd(it, prices.deposit, deposit.decimals);
        let sponsored = sponsorship.map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
        let app = fees.app_total()?;
        let service = Signed::cost(fees.flat.checked_add(fees.relay)?).checked_add(fees.rebalance)?;
        let gas = fees.fill_gas.checked_add(fees.top_up)?;
        let relayer = service.checked_add(Signed::cost(gas))?;
        let (execution, relay) = (usd(Signed::cost(fees.execution()?))?, usd(Signed::cost(fees.relay))?);
        let dollars = Worth {
            input: prices.origin.usd_floor(figures.input, currencies.origin.decimals)?,
            output: prices.destination.usd_floor(figures.output, currencies.destination.decimals)?,
            execution,
            relay,
            app: usd(Signed::cost(app))?,
            sponsored: sponsorship.map_or(Ok(UsdMicros::default()), sponsored_usd)?,
            relayer: execution.checked_add(relay)?.checked_add(usd(fees.rebalance)?)?,
        };
        let gas_usd = usd(Signed::cost(gas))?;
        let native = currencies.origin_native;
        let origin_gas = prices.origin_native.usd_ceil(figures.origin_gas, native.decimals)?;
        let mut amounts = Amounts::default();
        Ok(Self {
            steps: quoted.steps.iter().map(|step| step_body(step, quoted, currencies)).collect(),
            fees: FeesBody {
                gas: AmountBody::new(native, figures.origin_gas, origin_gas),
                relayer: AmountBody::signed(deposit, relayer, dollars.relayer),
                relayer_gas: cost(gas, gas_usd),
                relayer_service: AmountBody::signed(deposit, service, dollars.relayer.checked_sub(gas_usd)?),
                app: cost(app, dollars.app),
                subsidized: amounts.write(cost(sponsored, dollars.sponsored))?,
            },
            fee_sponsorship: sponsorship
                .map(|it| SponsorshipBody::new(it, deposit, prices.deposit, &mut amounts))
                .transpose()?,
            details: details(quoted, currencies, &dollars, &mut amounts)?,
            protocol: protocol(quoted, currencies, signature),
        })
    }

    pub(crate) fn into_price(self) -> PriceResponse<'a> {
        PriceResponse { fees: self.fees, details: self.details }
    }
}

/// An amount that is left out where it is not known.
fn known<S: Serializer>(amount: &Option<Amount>, serializer: S) -> Result<S::Ok, S::Error> {
    match amount {
        Some(amount) => crate::json::amount(amount, serializer),
        None => serializer.serialize_none(),
    }
}

fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Bridge => "bridge",
        Operation::Swap => "swap",
        Operation::Wrap => "wrap",
        Operation::Unwrap => "unwrap",
        Operation::Send => "send",
    }
}

fn details<'a>(
    quoted: &'a Quoted,
    currencies: &Currencies<'a>,
    dollars: &Worth,
    amounts: &mut Amounts<'a>,
) -> Result<Details<'a>, OutOfRange> {
    let quote = &quoted.quote;
    let (figures, prices) = (&quote.figures, &quote.figures.prices);
    let Currencies { origin, deposit, destination, destination_native, .. } = *currencies;
    let total = dollars.output.checked_sub(dollars.input)?;
    let charged = dollars.execution.checked_add(dollars.relay)?.checked_add(dollars.app)?;
    // The residual, so that the parts always sum to the whole.
    let swap = total.checked_add(charged)?.checked_sub(dollars.sponsored)?;
    let cost = |usd: UsdMicros| UsdMicros::default().checked_sub(usd).map(Usd::from);
    let swap_impact = total.checked_add(dollars.relayer)?.checked_add(dollars.app)?;
    let deposited = prices.deposit.usd_floor(figures.deposit, deposit.decimals)?;
    let top_up = |amount: Amount| -> Result<AmountBody<'a>, OutOfRange> {
        let usd = prices.destination_native.usd_floor(amount, destination_native.decimals)?;
        Ok(AmountBody::new(destination_native, amount, usd))
    };
    let fixed_fee = |fixed: &domain::fixed_rate::Fixed| {
        fixed.fee(figures.output, prices.destination, destination.decimals).map(Usd::from)
    };
    Ok(Details {
        operation: operation(figures.operation),
        sender: quote.ask.user.text(),
        recipient: quote.ask.recipient.text(),
        currency_in: amounts.write(AmountBody::new(origin, figures.input, dollars.input))?,
        currency_out: amounts.write(AmountBody::with_minimum(
            destination,
            figures.output,
            dollars.output,
            figures.minimum,
        ))?,
        currency_gas_topup: figures.top_up.map(top_up).transpose()?,
        refund_currency: amounts.write(AmountBody::new(deposit, figures.deposit, deposited))?,
        total_impact: Impact::new(total, dollars.input),
        swap_impact: Impact::new(swap_impact, dollars.input),
        expanded_price_impact: ExpandedImpact {
            swap: swap.into(),
            execution: cost(dollars.execution)?,
            relay: cost(dollars.relay)?,
            app: cost(dollars.app)?,
            sponsored: dollars.sponsored.into(),
        },
        rate: rate(figures.input, figures.output, &origin, &destination)?,
        slippage_tolerance: slippage(quote, currencies)?,
        time_estimate: figures.time_estimate_secs,
        user_balance: quoted.balance,
        is_fixed_rate: figures.fixed.is_some(),
        fixed_rate_fee: figures.fixed.as_ref().map(fixed_fee).transpose()?,
        route: route(quote, currencies, dollars, deposited, amounts)?,
    })
}

fn route<'a>(
    quote: &Quote,
    currencies: &Currencies<'a>,
    dollars: &Worth,
    deposited: UsdMicros,
    amounts: &mut Amounts<'a>,
) -> Result<Route<'a>, OutOfRange> {
    let (figures, prices) = (&quote.figures, &quote.figures.prices);
    let Currencies { origin, deposit, payout, destination, .. } = *currencies;
    let mut side = |input, output, swap: Option<&Swap>| {
        Ok(RouteSide {
            input_currency: amounts.write(input)?,
            output_currency: amounts.write(output)?,
            router: if swap.is_some() { SOURCE } else { "relay" },
            included_swap_sources: if swap.is_some() { &[SOURCE] } else { &[] },
        })
    };
    let least_deposit = match quote.origin_swap.as_ref().map(|swap| swap.bound) {
        Some(Bound::LeastOutput(least)) if quote.terms.is_some() => least,
        _ => figures.deposit,
    };
    let least_paid = match &quote.destination_swap {
        Some(_) => figures.paid.mul_floor(Ratio::new(figures.minimum.units(), figures.output.units())?)?,
        None => figures.minimum,
    };
    let paid = prices.payout.usd_floor(figures.paid, payout.decimals)?;
    let arrives = AmountBody::with_minimum(destination, figures.output, dollars.output, figures.minimum);
    // On the same chain there is one trade, and it is the origin's.
    let (origin_out, destination_in) = match quote.terms {
        Some(_) => (
            AmountBody::with_minimum(deposit, figures.deposit, deposited, least_deposit),
            AmountBody::with_minimum(payout, figures.paid, paid, least_paid),
        ),
        None => (arrives, arrives),
    };
    Ok(Route {
        origin: side(AmountBody::new(origin, figures.input, dollars.input), origin_out, quote.origin_swap.as_ref())?,
        destination: side(destination_in, arrives, quote.destination_swap.as_ref())?,
    })
}

/// The most that may be lost on either side: two ways to spend one budget, not to be added.
fn slippage(quote: &Quote, currencies: &Currencies<'_>) -> Result<SlippageBody, OutOfRange> {
    let (figures, prices) = (&quote.figures, &quote.figures.prices);
    let side = |at_risk: Amount, of: Amount, price: Price, currency: &Currency| -> Result<Slippage, OutOfRange> {
        let bps = if of.is_zero() {
            0
        } else {
            let bps = at_risk.mul_ceil(Ratio::new(U256::from(10_000u16), of.units())?)?;
            i64::try_from(bps.units()).map_err(|_| OutOfRange)?
        };
        Ok(Slippage {
            usd: Dollars(price.usd_floor(at_risk, currency.decimals)?),
            value: at_risk,
            percent: bps_percent(bps),
        })
    };
    let origin = match &quote.origin_swap {
        Some(Swap { output, bound: Bound::LeastOutput(least), .. }) if quote.terms.is_some() => {
            side(output.checked_sub(*least)?, *output, prices.deposit, &currencies.deposit)?
        }
        Some(Swap { input, bound: Bound::MostInput(most), .. }) => {
            side(most.checked_sub(*input)?, *input, prices.origin, &currencies.origin)?
        }
        Some(_) | None => side(Amount::ZERO, Amount::ZERO, prices.origin, &currencies.origin)?,
    };
    let at_risk = figures.output.checked_sub(figures.minimum)?;
    let destination_bps = if at_risk.is_zero() { 0 } else { figures.slippage_bps };
    Ok(SlippageBody {
        total: figures.slippage_bps.to_string(),
        origin,
        destination: Slippage {
            percent: bps_percent(destination_bps.into()),
            ..side(at_risk, figures.output, prices.destination, &currencies.destination)?
        },
    })
}

fn bps_percent(bps: i64) -> Percent {
    Percent { part: UsdMicros(bps), of: UsdMicros(10_000) }
}

pub(crate) fn rate(
    input: Amount,
    output: Amount,
    origin: &Currency,
    destination: &Currency,
) -> Result<String, OutOfRange> {
    let num = output.units().checked_mul(pow10(origin.decimals)).ok_or(OutOfRange)?;
    let den = input.units().checked_mul(pow10(destination.decimals)).ok_or(OutOfRange)?;
    Ok(Ratio::new(num, den)?.decimal())
}
