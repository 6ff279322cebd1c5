//! `GET /currencies/token/price`, as a number and in `v2` as text: what one whole unit costs in US dollars.

use alloy_primitives::Address;
use axum::Json;
use axum::extract::State;
use domain::account::Account;
use domain::money::{Amount, OutOfRange, Price, UsdMicros, pow10};
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
pub(crate) struct PriceQuery {
    /// The currency; the zero address is the native one.
    address: String,
    chain_id: u64,
}

impl PriceQuery {
    fn price(&self, app: &App) -> Result<Price, ApiError> {
        let chain = named(&app.catalog, "chainId", self.chain_id)?;
        let address = Account::read(chain.vm, &self.address);
        let address = address.map_err(|error| ApiError::Address { field: "address", problem: error.to_string() })?;
        let currency = chain.currency(&address).ok_or_else(|| ApiError::Parameter {
            field: "address",
            problem: format!("not a currency of chain {}", chain.id),
        })?;
        let market = app.market.current(chain.id).map_err(QuoteError::from)?;
        let price = market.price(currency.address.evm().unwrap_or(Address::ZERO)).map_err(QuoteError::from)?;
        Ok(price)
    }
}

/// A price in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenPrice {
    /// Zero where it is below a millionth: clients round to six places and divide by the result.
    price: f64,
}

/// A price in US dollars, exactly.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenPriceV2 {
    /// A decimal of at most eighteen places.
    price: String,
}

/// The price to eighteen places, which is as many as feeds have.
fn decimal(price: Price) -> Result<String, OutOfRange> {
    let dollar = Price::new(1, 0)?;
    Ok(Price::exchange((price, 0), (dollar, 0))?.decimal())
}

fn number(price: Price) -> Result<f64, OutOfRange> {
    let one_unit = Amount::new(pow10(0));
    if price.usd_floor(one_unit, 0) == Ok(UsdMicros(0)) {
        return Ok(0.0);
    }
    decimal(price)?.parse().map_err(|_| OutOfRange)
}

/// Says what a currency costs.
#[utoipa::path(
    get,
    path = "/currencies/token/price",
    params(PriceQuery),
    responses(
        (status = 200, description = "The price", body = TokenPrice),
        (status = 400, description = "No such currency", body = ErrorBody),
        (status = 503, description = "The price is not known at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn token_price(app: State<App>, ApiQuery(query): ApiQuery<PriceQuery>) -> ApiResult<TokenPrice> {
    let price = number(query.price(&app)?).map_err(|OutOfRange| ApiError::Internal)?;
    Ok(Json(TokenPrice { price }))
}

/// Says exactly what a currency costs.
#[utoipa::path(
    get,
    path = "/currencies/token/price/v2",
    params(PriceQuery),
    responses(
        (status = 200, description = "The price", body = TokenPriceV2),
        (status = 400, description = "No such currency", body = ErrorBody),
        (status = 503, description = "The price is not known at the moment", body = ErrorBody),
    )
)]
pub(crate) async fn token_price_v2(app: State<App>, ApiQuery(query): ApiQuery<PriceQuery>) -> ApiResult<TokenPriceV2> {
    let price = decimal(query.price(&app)?).map_err(|OutOfRange| ApiError::Internal)?;
    Ok(Json(TokenPriceV2 { price }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_exact_as_text_and_never_tiny_as_a_number() {
        for (answer, decimals, text, number_text) in [
            (300_000_000_000, 8, "3000.0", "3000.0"),
            (100_000_000, 8, "1.0", "1.0"),
            (99_987_654, 8, "0.99987654", "0.99987654"),
            (1, 6, "0.000001", "1e-6"),
            (99, 8, "0.00000099", "0.0"),
            (1, 18, "0.000000000000000001", "0.0"),
            (123_456_789_012_345_678_901, 18, "123.456789012345678901", "123.45678901234568"),
        ] {
            let price = Price::new(answer, decimals).unwrap();
            assert_eq!(decimal(price).unwrap(), text);
            let rendered = serde_json::to_string(&number(price).unwrap()).unwrap();
            assert_eq!(rendered, number_text, "{text}");
        }
    }

    #[test]
    fn no_price_is_too_large_to_say() {
        for decimals in [0, 18, 36] {
            let price = Price::new(u128::MAX, decimals).unwrap();
            assert!(decimal(price).is_ok_and(|text| text.starts_with("340")), "{decimals}");
            assert!(number(price).is_ok_and(f64::is_finite), "{decimals}");
        }
    }
}
