//! The operator's own routes: they ask for a token from the configuration.

use alloy_primitives::{B256, keccak256};
use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use store::risk;
use store::treasury_transfers::{self, TreasuryTransferId, TreasuryTransferRow};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::in_process::Acting;
use crate::json::ApiQuery;

/// The operator's token, as its hash: what is compared tells nothing about what it was made of.
#[derive(Clone, Copy, Debug)]
pub struct OperatorToken(B256);

impl OperatorToken {
    pub fn new(token: &str) -> Self {
        Self(keccak256(token))
    }

    pub fn is(self, given: &[u8]) -> bool {
        keccak256(given) == self.0
    }
}

/// The caller had the operator's token.
#[derive(Debug)]
pub(crate) struct Operator;

impl FromRequestParts<App> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if matches!(parts.extensions.get(), Some(Acting::Operator)) {
            return Ok(Self);
        }
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        match (given, app.operator) {
            (Some(given), Some(token)) if token.is(given.as_bytes()) => Ok(Self),
            _ => Err(ApiError::OperatorOnly),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RiskResponse {
    chains: Vec<ChainRisk>,
}

/// The money out against deposits on a chain that are not final, in dollars.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainRisk {
    chain_id: u64,
    name: String,
    open_usd: String,
    open_limit_usd: String,
    /// Paid out in the current minute.
    minute_usd: String,
    minute_limit_usd: String,
}

/// Says what would be lost if the chains took back what is not final.
#[utoipa::path(
    get,
    path = "/operator/risk",
    security(("operator" = [])),
    responses(
        (status = 200, description = "By chain", body = RiskResponse),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
    )
)]
pub(crate) async fn risk(_: Operator, app: State<App>) -> ApiResult<RiskResponse> {
    let now = app.now();
    let used = app.store.read(move |tx| risk::used(tx, now)).await?;
    let chains = app.chains.values().map(|handle| {
        let used = used.iter().find(|used| used.chain == handle.id());
        let limits = handle.settings.risk;
        ChainRisk {
            chain_id: handle.id().0,
            name: handle.chain.name.clone(),
            open_usd: used.map(|used| used.open).unwrap_or_default().to_string(),
            open_limit_usd: limits.open.to_string(),
            minute_usd: used.map(|used| used.this_minute).unwrap_or_default().to_string(),
            minute_limit_usd: limits.per_minute.to_string(),
        }
    });
    Ok(Json(RiskResponse { chains: chains.collect() }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReceiptsQuery {
    /// Only those before this one: the `id` that a page ended with.
    before: Option<i64>,
}

/// Money that reached the treasury and could be credited to nobody.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptsResponse {
    receipts: Vec<ReceiptBody>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UnattributedReceipt)]
pub(crate) struct ReceiptBody {
    id: i64,
    chain_id: u64,
    tx_hash: String,
    block: u64,
    sender: String,
    currency: String,
    amount: String,
    /// `form`, `ambiguous`, `currency`, `other-chain`, `nothing-moved`, `blocked-wallet` or `amount`.
    reason: String,
}

impl From<TreasuryTransferRow> for ReceiptBody {
    fn from(stored: TreasuryTransferRow) -> Self {
        let transfer = stored.transfer;
        Self {
            id: stored.id.0,
            chain_id: transfer.chain.0,
            tx_hash: transfer.tx.to_string(),
            block: transfer.block_number,
            sender: format!("{:#x}", transfer.sender),
            currency: format!("{:#x}", transfer.currency),
            amount: transfer.amount.to_string(),
            reason: transfer.account.err().unwrap_or_default(),
        }
    }
}

/// Receipts shown at once.
const MAX_TRANSFERS: i64 = 100;

/// Lists final transfers to the treasury that a person has to look at, newest first.
#[utoipa::path(
    get,
    path = "/operator/receipts",
    security(("operator" = [])),
    params(ReceiptsQuery),
    responses(
        (status = 200, description = "At most a hundred of them", body = ReceiptsResponse),
        (status = 400, description = "Not a query", body = ErrorBody),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
    )
)]
pub(crate) async fn receipts(
    _: Operator,
    app: State<App>,
    ApiQuery(query): ApiQuery<ReceiptsQuery>,
) -> ApiResult<ReceiptsResponse> {
    let before = query.before.map(TreasuryTransferId);
    let found = app.store.read(move |tx| treasury_transfers::unattributed(tx, before, MAX_TRANSFERS)).await?;
    Ok(Json(ReceiptsResponse { receipts: found.into_iter().map(ReceiptBody::from).collect() }))
}
