//! `POST /execute/permits`: takes the signature that a step asked for, over a claim or over a permit, and acts on it.

use alloy_primitives::Bytes;
use axum::Json;
use axum::extract::State;
use domain::ids::{ClaimId, NotAnId, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use solver::gasless::permits::Kind;
use solver::integrators::wallet_links::MAX_SIGNATURE;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{ApiJson, ApiQuery};

/// The kind of a claim of an app balance.
pub(crate) const CLAIM: &str = "claim";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermitBody {
    /// As the step has it: `claim`, `eip3009` or `permit2`.
    #[schema(value_type = String)]
    kind: Option<Value>,
    /// The id of the claim or of the request, as the step has it.
    #[schema(value_type = String)]
    request_id: Option<Value>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PermitQuery {
    /// Of the wallet, in hexadecimal.
    #[param(required = true)]
    signature: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PermitResponse {
    message: &'static str,
    /// Empty for a claim: nothing more is to be done. Absent for a permit, whose request is polled from now on.
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<[(); 0]>,
}

/// The subject of a signature.
enum Signed {
    Claim,
    Permit(Kind),
}

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

impl PermitBody {
    fn signed(&self) -> Result<Signed, ApiError> {
        let kind = self.kind.as_ref().filter(|kind| !kind.is_null()).ok_or_else(|| bad("kind", "required"))?;
        match kind.as_str() {
            Some(CLAIM) => Ok(Signed::Claim),
            Some("eip3009") => Ok(Signed::Permit(Kind::Eip3009)),
            Some("permit2") => Ok(Signed::Permit(Kind::Permit2)),
            _ => Err(ApiError::NotOffered { field: "kind" }),
        }
    }

    fn id(&self) -> Result<RequestId, ApiError> {
        let text = self.request_id.as_ref().and_then(Value::as_str).ok_or_else(|| bad("requestId", "required"))?;
        text.parse().map_err(|error: NotAnId| bad("requestId", error.to_string()))
    }
}

impl PermitQuery {
    fn signature(&self) -> Result<Bytes, ApiError> {
        let text = self.signature.as_deref().ok_or_else(|| bad("signature", "required"))?;
        let signature = text.parse::<Bytes>().ok().filter(|bytes| !bytes.is_empty() && bytes.len() <= MAX_SIGNATURE);
        signature.ok_or_else(|| bad("signature", format!("must be hexadecimal, of at most {MAX_SIGNATURE} bytes")))
    }
}

/// Takes the signature over a claim and pays it, or over a permit and sends the deposit it stands for. The same signature
/// of a permit again changes nothing.
#[utoipa::path(
    post,
    path = "/execute/permits",
    params(PermitQuery),
    request_body = PermitBody,
    responses(
        (status = 200, description = "It is being paid, or sent", body = PermitResponse),
        (status = 400, description = "Not signed for, expired, or more than is there", body = ErrorBody),
        (status = 404, description = "No such claim or request was asked for", body = ErrorBody),
        (status = 409, description = "It was signed for already", body = ErrorBody),
    )
)]
pub(crate) async fn permit(
    app: State<App>,
    ApiQuery(query): ApiQuery<PermitQuery>,
    ApiJson(body): ApiJson<PermitBody>,
) -> ApiResult<PermitResponse> {
    let (signed, id, signature) = (body.signed()?, body.id()?, query.signature()?);
    // Committed work goes on whether or not the caller waits for the answer.
    match signed {
        Signed::Claim => {
            tokio::spawn(app.claims.clone().accept(ClaimId(id.0), signature))
                .await
                .map_err(|_| ApiError::Internal)??;
            Ok(Json(PermitResponse { message: "The claim is being paid", steps: Some([]) }))
        }
        Signed::Permit(kind) => {
            tokio::spawn(app.permits.clone().accept(id, kind, signature)).await.map_err(|_| ApiError::Internal)??;
            // Clients skip the step's check where an answer has steps.
            Ok(Json(PermitResponse { message: "The transaction is being sent", steps: None }))
        }
    }
}
