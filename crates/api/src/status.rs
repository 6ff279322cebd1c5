//! `GET /intents/status/v3`, and `v2` for clients that do not know every word of it.

use axum::Json;
use axum::extract::State;
use domain::ids::RequestId;
use domain::request::State as RequestState;
use serde::{Deserialize, Serialize};
use store::requests::{self, Hashes, Request};
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
}

impl StatusResponse {
    fn new(request: Request, hashes: Hashes) -> Self {
        let failed = matches!(request.state, RequestState::Refunded | RequestState::Failed);
        let fail_reason = match (failed, request.fail_reason) {
            (false, _) => "N/A",
            (true, Some(reason)) => reason.as_str(),
            (true, None) => "UNKNOWN",
        };
        Self {
            status: request.state.status(),
            details: request.details,
            in_tx_hashes: hashes.deposits.iter().map(ToString::to_string).collect(),
            tx_hashes: hashes.payments.iter().map(ToString::to_string).collect(),
            updated_at: request.updated_at.millis(),
            origin_chain_id: request.quote.ask.origin.chain.0,
            destination_chain_id: request.quote.ask.destination.chain.0,
            quote_created_at: request.quote.created_at.millis(),
            fail_reason,
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
        Ok::<_, store::StoreError>(Some((request, hashes)))
    });
    let (request, hashes) = found.await?.ok_or(ApiError::RequestNotFound)?;
    Ok(StatusResponse::new(request, hashes))
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
