//! `POST /keys/wallet`: links a wallet to the caller's key, in two calls: the message, then its signature.

use alloy_primitives::{Address, Bytes};
use axum::Json;
use axum::extract::State;
use domain::account::{Account, Vm};
use serde::{Deserialize, Serialize};
use solver::integrators::wallet_links::{self, MAX_SIGNATURE};
use utoipa::ToSchema;

use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;

#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct LinkBody {
    /// The wallet to link.
    #[schema(value_type = String)]
    wallet: Option<String>,
    /// Of the message, by the wallet's key (EIP-191) or its contract (EIP-1271). Without it the message is answered.
    signature: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkResponse {
    key_id: String,
    wallet: String,
    linked: bool,
    /// The message for the wallet to sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Unix milliseconds until which it can be signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
}

fn wallet(body: &LinkBody) -> Result<Address, ApiError> {
    let bad = |problem: String| ApiError::Address { field: "wallet", problem };
    let text = body.wallet.as_deref().ok_or_else(|| bad("required".to_owned()))?;
    let wallet = Account::read(Vm::Evm, text).map_err(|error| bad(error.to_string()))?.evm();
    wallet.filter(|wallet| !wallet.is_zero()).ok_or_else(|| bad("must not be zero".to_owned()))
}

fn signature(text: &str) -> Result<Bytes, ApiError> {
    let signature = text.parse::<Bytes>().ok().filter(|bytes| !bytes.is_empty() && bytes.len() <= MAX_SIGNATURE);
    let problem = format!("must be hexadecimal, of at most {MAX_SIGNATURE} bytes");
    signature.ok_or(ApiError::Parameter { field: "signature", problem })
}

/// Links a wallet to the caller's key. Its app balance is what sponsored fees and fast fills are paid from.
#[utoipa::path(
    post,
    path = "/keys/wallet",
    security(("apiKey" = []), ("bearer" = [])),
    request_body = LinkBody,
    responses(
        (status = 200, description = "The message to sign or, with its signature, the link", body = LinkResponse),
        (status = 400, description = "Not a wallet, or not its signature", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
    )
)]
pub(crate) async fn link(
    app: State<App>,
    Keyed(key): Keyed,
    ApiJson(body): ApiJson<LinkBody>,
) -> ApiResult<LinkResponse> {
    let wallet = wallet(&body)?;
    let (store, now, service) = (&app.store, app.now(), &app.addresses.base_url);
    let answer = |linked, message, expires_at| LinkResponse {
        key_id: key.id.to_string(),
        wallet: wallet.to_string(),
        linked,
        message,
        expires_at,
    };
    let Some(text) = &body.signature else {
        let link = wallet_links::ask(store, key.id, wallet, app.env.random, now).await?;
        let message = wallet_links::message(service, &link);
        return Ok(Json(answer(false, Some(message), Some(link.expires_at.millis()))));
    };
    let nodes = app.claims.nodes();
    wallet_links::accept(store, service, key.id, wallet, signature(text)?, nodes, now).await?;
    app.keys.forget(key.id);
    Ok(Json(answer(true, None, None)))
}
