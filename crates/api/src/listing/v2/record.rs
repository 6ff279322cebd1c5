//! A request's record in v2.

mod fees;
mod metadata;
mod sponsor;
mod txs;

use domain::api_key::ApiKey;
use domain::catalog::Currency;
use domain::money::{Amount, OutOfRange, Price, UsdMicros};
use domain::request::State;
use serde::Serialize;
use serde_json::Value;
use store::deposit_addresses::Shown;
use store::listing::Listed;
use utoipa::ToSchema;

use self::fees::{AppFeeV2, FeesUsdV2, FeesV2, PriceImpacts};
use self::metadata::MetadataV2;
use self::sponsor::SubsidizedFee;
use self::txs::TxV2;
use crate::listing::figures::{Figures, Priced, View};
use crate::listing::filter::same_integrator;
use crate::listing::members::platform::PlatformFee;
use crate::listing::members::protocol::RequestProtocol;
use crate::listing::members::route::refunded;
use crate::listing::members::txs::{CallData, failed};
use crate::order_data::OrderData;
use crate::quote::sponsor::SponsorshipBody;
use crate::wire::{AmountBody, CurrencyBody, iso};

/// Who reads, what was asked for, and what things are worth at that moment.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub view: View<'a>,
    /// The price of a currency now. None where it is not known: then it is worth what it was quoted at.
    pub price_now: &'a dyn Fn(&Currency) -> Option<Price>,
    pub caller: Option<&'a ApiKey>,
    /// The caller asked for members that only a request's own integrator sees.
    pub authenticated: bool,
    pub order_data: bool,
}

impl Reading<'_> {
    fn usd_now(&self, priced: Priced<'_>, amount: Amount) -> Result<UsdMicros, OutOfRange> {
        let price = (self.price_now)(priced.currency.currency()).unwrap_or(priced.price);
        Priced { price, ..priced }.usd(amount)
    }

    fn owns(&self, listed: &Listed) -> bool {
        let Some(caller) = self.caller else { return false };
        // A quote that nobody has paid for is known by the id of its key.
        listed.request.quote.ask.key == Some(caller.id)
            || listed.key.as_ref().is_some_and(|key| same_integrator(caller, key))
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestV2)]
pub(crate) struct RecordV2<'a> {
    id: String,
    /// `waiting`, `depositing`, `pending`, `success`, `failure` or `refund`.
    status: &'static str,
    user: &'a str,
    recipient: &'a str,
    /// Null where the request has none.
    #[schema(required = true)]
    deposit_address: Option<DepositAddressV2>,
    /// As the quote was asked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    referrer: Option<&'a str>,
    /// The order, where `includeOrderData` asks for it. Its output is shown once the request has ended, and before that to
    /// its own integrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    order_data: Option<Value>,
    /// Null for a same-chain request.
    #[schema(required = true)]
    protocol: Option<RequestProtocol<'a>>,
    data: DataV2<'a>,
    /// ISO 8601 in UTC.
    created_at: String,
    updated_at: String,
}

/// The address that a request was paid at, or is to be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DepositAddressV2)]
pub(crate) struct DepositAddressV2 {
    address: String,
    /// `strict` or `open`.
    deposit_address_type: &'static str,
    /// The sender of the transfer into the address, where it is known.
    #[schema(required = true)]
    depositor: Option<String>,
    /// The transfer into the address. The sweep behind it is in `inTxs`.
    #[schema(required = true)]
    deposit_tx_hash: Option<String>,
}

impl From<&Shown> for DepositAddressV2 {
    fn from(shown: &Shown) -> Self {
        Self {
            address: format!("{:#x}", shown.address),
            deposit_address_type: shown.kind.as_str(),
            depositor: shown.depositor.map(|depositor| format!("{depositor:#x}")),
            deposit_tx_hash: shown.deposit_tx.map(|tx| tx.to_string()),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestDataV2)]
pub(crate) struct DataV2<'a> {
    /// Basis points.
    slippage_tolerance: String,
    /// `N/A` where nothing failed.
    fail_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_fail_reason: Option<&'static str>,
    /// The request that the money at a deposit address was made into.
    #[schema(required = true)]
    superseded_by_request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_tx_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_tx_block_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_call_data: Option<CallData>,
    /// A sponsor pays some of the fees.
    subsidized_request: bool,
    fees: FeesV2,
    fees_usd: FeesUsdV2,
    in_txs: Vec<TxV2>,
    out_txs: Vec<TxV2>,
    /// The currency that reached the depository.
    currency: &'a str,
    currency_object: CurrencyBody<'a>,
    fee_currency: &'a str,
    fee_currency_object: CurrencyBody<'a>,
    app_fee_currency_object: CurrencyBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_currency_data: Option<AmountBody<'a>>,
    app_fees: Vec<AppFeeV2>,
    /// Empty until they have been collected.
    paid_app_fees: Vec<AppFeeV2>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsidized_fee: Option<SubsidizedFee<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee_sponsorship: Option<SponsorshipBody<'a>>,
    expanded_price_impact: PriceImpacts,
    /// For the request's own integrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_fee: Option<PlatformFee<'a>>,
    metadata: MetadataV2<'a>,
    /// The quoted output, in smallest units.
    price: String,
    uses_external_liquidity: bool,
    /// Seconds.
    time_estimate: u32,
    triggered_by_fast_fill: bool,
}

impl<'a> RecordV2<'a> {
    /// None only if a currency of the request is no longer configured.
    pub(crate) fn new(listed: &'a Listed, reading: Reading<'a>) -> Option<Self> {
        let figures = Figures::of(&listed.request.quote, reading.view)?;
        Self::render(listed, &figures, reading).ok()
    }

    fn render(listed: &'a Listed, figures: &Figures<'a>, reading: Reading<'a>) -> Result<Self, OutOfRange> {
        let request = &listed.request;
        let ask = &request.quote.ask;
        Ok(Self {
            id: request.id.to_string(),
            status: status(request.state),
            user: ask.user.text(),
            recipient: ask.recipient.text(),
            deposit_address: listed.deposit_address.as_ref().map(DepositAddressV2::from),
            referrer: ask.referrer.as_deref(),
            order_data: reading.order_data.then(|| order_data(listed, reading)).flatten(),
            protocol: RequestProtocol::new(listed, figures, reading.view.catalog),
            data: data(listed, figures, reading)?,
            created_at: iso(listed.created_at),
            updated_at: iso(request.updated_at),
        })
    }
}

/// A fill that is on its way was no state of its own then.
fn status(state: State) -> &'static str {
    match state {
        State::Submitted => State::Pending.status(),
        other => other.status(),
    }
}

/// None for what needs no order, and for a deposit that named another's. The output tells what a fill will pay: only those
/// who asked for it may know while it is under way.
fn order_data(listed: &Listed, reading: Reading<'_>) -> Option<Value> {
    let request = &listed.request;
    let order = request.quote.order().filter(|_| request.parent.is_none())?;
    let mut data = serde_json::to_value(OrderData::from(&order)).ok()?;
    let ended = matches!(request.state, State::Success | State::Refunded | State::Failed);
    if !ended && !reading.owns(listed) {
        data.as_object_mut()?.remove("output");
    }
    Some(data)
}

fn data<'a>(listed: &'a Listed, figures: &Figures<'a>, reading: Reading<'a>) -> Result<DataV2<'a>, OutOfRange> {
    let request = &listed.request;
    let quote = &request.quote;
    let ended_badly = matches!(request.state, State::Refunded | State::Failed);
    let reason = request.fail_reason.map_or("UNKNOWN", |reason| reason.as_str());
    let failed = failed(listed);
    let (in_txs, out_txs) = txs::both(listed);
    let fee_currency = figures.deposit.currency.currency();
    let deposited = listed.deposit.and_then(|deposit| figures.at(deposit.chain, deposit.currency));
    let currency = deposited.unwrap_or(figures.deposit).currency.currency();
    let (fees, fees_usd) = fees::quoted(quote, figures)?;
    let sponsored = sponsor::sponsored(listed, figures, reading)?;
    let own = reading.authenticated && reading.owns(listed);
    let superseded_by = listed.deposit_address.as_ref().and_then(|it| it.superseded_by);
    Ok(DataV2 {
        slippage_tolerance: quote.figures.slippage_bps.to_string(),
        fail_reason: if ended_badly { reason } else { "N/A" },
        refund_fail_reason: request.refund_fail_reason.map(|reason| reason.as_str()),
        superseded_by_request_id: superseded_by.map(|id| id.to_string()),
        failed_tx_hash: failed.map(|record| listed.tx_text(record.tx)),
        failed_tx_block_number: failed.map(|record| record.block_number),
        failed_call_data: failed.map(CallData::from),
        subsidized_request: sponsored.is_some(),
        fees,
        fees_usd,
        in_txs,
        out_txs,
        currency: &currency.id,
        currency_object: currency.into(),
        fee_currency: &fee_currency.id,
        fee_currency_object: fee_currency.into(),
        app_fee_currency_object: fee_currency.into(),
        refund_currency_data: refunded(listed, figures)?,
        app_fees: fees::app_fees(listed, figures, reading)?,
        paid_app_fees: fees::paid_app_fees(listed, figures, reading)?,
        subsidized_fee: sponsored,
        fee_sponsorship: sponsor::phases(listed, figures, reading.view.catalog)?,
        expanded_price_impact: PriceImpacts::new(listed, figures)?,
        platform_fee: own.then(|| PlatformFee::new(listed, figures)).transpose()?,
        metadata: MetadataV2::new(listed, figures, reading)?,
        price: quote.figures.output.to_string(),
        uses_external_liquidity: false,
        time_estimate: quote.figures.time_estimate_secs,
        triggered_by_fast_fill: listed.fast_filled,
    })
}
