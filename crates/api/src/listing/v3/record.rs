//! A request's record in v3.

mod fees;
mod route;
mod txs;

use alloy_primitives::Address;
use domain::api_key::ApiKey;
use domain::facts::{Feature, RequestType};
use domain::money::OutOfRange;
use domain::request::State;
use serde::Serialize;
use serde_json::{Map, Value};
use store::deposit_addresses::Shown;
use store::listing::Listed;
use utoipa::ToSchema;

use self::fees::{AppFees, FeesV3, SponsorshipV3};
use self::route::{OraclePrice, RouteV3};
use self::txs::TxBody;
use crate::listing::figures::{Figures, View};
use crate::listing::filter::same_integrator;
use crate::listing::members::platform::PlatformFee;
use crate::listing::members::protocol::RequestProtocol;
use crate::listing::members::route::refunded;
use crate::listing::members::txs::{CallData, failed};
use crate::wire::{AmountBody, iso};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestV3)]
pub(crate) struct RecordV3<'a> {
    id: String,
    /// `waiting`, `depositing`, `pending`, `submitted`, `success`, `failure` or `refund`.
    status: &'static str,
    user: &'a str,
    #[schema(required = true)]
    sender: Option<&'a str>,
    recipient: &'a str,
    #[schema(required = true)]
    refund_to: Option<&'a str>,
    #[schema(required = true)]
    superseded_by_request_id: Option<String>,
    #[schema(required = true)]
    deposit_address: Option<DepositAddressV3>,
    request_type: &'static str,
    features: Vec<&'static str>,
    data: DataV3<'a>,
    /// Null for a same-chain request.
    #[schema(required = true)]
    protocol: Option<RequestProtocol<'a>>,
    /// ISO 8601 in UTC.
    created_at: String,
    updated_at: String,
}

/// The address that a request was paid at, or is to be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DepositAddressV3)]
pub(crate) struct DepositAddressV3 {
    address: String,
    /// `strict` or `open`.
    r#type: &'static str,
    /// The sender of the transfer into the address, where it is known.
    #[schema(required = true)]
    depositor: Option<String>,
    /// The transfer into the address. The sweep behind it is in `inTxs`.
    #[schema(required = true)]
    deposit_tx_hash: Option<String>,
    #[schema(required = true)]
    recovery_address: Option<String>,
}

impl From<&Shown> for DepositAddressV3 {
    fn from(shown: &Shown) -> Self {
        let text = |address: Address| format!("{address:#x}");
        Self {
            address: text(shown.address),
            r#type: shown.kind.as_str(),
            depositor: shown.depositor.map(text),
            deposit_tx_hash: shown.deposit_tx.map(|tx| tx.to_string()),
            recovery_address: shown.recovery.map(text),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestDataV3)]
pub(crate) struct DataV3<'a> {
    /// Basis points.
    slippage_tolerance: String,
    #[schema(required = true)]
    fail_reason: Option<&'static str>,
    #[schema(required = true)]
    refund_fail_reason: Option<&'static str>,
    #[schema(required = true)]
    failed_tx_hash: Option<String>,
    #[schema(required = true)]
    failed_tx_block_number: Option<u64>,
    #[schema(required = true)]
    failed_call_data: Option<CallData>,
    uses_external_liquidity: bool,
    /// Seconds.
    time_estimate: u32,
    triggered_by_fast_fill: bool,
    in_txs: Vec<TxBody>,
    out_txs: Vec<TxBody>,
    app_fees: AppFees<'a>,
    #[schema(required = true)]
    fee_sponsorship: Option<SponsorshipV3<'a>>,
    fees: FeesV3<'a>,
    /// For the request's own integrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_fee: Option<PlatformFee<'a>>,
    /// For the request's own integrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    referrer: Option<Option<&'a str>>,
    /// For the request's own integrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key_name: Option<&'a str>,
    route: RouteV3<'a>,
    #[schema(required = true)]
    quote_oracle_price: Option<OraclePrice<'a>>,
    #[schema(required = true)]
    refund_currency_data: Option<AmountBody<'a>>,
    #[schema(value_type = Object)]
    external_metadata: Map<String, Value>,
}

impl<'a> RecordV3<'a> {
    /// None only if a currency of the request is no longer configured. `owner` is the caller where it asked for what only
    /// a request's own integrator sees.
    pub(crate) fn new(listed: &'a Listed, view: View<'a>, owner: Option<&ApiKey>) -> Option<Self> {
        let figures = Figures::of(&listed.request.quote, view)?;
        Self::render(listed, &figures, view, owner).ok()
    }

    fn render(
        listed: &'a Listed,
        figures: &Figures<'a>,
        view: View<'a>,
        owner: Option<&ApiKey>,
    ) -> Result<Self, OutOfRange> {
        let request = &listed.request;
        let ask = &request.quote.ask;
        let at = listed.deposit_address.as_ref();
        let fast = listed.fast_filled.then_some(Feature::FastFill);
        let quoted = Feature::quoted(&request.quote);
        let features = Feature::ALL.into_iter().filter(|feature| quoted.contains(feature) || fast == Some(*feature));
        Ok(Self {
            id: request.id.to_string(),
            status: request.state.status(),
            user: ask.user.text(),
            sender: Some(ask.user.text()),
            recipient: ask.recipient.text(),
            refund_to: ask.refund_to.as_ref().map(|account| account.text()),
            superseded_by_request_id: at.and_then(|it| it.superseded_by).map(|id| id.to_string()),
            deposit_address: at.map(DepositAddressV3::from),
            request_type: RequestType::of(&request.quote).as_str(),
            features: features.map(Feature::as_str).collect(),
            data: data(listed, figures, view, owner)?,
            protocol: RequestProtocol::new(listed, figures, view.catalog),
            created_at: iso(listed.created_at),
            updated_at: iso(request.updated_at),
        })
    }
}

fn data<'a>(
    listed: &'a Listed,
    figures: &Figures<'a>,
    view: View<'a>,
    owner: Option<&ApiKey>,
) -> Result<DataV3<'a>, OutOfRange> {
    let request = &listed.request;
    let quote = &request.quote;
    let ended_badly = matches!(request.state, State::Refunded | State::Failed);
    let reason = request.fail_reason.map_or("UNKNOWN", |reason| reason.as_str());
    let failed = failed(listed);
    let (in_txs, out_txs) = txs::both(listed, figures)?;
    let own = listed.key.as_ref().zip(owner).filter(|(key, owner)| same_integrator(owner, key)).map(|(key, _)| key);
    Ok(DataV3 {
        slippage_tolerance: quote.figures.slippage_bps.to_string(),
        fail_reason: ended_badly.then_some(reason),
        refund_fail_reason: request.refund_fail_reason.map(|reason| reason.as_str()),
        failed_tx_hash: failed.map(|record| listed.tx_text(record.tx)),
        failed_tx_block_number: failed.map(|record| record.block_number),
        failed_call_data: failed.map(CallData::from),
        uses_external_liquidity: false,
        time_estimate: quote.figures.time_estimate_secs,
        triggered_by_fast_fill: listed.fast_filled,
        in_txs,
        out_txs,
        app_fees: AppFees::new(listed, figures)?,
        fee_sponsorship: SponsorshipV3::new(listed, figures, view.catalog)?,
        fees: FeesV3::new(listed, figures)?,
        platform_fee: own.map(|_| PlatformFee::new(listed, figures)).transpose()?,
        referrer: own.map(|_| quote.ask.referrer.as_deref()),
        api_key_name: own.map(|key| key.name.as_str()),
        route: RouteV3::new(listed, figures)?,
        quote_oracle_price: OraclePrice::new(listed, figures)?,
        refund_currency_data: refunded(listed, figures)?,
        external_metadata: Map::new(),
    })
}
