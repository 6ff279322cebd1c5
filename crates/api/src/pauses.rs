//! `POST /operator/pauses`: a person decides that nothing new begins on a chain, or that it may again.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use store::chain_pauses::{Decision, Pause};
use utoipa::ToSchema;

use crate::App;
use crate::chains::named;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;
use crate::manual_refund::decided;
use crate::operator::Operator;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PauseBody {
    chain_id: u64,
    /// False ends the pause.
    paused: bool,
    /// Who decided. It is kept.
    by: String,
    /// Why. It is kept.
    reason: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseResponse {
    chain_id: u64,
    /// The pause in force; null where there is none. An earlier decision stands.
    #[schema(required = true)]
    pause: Option<PauseInForce>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseInForce {
    by: String,
    reason: String,
    /// Unix milliseconds.
    since: i64,
}

impl From<Pause> for PauseInForce {
    fn from(pause: Pause) -> Self {
        let Decision { at, by, reason } = pause.paused;
        Self { by, reason, since: at.millis() }
    }
}

/// Pauses a chain, or ends its pause: while it lasts, nothing new is quoted or paid there, and what is under way is
/// finished. Every process knows of it within seconds.
#[utoipa::path(
    post,
    path = "/operator/pauses",
    security(("operator" = [])),
    request_body = PauseBody,
    responses(
        (status = 200, description = "The pause that is in force now", body = PauseResponse),
        (status = 400, description = "Something is missing or wrong", body = ErrorBody),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
    )
)]
pub(crate) async fn pause(_: Operator, app: State<App>, ApiJson(body): ApiJson<PauseBody>) -> ApiResult<PauseResponse> {
    let chain = named(&app.catalog, "chainId", body.chain_id)?.id;
    let (by, reason) = decided(body.by, body.reason)?;
    let (commands, decision) = (app.commands.clone(), Decision { at: app.now(), by, reason });
    // Callers hang up; a pause that is written is also told.
    let set = tokio::spawn(async move { commands.set_paused(chain, body.paused, decision).await });
    let pause = set.await.map_err(|_| ApiError::Internal)??;
    Ok(Json(PauseResponse { chain_id: chain.0, pause: pause.map(PauseInForce::from) }))
}
