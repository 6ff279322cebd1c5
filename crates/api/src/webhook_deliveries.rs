//! `GET /webhooks/deliveries`: every delivery of the caller's key with its attempts; and replays of them.

use axum::Json;
use axum::extract::State;
use domain::time::Timestamp;
use domain::webhook::{DeliveryState, Status};
use serde::{Deserialize, Serialize};
use store::webhooks::{Attempt, Filter, Logged};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{ApiJson, ApiPath, ApiQuery};
use crate::webhook_endpoints::name;

/// Deliveries on one page, unless said, and at the most.
const PAGE: u32 = 20;
const MAX_PAGE: u32 = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveriesQuery {
    /// One delivery.
    delivery_id: Option<String>,
    /// Name of the endpoint.
    endpoint: Option<String>,
    request_id: Option<String>,
    /// The status that the event told.
    status: Option<String>,
    /// `due`, `delivered` or `failed`.
    state: Option<String>,
    /// Unix milliseconds of the event.
    #[param(value_type = Option<i64>)]
    since: Option<String>,
    #[param(value_type = Option<i64>)]
    until: Option<String>,
    /// From 1 to 50; 20 unless said.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// Where the page before ended.
    continuation: Option<String>,
}

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

fn delivery_id(field: &'static str, text: &str) -> Result<i64, ApiError> {
    let id = text.parse().ok().filter(|id: &i64| *id >= 0 && text.bytes().all(|byte| byte.is_ascii_digit()));
    id.ok_or_else(|| bad(field, "must be the id of a delivery"))
}

fn time(field: &'static str, text: &str) -> Result<Timestamp, ApiError> {
    let millis = text.parse::<i64>().ok().filter(|millis| *millis >= 0);
    millis.map(Timestamp::from_millis).ok_or_else(|| bad(field, "must be Unix milliseconds"))
}

impl DeliveriesQuery {
    fn filter(&self) -> Result<Filter, ApiError> {
        let state = |text: &String| {
            DeliveryState::parse(text).ok_or_else(|| bad("state", "must be one of due, delivered, failed"))
        };
        Ok(Filter {
            id: self.delivery_id.as_deref().map(|text| delivery_id("deliveryId", text)).transpose()?,
            endpoint: self.endpoint.as_deref().map(|text| name("endpoint", text)).transpose()?,
            request: self
                .request_id
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(|error: domain::ids::NotAnId| bad("requestId", error.to_string()))?,
            status: self
                .status
                .as_deref()
                .map(str::parse::<Status>)
                .transpose()
                .map_err(|error| bad("status", error.to_string()))?,
            state: self.state.as_ref().map(state).transpose()?,
            since: self.since.as_deref().map(|text| time("since", text)).transpose()?,
            until: self.until.as_deref().map(|text| time("until", text)).transpose()?,
            before: self
                .continuation
                .as_deref()
                .map(|text| {
                    delivery_id("continuation", text).map_err(|_| bad("continuation", "must be that of a page before"))
                })
                .transpose()?,
        })
    }

    fn limit(&self) -> Result<u32, ApiError> {
        let Some(text) = &self.limit else { return Ok(PAGE) };
        let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
        limit.ok_or_else(|| bad("limit", format!("must be from 1 to {MAX_PAGE}")))
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookDeliveries)]
pub(crate) struct DeliveriesResponse {
    /// Newest first.
    deliveries: Vec<DeliveryBody>,
    /// For the next page; null where there is none.
    continuation: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookDelivery)]
pub(crate) struct DeliveryBody {
    /// As in `X-Webhook-Id`.
    delivery_id: String,
    endpoint: String,
    /// Null for a test.
    request_id: Option<String>,
    /// As in `X-Webhook-Sequence`.
    sequence: u64,
    status: String,
    /// `due`, `delivered` or `failed`.
    state: &'static str,
    /// Unix milliseconds, as the following.
    created_at: i64,
    /// Null once it has ended.
    next_attempt_at: Option<i64>,
    ended_at: Option<i64>,
    ended_because: Option<String>,
    /// The newest twenty, in order of time.
    attempts: Vec<AttemptBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookAttempt)]
pub(crate) struct AttemptBody {
    /// Unix milliseconds.
    at: i64,
    /// Null while it is under way, and where the service ended meanwhile.
    duration_millis: Option<i64>,
    /// The receiver's HTTP status; null where there was none.
    code: Option<i64>,
    error: Option<String>,
    /// The first 1024 bytes of the answer.
    body: Option<String>,
}

impl From<Logged> for DeliveryBody {
    fn from(logged: Logged) -> Self {
        let due = logged.state == DeliveryState::Due;
        let attempt = |attempt: Attempt| AttemptBody {
            at: attempt.at.millis(),
            duration_millis: attempt.duration_millis,
            code: attempt.code,
            error: attempt.error,
            body: attempt.body,
        };
        Self {
            delivery_id: logged.id.to_string(),
            endpoint: logged.endpoint,
            request_id: logged.request.map(|id| id.to_string()),
            sequence: logged.ordinal,
            status: logged.status,
            state: logged.state.as_str(),
            created_at: logged.created_at.millis(),
            next_attempt_at: due.then(|| logged.due_at.millis()),
            ended_at: logged.ended_at.map(|at| at.millis()),
            ended_because: logged.ended_because,
            attempts: logged.attempts.into_iter().map(attempt).collect(),
        }
    }
}

/// Lists what was posted to the endpoints of the caller's key, attempt by attempt.
#[utoipa::path(
    get,
    path = "/webhooks/deliveries",
    security(("apiKey" = []), ("bearer" = [])),
    params(DeliveriesQuery),
    responses(
        (status = 200, description = "Newest first", body = DeliveriesResponse),
        (status = 400, description = "A filter that is none", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    app: State<App>,
    Keyed(key): Keyed,
    ApiQuery(query): ApiQuery<DeliveriesQuery>,
) -> ApiResult<DeliveriesResponse> {
    let limit = query.limit()?;
    let logged = app.webhooks.deliveries(key.id, query.filter()?, limit).await?;
    let full = u32::try_from(logged.len()).is_ok_and(|count| count == limit);
    let continuation = logged.last().filter(|_| full).map(|last| last.id.to_string());
    Ok(Json(DeliveriesResponse { deliveries: logged.into_iter().map(DeliveryBody::from).collect(), continuation }))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookReplay)]
pub(crate) struct ReplayResponse {
    /// Deliveries that are due again. One that is being posted is not among them.
    replayed: u64,
    /// True if another call finds more.
    more: bool,
}

/// Posts a delivery again, under the same id.
#[utoipa::path(
    post,
    path = "/webhooks/deliveries/{deliveryId}/replay",
    security(("apiKey" = []), ("bearer" = [])),
    params(("deliveryId" = String, Path, description = "Id of the delivery")),
    responses(
        (status = 200, description = "It is due again, or is being posted", body = ReplayResponse),
        (status = 400, description = "Not an id", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 404, description = "The key has no such delivery", body = ErrorBody),
        (status = 409, description = "Its endpoint is switched off or deleted, or its event is gone", body = ErrorBody),
    )
)]
pub(crate) async fn replay(app: State<App>, Keyed(key): Keyed, ApiPath(text): ApiPath) -> ApiResult<ReplayResponse> {
    let replayed = app.webhooks.replay(key.id, delivery_id("deliveryId", &text)?).await?;
    Ok(Json(ReplayResponse { replayed, more: false }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = WebhookReplayBody)]
pub(crate) struct ReplayBody {
    /// Unix milliseconds: events of this time and later.
    since: Option<i64>,
    /// Name of an endpoint; all of them unless said.
    endpoint: Option<String>,
}

/// Posts again every delivery since a time that was given up, the oldest first, up to 500 in one call.
#[utoipa::path(
    post,
    path = "/webhooks/deliveries/replay",
    security(("apiKey" = []), ("bearer" = [])),
    request_body = ReplayBody,
    responses(
        (status = 200, description = "They are due again", body = ReplayResponse),
        (status = 400, description = "No time, or not an endpoint's name", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
    )
)]
pub(crate) async fn replay_failed(
    app: State<App>,
    Keyed(key): Keyed,
    ApiJson(body): ApiJson<ReplayBody>,
) -> ApiResult<ReplayResponse> {
    let since = body.since.filter(|since| *since >= 0).ok_or_else(|| bad("since", "must be Unix milliseconds"))?;
    let endpoint = body.endpoint.as_deref().map(|text| name("endpoint", text)).transpose()?;
    let (replayed, more) = app.webhooks.replay_failed(key.id, endpoint, Timestamp::from_millis(since)).await?;
    Ok(Json(ReplayResponse { replayed, more }))
}
