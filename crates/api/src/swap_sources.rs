//! `GET /swap-sources`: the markets that exchanges between currencies go through.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::named;
use crate::error::{ApiResult, ErrorBody};
use crate::json::ApiQuery;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SwapSourcesQuery {
    /// All chains unless said.
    chain_id: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SwapSourcesResponse {
    /// Empty: every transfer is served from the solver's own inventory.
    sources: Vec<String>,
}

/// Names the markets that exchanges go through.
#[utoipa::path(
    get,
    path = "/swap-sources",
    params(SwapSourcesQuery),
    responses(
        (status = 200, description = "Their names", body = SwapSourcesResponse),
        (status = 400, description = "No such chain", body = ErrorBody),
    )
)]
pub async fn swap_sources(
    app: State<App>,
    ApiQuery(query): ApiQuery<SwapSourcesQuery>,
) -> ApiResult<SwapSourcesResponse> {
    if let Some(id) = query.chain_id {
        named(&app.catalog, "chainId", id)?;
    }
    Ok(Json(SwapSourcesResponse { sources: Vec::new() }))
}
