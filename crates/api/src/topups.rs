//! `POST /operator/topups`: what the fillers' wallets lack of the native currency, and on request the treasury gives
//! it.

use axum::Json;
use axum::extract::State;
use domain::catalog::Currency;
use serde::{Deserialize, Serialize};
use solver::operator::gas_refill::{Holding, Report};
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;
use crate::operator::Operator;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopUpsBody {
    /// Without it, what is lacking is only said.
    #[serde(default)]
    send: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopUpsResponse {
    /// Those that say what their wallets should have.
    chains: Vec<ChainFloat>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainFloat {
    chain_id: u64,
    name: String,
    symbol: String,
    /// The treasury's balance, in whole units like all amounts here.
    treasury: String,
    wallets: Vec<WalletFloat>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WalletFloat {
    wallet: String,
    has: String,
    /// The amount that fills it up, where that is worth a transaction.
    #[schema(required = true)]
    lacks: Option<String>,
    /// It was asked for and the worker has not sent it yet.
    asked: bool,
    /// The reason the worker waits, where it has looked.
    #[schema(required = true)]
    waits_for: Option<String>,
    /// The transfer that was sent and is not final yet.
    #[schema(required = true)]
    under_way: Option<TopUpUnderWay>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopUpUnderWay {
    amount: String,
    #[schema(required = true)]
    tx_hash: Option<String>,
}

/// Fills up the wallets that have less than they should from the treasury.
#[utoipa::path(
    post,
    path = "/operator/topups",
    security(("operator" = [])),
    request_body = TopUpsBody,
    responses(
        (status = 200, description = "By chain", body = TopUpsResponse),
        (status = 400, description = "Not such a body", body = ErrorBody),
        (status = 401, description = "The operator's token is needed", body = ErrorBody),
    )
)]
pub(crate) async fn top_ups(
    _: Operator,
    app: State<App>,
    ApiJson(body): ApiJson<TopUpsBody>,
) -> ApiResult<TopUpsResponse> {
    if body.send {
        app.commands.refill_gas().await?;
    }
    let reports = app.commands.gas_report().await?;
    let chains = reports.iter().map(|report| rendered(&app, report)).collect::<Result<_, _>>()?;
    Ok(Json(TopUpsResponse { chains }))
}

fn rendered(app: &App, report: &Report) -> Result<ChainFloat, ApiError> {
    let chain = app.catalog.chain(report.chain).ok_or(ApiError::Internal)?;
    Ok(ChainFloat {
        chain_id: report.chain.0,
        name: chain.name.clone(),
        symbol: chain.native.symbol.clone(),
        treasury: report.treasury.formatted(chain.native.decimals),
        wallets: report.wallets.iter().map(|holding| wallet(holding, &chain.native)).collect(),
    })
}

fn wallet(holding: &Holding, native: &Currency) -> WalletFloat {
    WalletFloat {
        wallet: holding.wallet.to_string(),
        has: holding.has.formatted(native.decimals),
        lacks: holding.lacks.map(|amount| amount.formatted(native.decimals)),
        asked: holding.wish.is_some(),
        waits_for: holding.wish.as_ref().and_then(|wish| wish.reason.clone()),
        under_way: holding.under_way.as_ref().map(|payment| TopUpUnderWay {
            amount: payment.amount.formatted(native.decimals),
            tx_hash: payment.tx.map(|hash| hash.to_string()),
        }),
    }
}
