//! Webhook endpoints of the caller's key: `/webhooks/endpoint` for the one that every key may have, and
//! `/webhooks/endpoints/{name}` for more of them, by name.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use domain::api_key::ApiKeyId;
use domain::webhook::{EndpointName, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use webhooks::endpoints::{Change, EndpointError, View};

use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{ApiJson, ApiPath};

/// Members that are left out stay as they are; a new endpoint needs its `url`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = WebhookEndpointChange)]
pub(crate) struct EndpointBody {
    /// Where events are posted: https, to a public host.
    url: Option<String>,
    enabled: Option<bool>,
    /// Sent with every event: ten at the most, and none of ours. `{}` removes them.
    headers: Option<BTreeMap<String, String>>,
    /// Statuses to be told; all with an empty list.
    statuses: Option<Vec<String>>,
}

impl EndpointBody {
    fn change(self) -> Result<Change, ApiError> {
        let status = |text: String| {
            text.parse::<Status>()
                .map_err(|error| ApiError::Parameter { field: "statuses", problem: error.to_string() })
        };
        let statuses = self.statuses.map(|statuses| statuses.into_iter().map(status).collect::<Result<Vec<_>, _>>());
        Ok(Change {
            url: self.url,
            enabled: self.enabled,
            headers: self.headers.map(|headers| headers.into_iter().collect()),
            statuses: statuses.transpose()?,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookEndpoint)]
pub(crate) struct EndpointResponse {
    id: String,
    enabled: bool,
    /// Null if the operator changed the rules and the endpoint has to be set again.
    url: Option<String>,
    /// Names of the custom headers. Their values are not shown again.
    header_names: Vec<String>,
    /// Empty for all.
    statuses: Vec<&'static str>,
    /// Why the service switched it off, where it did.
    disabled_because: Option<String>,
    /// Unix milliseconds.
    created_at: i64,
    updated_at: i64,
}

impl From<View> for EndpointResponse {
    fn from(view: View) -> Self {
        Self {
            id: view.name.to_string(),
            enabled: view.enabled,
            url: view.url,
            header_names: view.header_names,
            statuses: view.statuses.statuses().iter().map(|status| status.as_str()).collect(),
            disabled_because: view.disabled_because,
            created_at: view.created_at.millis(),
            updated_at: view.updated_at.millis(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookEndpoints)]
pub(crate) struct EndpointsResponse {
    endpoints: Vec<EndpointResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookEndpointDeleted)]
pub(crate) struct DeletedResponse {
    deleted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookTest)]
pub(crate) struct TestResponse {
    /// Its attempt is found under this id in `/webhooks/deliveries`.
    delivery_id: String,
}

impl From<EndpointError> for ApiError {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Target(error) => Self::Parameter { field: error.field, problem: error.problem },
            EndpointError::TooMany => {
                Self::Parameter { field: "name", problem: "the key has as many endpoints as it may have".to_owned() }
            }
            EndpointError::KeyEnded => Self::WrongKey,
            EndpointError::NotFound => Self::NotFound("no such webhook endpoint"),
            EndpointError::NoDelivery => Self::NotFound("no such webhook delivery"),
            EndpointError::SwitchedOff => Self::Conflict("the webhook endpoint is switched off or deleted"),
            EndpointError::NoEvent => Self::Conflict("the event of the webhook delivery is gone with its request"),
            EndpointError::NoMasterKey => Self::Forbidden("webhooks are not offered here"),
            EndpointError::Seal(error) => {
                tracing::error!(%error, "a webhook endpoint could not be encrypted");
                Self::Internal
            }
            EndpointError::Store(error) => Self::Store(error),
        }
    }
}

/// The name in a path or a query.
pub(crate) fn name(field: &'static str, text: &str) -> Result<EndpointName, ApiError> {
    text.parse()
        .map_err(|error: domain::webhook::NotAnEndpointName| ApiError::Parameter { field, problem: error.to_string() })
}

async fn read(app: &App, key: ApiKeyId, name: &EndpointName) -> ApiResult<EndpointResponse> {
    Ok(Json(app.webhooks.get(key, name).await?.into()))
}

async fn write(app: &App, key: ApiKeyId, name: &EndpointName, body: EndpointBody) -> ApiResult<EndpointResponse> {
    Ok(Json(app.webhooks.put(key, name, body.change()?).await?.into()))
}

async fn remove(app: &App, key: ApiKeyId, name: &EndpointName) -> ApiResult<DeletedResponse> {
    app.webhooks.delete(key, name).await?;
    Ok(Json(DeletedResponse { deleted: true }))
}

/// Shows the webhook endpoint of the caller's key.
#[utoipa::path(
    get,
    path = "/webhooks/endpoint",
    security(("apiKey" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "The endpoint", body = EndpointResponse),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No keys are kept here, and so no webhooks", body = ErrorBody),
        (status = 404, description = "The key has none", body = ErrorBody),
    )
)]
pub(crate) async fn get_default(app: State<App>, Keyed(key): Keyed) -> ApiResult<EndpointResponse> {
    read(&app, key.id, &EndpointName::default_name()).await
}

/// Creates or changes the webhook endpoint of the caller's key.
#[utoipa::path(
    put,
    path = "/webhooks/endpoint",
    security(("apiKey" = []), ("bearer" = [])),
    request_body = EndpointBody,
    responses(
        (status = 200, description = "The endpoint as it is now", body = EndpointResponse),
        (status = 400, description = "Not a URL or a header that is allowed", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No keys are kept here, and so no webhooks", body = ErrorBody),
    )
)]
pub(crate) async fn put_default(
    app: State<App>,
    Keyed(key): Keyed,
    ApiJson(body): ApiJson<EndpointBody>,
) -> ApiResult<EndpointResponse> {
    write(&app, key.id, &EndpointName::default_name(), body).await
}

/// Deletes the webhook endpoint of the caller's key. Events that are still to be posted are dropped.
#[utoipa::path(
    delete,
    path = "/webhooks/endpoint",
    security(("apiKey" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "It is gone", body = DeletedResponse),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 404, description = "The key has none", body = ErrorBody),
    )
)]
pub(crate) async fn delete_default(app: State<App>, Keyed(key): Keyed) -> ApiResult<DeletedResponse> {
    remove(&app, key.id, &EndpointName::default_name()).await
}

/// Lists the webhook endpoints of the caller's key.
#[utoipa::path(
    get,
    path = "/webhooks/endpoints",
    security(("apiKey" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "By name", body = EndpointsResponse),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No keys are kept here, and so no webhooks", body = ErrorBody),
    )
)]
pub(crate) async fn list(app: State<App>, Keyed(key): Keyed) -> ApiResult<EndpointsResponse> {
    let endpoints = app.webhooks.list(key.id).await?;
    Ok(Json(EndpointsResponse { endpoints: endpoints.into_iter().map(EndpointResponse::from).collect() }))
}

/// Shows a webhook endpoint of the caller's key.
#[utoipa::path(
    get,
    path = "/webhooks/endpoints/{name}",
    security(("apiKey" = []), ("bearer" = [])),
    params(("name" = String, Path, description = "Its name; `default` is that of `/webhooks/endpoint`")),
    responses(
        (status = 200, description = "The endpoint", body = EndpointResponse),
        (status = 400, description = "Not a name", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No keys are kept here, and so no webhooks", body = ErrorBody),
        (status = 404, description = "The key has no such endpoint", body = ErrorBody),
    )
)]
pub(crate) async fn get(app: State<App>, Keyed(key): Keyed, ApiPath(text): ApiPath) -> ApiResult<EndpointResponse> {
    read(&app, key.id, &name("name", &text)?).await
}

/// Creates or changes a webhook endpoint of the caller's key.
#[utoipa::path(
    put,
    path = "/webhooks/endpoints/{name}",
    security(("apiKey" = []), ("bearer" = [])),
    params(("name" = String, Path, description = "Its name: up to 40 of a-z, 0-9, - and _")),
    request_body = EndpointBody,
    responses(
        (status = 200, description = "The endpoint as it is now", body = EndpointResponse),
        (status = 400, description = "Not a name, URL or header that is allowed, or one endpoint too many", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No keys are kept here, and so no webhooks", body = ErrorBody),
    )
)]
pub(crate) async fn put(
    app: State<App>,
    Keyed(key): Keyed,
    ApiPath(text): ApiPath,
    ApiJson(body): ApiJson<EndpointBody>,
) -> ApiResult<EndpointResponse> {
    write(&app, key.id, &name("name", &text)?, body).await
}

/// Deletes a webhook endpoint of the caller's key. Events that are still to be posted are dropped.
#[utoipa::path(
    delete,
    path = "/webhooks/endpoints/{name}",
    security(("apiKey" = []), ("bearer" = [])),
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "It is gone", body = DeletedResponse),
        (status = 400, description = "Not a name", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 404, description = "The key has no such endpoint", body = ErrorBody),
    )
)]
pub(crate) async fn delete(app: State<App>, Keyed(key): Keyed, ApiPath(text): ApiPath) -> ApiResult<DeletedResponse> {
    remove(&app, key.id, &name("name", &text)?).await
}

/// Posts a test event, once: that of a request whose id is zero.
#[utoipa::path(
    post,
    path = "/webhooks/endpoints/{name}/test",
    security(("apiKey" = []), ("bearer" = [])),
    params(("name" = String, Path, description = "Name of the endpoint")),
    responses(
        (status = 200, description = "It is on its way", body = TestResponse),
        (status = 400, description = "Not a name", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 404, description = "The key has no such endpoint", body = ErrorBody),
        (status = 409, description = "The endpoint is switched off", body = ErrorBody),
    )
)]
pub(crate) async fn test(app: State<App>, Keyed(key): Keyed, ApiPath(text): ApiPath) -> ApiResult<TestResponse> {
    let delivery = app.webhooks.test(key.id, &name("name", &text)?).await?;
    Ok(Json(TestResponse { delivery_id: delivery.to_string() }))
}
