//! A quote as the client reads it: steps, fees, details and the order.

use alloy_primitives::hex;
use domain::catalog::{Catalog, Currency};
use domain::money::{Amount, OutOfRange, Ratio, UsdMicros, pow10};
use domain::quote::Operation;
use serde::Serialize;
use solver::{Quoted, Step, StepKind};
use utoipa::ToSchema;

use crate::order_data::OrderData;
use crate::wire::{AmountBody, Impact, Usd};

#[derive(Debug, Serialize, ToSchema)]
pub struct QuoteResponse {
    steps: Vec<StepBody>,
    fees: FeesBody,
    details: Details,
    protocol: Protocol,
}

/// A quote without what makes it a promise.
#[derive(Debug, Serialize, ToSchema)]
pub struct PriceResponse {
    fees: FeesBody,
    details: Details,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepBody {
    id: &'static str,
    action: &'static str,
    description: String,
    kind: &'static str,
    items: Vec<Item>,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit_address: Option<&'static str>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Item {
    status: &'static str,
    data: TransactionData,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransactionData {
    from: String,
    to: String,
    data: String,
    value: String,
    chain_id: u64,
    max_fee_per_gas: String,
    max_priority_fee_per_gas: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Check {
    endpoint: String,
    method: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeesBody {
    /// What the user's own transactions cost on the origin. Outside every other figure.
    gas: AmountBody,
    relayer: AmountBody,
    relayer_gas: AmountBody,
    relayer_service: AmountBody,
    app: AmountBody,
    subsidized: AmountBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    operation: &'static str,
    sender: String,
    recipient: String,
    currency_in: AmountBody,
    currency_out: AmountBody,
    refund_currency: AmountBody,
    total_impact: Impact,
    swap_impact: Impact,
    expanded_price_impact: ExpandedImpact,
    /// Output units per input unit.
    rate: String,
    slippage_tolerance: SlippageBody,
    /// Seconds.
    time_estimate: u32,
    user_balance: &'static str,
    is_fixed_rate: bool,
    route: Route,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ExpandedImpact {
    swap: Usd,
    execution: Usd,
    relay: Usd,
    app: Usd,
    sponsored: Usd,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SlippageBody {
    total: String,
    origin: Slippage,
    destination: Slippage,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Slippage {
    usd: String,
    value: String,
    percent: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Route {
    origin: RouteSide,
    destination: RouteSide,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteSide {
    input_currency: AmountBody,
    output_currency: AmountBody,
    router: &'static str,
    included_swap_sources: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Protocol {
    v2: ProtocolV2,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolV2 {
    order_id: String,
    hub_type: &'static str,
    order_data: OrderData,
    payment_details: PaymentDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_signature: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentDetails {
    chain_id: String,
    depository: String,
    currency: String,
    amount: String,
}

/// The figures of a quote in dollars, each at the price it was quoted with.
struct Dollars {
    input: UsdMicros,
    output: UsdMicros,
    execution: UsdMicros,
    relay: UsdMicros,
    relayer: UsdMicros,
}

impl QuoteResponse {
    /// None only if a currency of the quote is no longer configured or a figure does not fit.
    pub fn new(quoted: &Quoted, catalog: &Catalog, signature: Option<[u8; 65]>) -> Option<Self> {
        let quote = &quoted.quote;
        let (ask, figures) = (&quote.ask, &quote.figures);
        let chain = catalog.chain(ask.origin.chain)?;
        let origin = chain.currency(&ask.origin.address)?;
        let destination = catalog.chain(ask.destination.chain)?.currency(&ask.destination.address)?;
        let fees = &figures.fees;
        let usd = |amount: Amount| figures.origin_price.usd_floor(amount, origin.decimals);
        let execution = fees.fill_gas.checked_add(fees.flat).ok()?;
        let dollars = Dollars {
            input: usd(figures.input).ok()?,
            output: figures.destination_price.usd_floor(figures.output, destination.decimals).ok()?,
            execution: usd(execution).ok()?,
            relay: usd(fees.relay).ok()?,
            relayer: usd(fees.total().ok()?).ok()?,
        };
        let of_origin = |amount: Amount| Some(AmountBody::new(origin, amount, usd(amount).ok()?));
        let gas_usd = figures.origin_native_price.usd_ceil(figures.origin_gas, chain.native.decimals).ok()?;
        let order = quote.order();
        Some(Self {
            steps: steps(quoted, origin),
            fees: FeesBody {
                gas: AmountBody::new(&chain.native, figures.origin_gas, gas_usd),
                relayer: of_origin(fees.total().ok()?)?,
                relayer_gas: of_origin(fees.fill_gas)?,
                relayer_service: of_origin(fees.flat.checked_add(fees.relay).ok()?)?,
                app: of_origin(Amount::ZERO)?,
                subsidized: of_origin(Amount::ZERO)?,
            },
            details: details(quoted, origin, destination, &dollars).ok()?,
            protocol: Protocol {
                v2: ProtocolV2 {
                    order_id: quoted.order_id.to_string(),
                    hub_type: "onchain",
                    order_data: OrderData::from(&order),
                    payment_details: PaymentDetails {
                        chain_id: chain.name.clone(),
                        depository: format!("0x{}", hex::encode(chain.depository)),
                        currency: origin.address.to_string(),
                        amount: figures.input.to_string(),
                    },
                    order_signature: signature.map(|bytes| format!("0x{}", hex::encode(bytes))),
                },
            },
        })
    }
}

impl QuoteResponse {
    pub fn into_price(self) -> PriceResponse {
        PriceResponse { fees: self.fees, details: self.details }
    }
}

fn details(
    quoted: &Quoted,
    origin: &Currency,
    destination: &Currency,
    dollars: &Dollars,
) -> Result<Details, OutOfRange> {
    let quote = &quoted.quote;
    let figures = &quote.figures;
    let total = dollars.output.checked_sub(dollars.input)?;
    // The residual, so that the parts always sum to the whole.
    let swap = total.checked_add(dollars.execution)?.checked_add(dollars.relay)?;
    let cost = |usd: UsdMicros| UsdMicros::default().checked_sub(usd).map(Usd::from);
    let currency_in = AmountBody::new(origin, figures.input, dollars.input);
    let currency_out = AmountBody::with_minimum(destination, figures.output, dollars.output, figures.minimum);
    let side = |input: &AmountBody, output: &AmountBody| RouteSide {
        input_currency: input.clone(),
        output_currency: output.clone(),
        router: "relay",
        included_swap_sources: Vec::new(),
    };
    let at_risk = figures.output.checked_sub(figures.minimum)?;
    let at_risk_usd = figures.destination_price.usd_floor(at_risk, destination.decimals)?;
    Ok(Details {
        operation: match figures.operation {
            Operation::Bridge => "bridge",
            Operation::Swap => "swap",
        },
        sender: quote.ask.user.to_string(),
        recipient: quote.ask.recipient.to_string(),
        refund_currency: currency_in.clone(),
        total_impact: Impact::new(total, dollars.input),
        swap_impact: Impact::new(total.checked_add(dollars.relayer)?, dollars.input),
        expanded_price_impact: ExpandedImpact {
            swap: swap.into(),
            execution: cost(dollars.execution)?,
            relay: cost(dollars.relay)?,
            app: UsdMicros::default().into(),
            sponsored: UsdMicros::default().into(),
        },
        rate: rate(figures.input, figures.output, origin, destination)?,
        slippage_tolerance: SlippageBody {
            total: figures.slippage_bps.to_string(),
            origin: Slippage {
                usd: UsdMicros::default().to_string(),
                value: "0".to_owned(),
                percent: "0.00".to_owned(),
            },
            destination: Slippage {
                usd: at_risk_usd.to_string(),
                value: at_risk.to_string(),
                percent: UsdMicros(figures.slippage_bps.into()).percent_of(UsdMicros(10_000)),
            },
        },
        time_estimate: figures.time_estimate_secs,
        user_balance: "0",
        is_fixed_rate: false,
        route: Route { origin: side(&currency_in, &currency_in), destination: side(&currency_out, &currency_out) },
        currency_in,
        currency_out,
    })
}

fn rate(input: Amount, output: Amount, origin: &Currency, destination: &Currency) -> Result<String, OutOfRange> {
    let num = output.units().checked_mul(pow10(origin.decimals)).ok_or(OutOfRange)?;
    let den = input.units().checked_mul(pow10(destination.decimals)).ok_or(OutOfRange)?;
    Ok(Ratio::new(num, den)?.decimal())
}

fn steps(quoted: &Quoted, origin: &Currency) -> Vec<StepBody> {
    quoted.steps.iter().map(|step| step_body(step, quoted, origin)).collect()
}

fn step_body(step: &Step, quoted: &Quoted, origin: &Currency) -> StepBody {
    let id = quoted.quote.id;
    let data = TransactionData {
        from: quoted.quote.ask.user.to_string(),
        to: format!("0x{}", hex::encode(step.to)),
        data: format!("0x{}", hex::encode(&step.data)),
        value: step.value.to_string(),
        chain_id: origin.chain.0,
        max_fee_per_gas: step.max_fee.to_string(),
        max_priority_fee_per_gas: step.tip.to_string(),
    };
    let (name, action, description, check, deposit_address) = match step.kind {
        StepKind::Approve => {
            let description = format!("Allow the depository to take the {} you send", origin.symbol);
            ("approve", "Confirm transaction in your wallet", description, None, None)
        }
        StepKind::Deposit => {
            let amount = quoted.quote.figures.input.formatted(origin.decimals);
            let description = format!("Deposit {amount} {} for the transfer", origin.symbol);
            let check = Check { endpoint: format!("/intents/status/v3?requestId={id}"), method: "GET" };
            ("deposit", "Confirm transaction in your wallet", description, Some(check), Some(""))
        }
    };
    StepBody {
        id: name,
        action,
        description,
        kind: "transaction",
        items: vec![Item { status: "incomplete", data, check }],
        request_id: id.to_string(),
        deposit_address,
    }
}
