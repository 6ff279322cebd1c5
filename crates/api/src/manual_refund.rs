//! `POST /operator/refunds`: a person decides that a request is refunded instead of filled.

use axum::Json;
use axum::extract::State;
use domain::ids::RequestId;
use serde::{Deserialize, Serialize};
use solver::operator::manual_refund::{Decision, NotRefunded};
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;
use crate::operator::Operator;

const MAX_NAME_LEN: usize = 100;
const MAX_REASON_LEN: usize = 500;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RefundBody {
    request_id: String,
    /// Who decided. It is kept with the request.
    by: String,
    /// Why. It is kept with the request.
    reason: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefundResponse {
    request_id: String,
    /// `refunding` from now on, or already what became of that.
    state: &'static str,
}

impl RefundBody {
    fn into_decision(self) -> Result<(RequestId, Decision), ApiError> {
        let problem = |field, problem: String| ApiError::Parameter { field, problem };
        let id =
            self.request_id.parse().map_err(|error: domain::ids::NotAnId| problem("requestId", error.to_string()))?;
        let (by, reason) = decided(self.by, self.reason)?;
        Ok((id, Decision { by, reason }))
    }
}

/// Who decided, and why: both are said in a few words.
pub(crate) fn decided(by: String, reason: String) -> Result<(String, String), ApiError> {
    let text = |field, text: String, most: usize| {
        let text = text.trim().to_owned();
        let fits = (1..=most).contains(&text.chars().count());
        let problem = || ApiError::Parameter { field, problem: format!("must be 1 to {most} characters") };
        if fits { Ok(text) } else { Err(problem()) }
    };
    Ok((text("by", by, MAX_NAME_LEN)?, text("reason", reason, MAX_REASON_LEN)?))
}

/// Gives up the fill of a request that waits for it, and returns the deposit. The deposit of one that failed at a deposit
/// address without `refundTo` goes to its `recoveryAddress`.
#[utoipa::path(
    post,
    path = "/operator/refunds",
    security(("operator" = [])),
    request_body = RefundBody,
    responses(
        (status = 200, description = "It is being refunded", body = RefundResponse),
        (status = 400, description = "Something is missing or wrong", body = ErrorBody),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
        (status = 404, description = "No such request", body = ErrorBody),
        (status = 409, description = "It cannot be refunded any more, or not yet", body = ErrorBody),
    )
)]
pub(crate) async fn refund(
    _: Operator,
    app: State<App>,
    ApiJson(body): ApiJson<RefundBody>,
) -> ApiResult<RefundResponse> {
    let (id, decision) = body.into_decision()?;
    let commands = app.commands.clone();
    // Nothing of a payment happens in a caller's future: callers hang up.
    let refund = tokio::spawn(async move { commands.refund(id, decision).await });
    let state = refund.await.map_err(|_| ApiError::Internal)??;
    match state {
        Ok(state) => Ok(Json(RefundResponse { request_id: id.to_string(), state: state.as_str() })),
        Err(NotRefunded::Unknown) => Err(ApiError::RequestNotFound),
        Err(NotRefunded::Because(why)) => Err(ApiError::NotRefundable { why }),
    }
}
