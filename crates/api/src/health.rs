//! `GET /chains/health`: whether transfers on a chain can be promised and paid.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::catalog::Chain;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::{is_listed, named};
use crate::error::{ApiError, ErrorBody};
use crate::json::ApiQuery;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct HealthQuery {
    /// All listed chains unless said.
    chain_id: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HealthResponse {
    healthy: bool,
}

/// This route's clients look for the code under another name; ours is there too.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthError {
    #[serde(flatten)]
    body: ErrorBody,
    code: &'static str,
}

#[derive(Debug)]
pub struct Unanswered(ApiError);

impl From<ApiError> for Unanswered {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Unanswered {
    fn into_response(self) -> Response {
        let (status, body) = self.0.answer();
        let code = body.error_code;
        (status, Json(HealthError { body, code })).into_response()
    }
}

/// Whether the chain is read and paid on: without the one nothing can be promised, without the other nothing kept.
fn is_healthy(app: &App, chain: &Chain) -> bool {
    let refusing = app.solver.sites.get(&chain.id).is_none_or(|site| site.refusing().is_some());
    !refusing && app.solver.market.current(chain.id).is_ok()
}

/// Says whether a chain, or every chain, is in order.
#[utoipa::path(
    get,
    path = "/chains/health",
    params(HealthQuery),
    responses(
        (status = 200, description = "Whether it is", body = HealthResponse),
        (status = 400, description = "No such chain", body = HealthError),
    )
)]
pub async fn health(
    app: State<App>,
    query: Result<ApiQuery<HealthQuery>, ApiError>,
) -> Result<Json<HealthResponse>, Unanswered> {
    let ApiQuery(query) = query?;
    let healthy = match query.chain_id {
        Some(id) => is_healthy(&app, named(&app.catalog, "chainId", id)?),
        None => app.catalog.chains().iter().filter(|chain| is_listed(chain)).all(|chain| is_healthy(&app, chain)),
    };
    Ok(Json(HealthResponse { healthy }))
}
