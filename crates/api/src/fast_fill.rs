//! `POST /fast-fill`: the destination is paid before the deposit is there, on the word and balance of an integrator.

use axum::Json;
use axum::extract::State;
use domain::ids::RequestId;
use domain::money::{Amount, UsdMicros};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use solver::integrators::fast_fill::{Answer, Wish};
use utoipa::ToSchema;

use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::ApiJson;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FastFillBody {
    /// The request to fill.
    #[schema(value_type = String)]
    request_id: Option<String>,
    /// The amount of the deposit, in smallest units of its currency; the quoted amount unless said. A number is taken
    /// too.
    #[schema(value_type = Option<String>)]
    solver_input_currency_amount: Option<Value>,
    /// Dollars. If the fill is worth more, it is not made.
    #[schema(value_type = Option<f64>)]
    max_fill_amount_usd: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FastFillResponse {
    message: &'static str,
}

fn bad(field: &'static str, problem: &str) -> ApiError {
    ApiError::Parameter { field, problem: problem.to_owned() }
}

impl FastFillBody {
    fn request(&self) -> Result<RequestId, ApiError> {
        let id = self.request_id.as_deref().ok_or_else(|| bad("requestId", "required"))?;
        id.parse().map_err(|error: domain::ids::NotAnId| bad("requestId", &error.to_string()))
    }

    fn amount(&self) -> Result<Option<Amount>, ApiError> {
        let text = match &self.solver_input_currency_amount {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if number.is_u64() => number.to_string(),
            Some(_) => String::new(),
        };
        let amount = text.parse::<Amount>().ok().filter(|amount| !amount.is_zero());
        let problem = "must be a whole number of smallest units, more than zero";
        amount.map(Some).ok_or_else(|| bad("solverInputCurrencyAmount", problem))
    }

    fn most(&self) -> Result<Option<UsdMicros>, ApiError> {
        let text = match &self.max_fill_amount_usd {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => String::new(),
        };
        micros(&text).map(Some).ok_or_else(|| bad("maxFillAmountUsd", "must be an amount of dollars"))
    }
}

/// Dollars in decimal text, without the fraction of a millionth.
fn micros(text: &str) -> Option<UsdMicros> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || fraction.len() > 18 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.get(..6).unwrap_or(fraction);
    format!("{whole}{fraction:0<6}").parse().ok().map(UsdMicros)
}

/// Pays a transfer's recipient before its deposit is there, with the balance of the wallet linked to the key standing for
/// it.
#[utoipa::path(
    post,
    path = "/fast-fill",
    security(("apiKey" = []), ("bearer" = [])),
    request_body = FastFillBody,
    responses(
        (status = 200, description = "The fill is on its way, or was made before", body = FastFillResponse),
        (status = 400, description = "It cannot be filled ahead of its deposit", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No wallet is linked to the key, or its balance is too low", body = ErrorBody),
        (status = 404, description = "No such request", body = ErrorBody),
        (status = 409, description = "It is being processed", body = ErrorBody),
        (status = 429, description = "Too many requests", body = ErrorBody),
    )
)]
pub(crate) async fn fast_fill(
    app: State<App>,
    Keyed(key): Keyed,
    ApiJson(body): ApiJson<FastFillBody>,
) -> ApiResult<FastFillResponse> {
    let wallet = key.wallet.ok_or(ApiError::Forbidden("no wallet is linked to this key"))?;
    let wish = Wish { request: body.request()?, key: key.id, wallet, amount: body.amount()?, most: body.most()? };
    // Committed work goes on whether or not the caller waits for the answer.
    let answer = tokio::spawn(app.fast_fills.clone().fill(wish)).await.map_err(|_| ApiError::Internal)??;
    let message = match answer {
        Answer::Queued => "The fill is on its way",
        Answer::DepositIsIn => "The deposit is in: the fill is on its way without a fast fill",
        Answer::Done => "This request has been executed already",
    };
    Ok(Json(FastFillResponse { message }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dollars_and_amounts_are_read_in_the_forms_clients_send() {
        let body = |amount: Value, most: Value| FastFillBody {
            request_id: None,
            solver_input_currency_amount: Some(amount),
            max_fill_amount_usd: Some(most),
        };
        for (most, expected) in [
            (json!(5), Some(5_000_000)),
            (json!(0.1), Some(100_000)),
            (json!("12.3456789"), Some(12_345_678)),
            (Value::Null, None),
        ] {
            assert_eq!(body(Value::Null, most).most().unwrap(), expected.map(UsdMicros));
        }
        for most in [json!(-1), json!("x"), json!(true), json!(1e30), json!(".5"), json!("1e3")] {
            assert!(body(Value::Null, most.clone()).most().is_err(), "{most}");
        }
        for (amount, expected) in [(json!("100"), Some("100")), (json!(100), Some("100")), (Value::Null, None)] {
            let read = body(amount, Value::Null).amount().unwrap().map(|amount| amount.to_string());
            assert_eq!(read.as_deref(), expected);
        }
        for amount in [json!("0"), json!(0), json!(-1), json!(1.5), json!("0x10"), json!([])] {
            assert!(body(amount.clone(), Value::Null).amount().is_err(), "{amount}");
        }
    }
}
