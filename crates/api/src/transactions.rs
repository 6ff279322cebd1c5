//! `POST /transactions/index` and `POST /transactions/single`: hints of clients about transactions they have sent.
//!
//! A hint and no more: deposits are found on the chain by themselves, whoever sent them and whether or not anyone says
//! so. The transaction is checked for form, noted, and looked up by the worker; no caller waits for that.

use alloy_primitives::B256;
use axum::Json;
use axum::extract::State;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::venue;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexBody {
    /// The chain, as text; a number is taken too.
    #[schema(value_type = String)]
    chain_id: Value,
    tx_hash: String,
    request_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SingleBody {
    request_id: String,
    /// The chain, as text; a number is taken too.
    #[schema(value_type = String)]
    chain_id: Value,
    /// The transaction as JSON text, with its `txHash`.
    tx: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Noted {
    message: &'static str,
}

const NOTED: Noted = Noted { message: "Noted; deposits are found on the chain by themselves" };

fn chain(app: &App, value: &Value) -> Result<ChainId, ApiError> {
    let id = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let id = id.ok_or_else(|| ApiError::Parameter { field: "chainId", problem: "must be a chain id".to_owned() })?;
    match app.catalog.chain(ChainId(id)) {
        Some(chain) => Ok(chain.id),
        None => Err(ApiError::UnsupportedChain { field: "chainId", chain: ChainId(id) }),
    }
}

/// Hashes and ids have one form, and the venue's another.
fn hash(field: &'static str, chain: ChainId, text: &str) -> Result<B256, ApiError> {
    if chain == venue::CHAIN {
        let problem = "must be 80 hexadecimal digits: a transaction of the venue".to_owned();
        return venue::tx_key_of(text).ok_or(ApiError::Parameter { field, problem });
    }
    let parsed = text.parse::<OrderId>();
    parsed.map(|id| id.0).map_err(|error| ApiError::Parameter { field, problem: error.to_string() })
}

fn check_request(text: &str) -> Result<(), ApiError> {
    let parsed = text.parse::<RequestId>();
    parsed.map(drop).map_err(|error| ApiError::Parameter { field: "requestId", problem: error.to_string() })
}

/// Takes note of a deposit transaction.
#[utoipa::path(
    post,
    path = "/transactions/index",
    request_body = IndexBody,
    responses(
        (status = 200, description = "Noted", body = Noted),
        (status = 400, description = "Not a transaction of a chain we serve", body = ErrorBody),
    )
)]
pub(crate) async fn index(app: State<App>, ApiJson(body): ApiJson<IndexBody>) -> ApiResult<Noted> {
    let chain = chain(&app, &body.chain_id)?;
    let tx = hash("txHash", chain, &body.tx_hash)?;
    body.request_id.as_deref().map_or(Ok(()), check_request)?;
    app.note_hint(chain, tx, &body.tx_hash);
    Ok(Json(NOTED))
}

/// Takes note of a transaction on the destination's own chain.
#[utoipa::path(
    post,
    path = "/transactions/single",
    request_body = SingleBody,
    responses(
        (status = 200, description = "Noted", body = Noted),
        (status = 400, description = "Not a transaction of a chain we serve", body = ErrorBody),
    )
)]
pub(crate) async fn single(app: State<App>, ApiJson(body): ApiJson<SingleBody>) -> ApiResult<Noted> {
    let chain = chain(&app, &body.chain_id)?;
    check_request(&body.request_id)?;
    let tx: Value = serde_json::from_str(&body.tx).unwrap_or_default();
    let text = tx["txHash"].as_str().unwrap_or_default();
    app.note_hint(chain, hash("tx", chain, text)?, text);
    Ok(Json(NOTED))
}
