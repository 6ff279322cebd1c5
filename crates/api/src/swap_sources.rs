//! `GET /swap-sources`: the markets that exchanges between currencies go through.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::named;
use crate::error::{ApiResult, ErrorBody};
use crate::json::ApiQuery;

/// The market behind a chain's `dex`.
pub(crate) const SOURCE: &str = "uniswap-v3";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct SwapSourcesQuery {
    /// All chains unless said.
    chain_id: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SwapSourcesResponse {
    /// Currencies that the solver does not hold are traded there.
    sources: Vec<&'static str>,
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
pub(crate) async fn swap_sources(
    app: State<App>,
    ApiQuery(query): ApiQuery<SwapSourcesQuery>,
) -> ApiResult<SwapSourcesResponse> {
    let trades = match query.chain_id {
        Some(id) => named(&app.catalog, "chainId", id)?.dex.is_some(),
        None => app.catalog.chains().iter().any(|chain| chain.dex.is_some()),
    };
    Ok(Json(SwapSourcesResponse { sources: trades.then_some(SOURCE).into_iter().collect() }))
}
