//! `GET /intents/status/v3`, and `v2` for clients that do not know every word of it.

use axum::Json;
use axum::extract::State;
use domain::account::{Account, Vm};
use domain::ids::RequestId;
use domain::request::State as RequestState;
use serde::{Deserialize, Serialize};
use store::deposit_addresses::{self, Shown};
use store::requests::{self, Request};
use store::returns::{self, Excess, Returned};
use store::{StoreError, Tx, venue_txs};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiQuery;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct StatusQuery {
    /// The request to look up.
    #[param(required = true)]
    request_id: Option<String>,
}

/// How a transfer stands. Every member is always present.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusResponse {
    /// `waiting`, `depositing`, `pending`, `submitted`, `success`, `failure` or `refund`.
    status: &'static str,
    #[schema(required = true)]
    details: Option<String>,
    in_tx_hashes: Vec<String>,
    tx_hashes: Vec<String>,
    /// Unix milliseconds.
    updated_at: i64,
    origin_chain_id: u64,
    destination_chain_id: u64,
    /// Unix milliseconds.
    quote_created_at: i64,
    fail_reason: &'static str,
    refund_fail_reason: &'static str,
    /// The address that the transfer is paid at; absent where it is paid by a wallet's own transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit_address: Option<DepositAddressBody>,
    /// Money that goes back beside this transfer's own outcome. Usually empty.
    returns: Vec<ReturnBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DepositAddress)]
pub(crate) struct DepositAddressBody {
    address: String,
    /// `strict` or `open`.
    deposit_address_type: &'static str,
    /// The sender of the transfer into the address, where it is known.
    #[schema(required = true)]
    depositor: Option<String>,
    /// The transfer into the address. The sweep behind it is among `inTxHashes`.
    #[schema(required = true)]
    deposit_tx_hash: Option<String>,
}

impl From<Shown> for DepositAddressBody {
    fn from(shown: Shown) -> Self {
        Self {
            address: format!("{:#x}", shown.address),
            deposit_address_type: shown.kind.as_str(),
            depositor: shown.depositor.map(|who| format!("{who:#x}")),
            deposit_tx_hash: shown.deposit_tx.map(|tx| tx.to_string()),
        }
    }
}

/// A deposit that named this transfer's order without paying for it, or the excess of the one that did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Return)]
pub(crate) struct ReturnBody {
    /// `deposit` or `excess`.
    kind: &'static str,
    /// The request under which it goes back: one of its own for a deposit, this one for its excess.
    request_id: String,
    /// `pending` until it is back, then `refund`; `failure` where it cannot go back.
    status: &'static str,
    /// Why it paid for nothing. `N/A` for an excess.
    fail_reason: &'static str,
    refund_fail_reason: &'static str,
    in_tx_hashes: Vec<String>,
    tx_hashes: Vec<String>,
    /// Where the excess goes back, and how much of which currency; null for a deposit, whose transaction says it.
    #[schema(required = true)]
    chain_id: Option<u64>,
    #[schema(required = true)]
    currency: Option<String>,
    #[schema(required = true)]
    amount: Option<String>,
}

/// The details of a request's state. Clients that wait for a signature's transaction stop at these words alone.
fn details(request: &Request) -> Option<String> {
    let signed = request.quote.ask.options.permit.is_some() && request.state == RequestState::Failed;
    let details = request.details.clone();
    if signed { details.map(|details| format!("Transaction failed: {details}")) } else { details }
}

/// The reason of a request that failed or was refunded.
fn fail_reason(request: &Request) -> &'static str {
    let failed = matches!(request.state, RequestState::Refunded | RequestState::Failed);
    match (failed, request.fail_reason) {
        (false, _) => "N/A",
        (true, Some(reason)) => reason.as_str(),
        (true, None) => "UNKNOWN",
    }
}

impl ReturnBody {
    fn of_deposit(tx: &mut Tx<'_>, returned: &Returned) -> Result<Self, StoreError> {
        let request = &returned.request;
        Ok(Self {
            kind: "deposit",
            request_id: request.id.to_string(),
            status: request.state.status(),
            fail_reason: fail_reason(request),
            refund_fail_reason: request.refund_fail_reason.map_or("N/A", |reason| reason.as_str()),
            in_tx_hashes: venue_txs::texts(tx, request, &returned.hashes.deposits)?,
            tx_hashes: venue_txs::texts(tx, request, &returned.hashes.payments)?,
            chain_id: None,
            currency: None,
            amount: None,
        })
    }

    fn of_excess(tx: &mut Tx<'_>, excess: &Excess, request: &Request, deposits: &[String]) -> Result<Self, StoreError> {
        let state = if excess.mined { RequestState::Refunded } else { RequestState::Refunding };
        let vm = if excess.chain == domain::venue::CHAIN { Vm::Venue } else { Vm::Evm };
        let currency = Account::unpacked(vm, excess.currency).map(|currency| currency.text().to_owned());
        Ok(Self {
            kind: "excess",
            request_id: request.id.to_string(),
            status: state.status(),
            fail_reason: "N/A",
            refund_fail_reason: "N/A",
            in_tx_hashes: deposits.to_vec(),
            tx_hashes: venue_txs::texts(tx, request, excess.tx.as_slice())?,
            chain_id: Some(excess.chain.0),
            currency,
            amount: Some(excess.amount.to_string()),
        })
    }
}

impl StatusResponse {
    fn new(
        request: Request,
        (in_tx_hashes, tx_hashes): (Vec<String>, Vec<String>),
        returns: Vec<ReturnBody>,
        at: Option<Shown>,
    ) -> Self {
        Self {
            fail_reason: fail_reason(&request),
            deposit_address: at.map(Into::into),
            returns,
            status: request.state.status(),
            details: details(&request),
            in_tx_hashes,
            tx_hashes,
            updated_at: request.updated_at.millis(),
            origin_chain_id: request.quote.ask.origin.chain.0,
            destination_chain_id: request.quote.ask.destination.chain.0,
            quote_created_at: request.quote.created_at.millis(),
            refund_fail_reason: request.refund_fail_reason.map_or("N/A", |reason| reason.as_str()),
        }
    }

    /// A fill that is on its way was no state of its own then.
    fn in_v2(mut self) -> Self {
        if self.status == RequestState::Submitted.status() {
            self.status = RequestState::Pending.status();
        }
        self
    }
}

async fn find(app: &App, query: StatusQuery) -> Result<StatusResponse, ApiError> {
    let problem = |problem: &dyn ToString| ApiError::Parameter { field: "requestId", problem: problem.to_string() };
    let id = query.request_id.ok_or_else(|| problem(&"required"))?;
    let id: RequestId = id.parse().map_err(|error| problem(&error))?;
    let found = app.store.read(move |tx| {
        let Some(request) = requests::find(tx, id)? else { return Ok(None) };
        let hashes = requests::hashes(tx, &request)?;
        let (deposits, excess) = (returns::deposits(tx, id)?, returns::excess(tx, id)?);
        let paid_in = venue_txs::texts(tx, &request, &hashes.deposits)?;
        let paid_out = venue_txs::texts(tx, &request, &hashes.payments)?;
        let mut back =
            deposits.iter().map(|returned| ReturnBody::of_deposit(tx, returned)).collect::<Result<Vec<_>, _>>()?;
        if let Some(excess) = &excess {
            back.push(ReturnBody::of_excess(tx, excess, &request, &paid_in)?);
        }
        let at = deposit_addresses::shown(tx, &request)?;
        Ok::<_, StoreError>(Some((request, (paid_in, paid_out), back, at)))
    });
    let (request, hashes, back, at) = found.await?.ok_or(ApiError::RequestNotFound)?;
    Ok(StatusResponse::new(request, hashes, back, at))
}

/// Says how a transfer stands.
#[utoipa::path(
    get,
    path = "/intents/status/v3",
    params(StatusQuery),
    responses(
        (status = 200, description = "How it stands", body = StatusResponse),
        (status = 400, description = "No request id, or not one", body = ErrorBody),
        (status = 404, description = "No such request", body = ErrorBody),
    )
)]
pub(crate) async fn status(app: State<App>, ApiQuery(query): ApiQuery<StatusQuery>) -> ApiResult<StatusResponse> {
    find(&app, query).await.map(Json)
}

/// Says how a transfer stands, with `pending` where v3 says `submitted`.
#[utoipa::path(
    get,
    path = "/intents/status/v2",
    params(StatusQuery),
    responses(
        (status = 200, description = "How it stands", body = StatusResponse),
        (status = 400, description = "No request id, or not one", body = ErrorBody),
        (status = 404, description = "No such request", body = ErrorBody),
    )
)]
pub(crate) async fn status_v2(app: State<App>, ApiQuery(query): ApiQuery<StatusQuery>) -> ApiResult<StatusResponse> {
    find(&app, query).await.map(|found| Json(found.in_v2()))
}
