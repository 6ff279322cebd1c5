//! `GET /chains/liquidity`: what the solver holds on a chain.

use alloy_primitives::Address;
use axum::Json;
use axum::extract::State;
use domain::catalog::Currency;
use domain::money::{Amount, OutOfRange};
use market::Snapshot;
use serde::{Deserialize, Serialize};
use solver::QuoteError;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::chains::named;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiQuery;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct LiquidityQuery {
    chain_id: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiquidityResponse {
    liquidity: Vec<Holding>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holding {
    chain_id: u64,
    currency_id: String,
    symbol: String,
    address: String,
    decimals: u8,
    /// Smallest units.
    balance: String,
    /// Null where there is no current price.
    #[schema(required = true)]
    amount_usd: Option<String>,
}

impl Holding {
    fn new(currency: &Currency, market: &Snapshot) -> Result<Self, OutOfRange> {
        let balance = balance(currency, market)?;
        let price = market.price(currency.address.evm().unwrap_or(Address::ZERO)).ok();
        let usd = price.and_then(|price| price.usd_floor(balance, currency.decimals).ok());
        Ok(Self {
            chain_id: currency.chain.0,
            currency_id: currency.id.clone(),
            symbol: currency.symbol.clone(),
            address: currency.address.to_string(),
            decimals: currency.decimals,
            balance: balance.to_string(),
            amount_usd: usd.map(|usd| usd.to_string()),
        })
    }
}

/// The solver's balance of a currency: the native one lies with the wallets that pay, tokens with the treasury.
pub(crate) fn balance(currency: &Currency, market: &Snapshot) -> Result<Amount, OutOfRange> {
    if currency.native {
        return market.native.values().try_fold(Amount::ZERO, |sum, &held| sum.checked_add(held));
    }
    let funds = currency.address.evm().and_then(|token| market.tokens.get(&token));
    Ok(funds.map_or(Amount::ZERO, |funds| funds.treasury))
}

/// Says what the solver holds on a chain.
#[utoipa::path(
    get,
    path = "/chains/liquidity",
    params(LiquidityQuery),
    responses(
        (status = 200, description = "Its holdings", body = LiquidityResponse),
        (status = 400, description = "No such chain", body = ErrorBody),
        (status = 503, description = "The chain cannot be read at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn liquidity(
    app: State<App>,
    ApiQuery(query): ApiQuery<LiquidityQuery>,
) -> ApiResult<LiquidityResponse> {
    let chain = named(&app.catalog, "chainId", query.chain_id)?;
    let market = app.market.current(chain.id).map_err(QuoteError::from)?;
    let holdings = chain.held().map(|currency| Holding::new(currency, &market)).collect::<Result<_, _>>();
    Ok(Json(LiquidityResponse { liquidity: holdings.map_err(|OutOfRange| ApiError::Internal)? }))
}
