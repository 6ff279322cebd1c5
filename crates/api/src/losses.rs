//! `GET /operator/losses`: orders that were paid out and whose deposit a reorg took away.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use store::losses;
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiResult, ErrorBody};
use crate::operator::Operator;

/// Losses that are listed.
const MAX_LOSSES: i64 = 200;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LossesResponse {
    /// The sum that may still come back, in dollars.
    missing_usd: String,
    /// The sum that has not, by the time its order had ended for good.
    booked_usd: String,
    /// The newest first, 200 at the most.
    losses: Vec<LossBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Loss)]
pub(crate) struct LossBody {
    request_id: String,
    order_id: String,
    /// `missing`, `booked`, or `recovered` once a deposit has taken the other's place.
    state: &'static str,
    /// Of the deposit.
    chain_id: u64,
    currency: String,
    /// The amount that was paid for.
    amount: String,
    usd: String,
    /// Unix milliseconds, as the following.
    since: i64,
    #[schema(required = true)]
    booked_at: Option<i64>,
    #[schema(required = true)]
    recovered_at: Option<i64>,
}

impl From<losses::LossRow> for LossBody {
    fn from(stored: losses::LossRow) -> Self {
        let loss = stored.loss;
        Self {
            request_id: loss.request.to_string(),
            order_id: loss.order.to_string(),
            state: stored.state.as_str(),
            chain_id: loss.chain.0,
            currency: format!("{:?}", loss.currency),
            amount: loss.amount.to_string(),
            usd: loss.usd.to_string(),
            since: stored.since.millis(),
            booked_at: stored.booked_at.map(|at| at.millis()),
            recovered_at: stored.recovered_at.map(|at| at.millis()),
        }
    }
}

/// Lists what was lost, or may be, to deposits that a chain took back.
#[utoipa::path(
    get,
    path = "/operator/losses",
    security(("operator" = [])),
    responses(
        (status = 200, description = "In all, and one by one", body = LossesResponse),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
    )
)]
pub(crate) async fn losses(_: Operator, app: State<App>) -> ApiResult<LossesResponse> {
    let read =
        |tx: &mut store::Tx<'_>| Ok::<_, store::StoreError>((losses::totals(tx)?, losses::newest(tx, MAX_LOSSES)?));
    let ((missing, booked), newest) = app.store.read(read).await?;
    Ok(Json(LossesResponse {
        missing_usd: missing.to_string(),
        booked_usd: booked.to_string(),
        losses: newest.into_iter().map(LossBody::from).collect(),
    }))
}
