//! `GET /chains/health`: whether transfers on a chain can be promised and paid.

use axum::Json;
use axum::extract::State;
use domain::catalog::Chain;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::{is_listed, named};
use crate::error::{ApiError, Coded, CodedBody};
use crate::json::ApiQuery;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct HealthQuery {
    /// All listed chains unless said.
    chain_id: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthResponse {
    healthy: bool,
}

/// True if the chain is read and paid on: without the one nothing can be promised, without the other nothing kept.
fn is_healthy(app: &App, chain: &Chain) -> bool {
    let handle = app.chains.get(&chain.id);
    let refusing = handle.is_none_or(|handle| handle.refusing().is_some() || app.quoter.lags(handle));
    !refusing && app.market.current(chain.id).is_ok()
}

/// Says whether a chain, or every chain, is in order.
#[utoipa::path(
    get,
    path = "/chains/health",
    params(HealthQuery),
    responses(
        (status = 200, description = "Whether it is", body = HealthResponse),
        (status = 400, description = "No such chain", body = CodedBody),
    )
)]
pub(crate) async fn health(
    app: State<App>,
    query: Result<ApiQuery<HealthQuery>, ApiError>,
) -> Result<Json<HealthResponse>, Coded> {
    let ApiQuery(query) = query?;
    let healthy = match query.chain_id {
        Some(id) => is_healthy(&app, named(&app.catalog, "chainId", id)?),
        None => app.catalog.chains().iter().filter(|chain| is_listed(chain)).all(|chain| is_healthy(&app, chain)),
    };
    Ok(Json(HealthResponse { healthy }))
}
