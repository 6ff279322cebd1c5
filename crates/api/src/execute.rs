//! `POST /execute`: a call that a smart account has signed for, sent by one of our relayers.

use alloy_primitives::{Address, Bytes, hex};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::account::{Account, Vm};
use domain::api_key::ApiKey;
use domain::ids::{ChainId, NotAnId, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use solver::gasless::SignedAuthorization;
use solver::gasless::execute::{ExecuteError, Wish};
use utoipa::ToSchema;

use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ErrorBody};
use crate::json::{ApiJson, Object};

/// The most bytes of a call.
const MAX_DATA: usize = 32 * 1024;
const MAX_AUTHORIZATIONS: usize = 4;
/// The longest referrer: it is stored with the request.
const MAX_REFERRER: usize = 128;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecuteBody {
    /// `rawCalls`.
    #[schema(value_type = String)]
    execution_kind: Option<String>,
    #[schema(value_type = CallBody)]
    data: Option<Object<CallBody>>,
    #[schema(value_type = Option<ExecutionOptions>)]
    execution_options: Option<Object<ExecutionOptions>>,
    /// The request whose deposit the call brings.
    request_id: Option<String>,
}

/// The call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayedCall)]
pub(crate) struct CallBody {
    #[schema(value_type = u64)]
    chain_id: Option<Value>,
    /// The entry point of ERC-4337, or an account with EIP-7702 code.
    #[schema(value_type = String)]
    to: Option<String>,
    #[schema(value_type = String)]
    data: Option<String>,
    /// Nothing is sent along: absent, or `0`.
    #[schema(value_type = Option<String>)]
    value: Option<Value>,
    #[schema(value_type = Option<Vec<Object>>)]
    authorization_list: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionOptions {
    referrer: Option<String>,
    /// The gas is charged to the app balance of the wallet linked to the key.
    subsidize_fees: Option<bool>,
    /// Not offered: calls on the destination are part of a quote.
    #[schema(value_type = Option<Object>)]
    destination_chain_execution_data: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecuteResponse {
    message: &'static str,
    /// To be polled.
    request_id: String,
}

/// A call that is not sent. Clients read `error` first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecuteRefusal {
    error: String,
    message: String,
    error_code: &'static str,
    status_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<RevertDetails>,
}

/// The way in which a call fails.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevertDetails {
    /// The outermost reason.
    top_level: String,
    /// The innermost one that is known.
    innermost: String,
    /// The contracts on the way to it.
    path: Vec<String>,
    /// The data of the revert.
    revert: String,
}

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

impl ExecuteBody {
    fn wish(self, key: &ApiKey) -> Result<Wish, ApiError> {
        match self.execution_kind.as_deref() {
            Some("rawCalls") => {}
            None => return Err(bad("executionKind", "required")),
            Some(_) => return Err(ApiError::NotOffered { field: "executionKind" }),
        }
        let Object(call) = self.data.ok_or_else(|| bad("data", "required"))?;
        let options = self.execution_options.map(|Object(options)| options).unwrap_or_default();
        if options.referrer.as_ref().is_some_and(|referrer| referrer.len() > MAX_REFERRER) {
            return Err(bad("executionOptions.referrer", format!("must be at most {MAX_REFERRER} bytes")));
        }
        if options.destination_chain_execution_data.is_some() {
            return Err(ApiError::NotOffered { field: "executionOptions.destinationChainExecutionData" });
        }
        let payer = match options.subsidize_fees {
            Some(true) => Some(key.wallet.ok_or(ApiError::Forbidden("no wallet is linked to this key"))?),
            Some(false) | None => None,
        };
        let request = self.request_id.as_deref().map(str::parse::<RequestId>).transpose();
        let request = request.map_err(|error: NotAnId| bad("requestId", error.to_string()))?;
        Ok(Wish {
            chain: call.chain()?,
            to: call.to()?,
            data: call.data()?,
            authorizations: call.authorizations()?,
            request,
            key: key.id,
            payer,
            referrer: options.referrer,
        })
    }
}

impl CallBody {
    fn chain(&self) -> Result<ChainId, ApiError> {
        let id = match &self.chain_id {
            None | Some(Value::Null) => return Err(bad("data.chainId", "required")),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
        };
        id.map(ChainId).ok_or_else(|| bad("data.chainId", "must be a chain's number"))
    }

    fn to(&self) -> Result<Address, ApiError> {
        let text = self.to.as_deref().ok_or_else(|| bad("data.to", "required"))?;
        let problem = |problem: String| ApiError::Address { field: "data.to", problem };
        let account = Account::read(Vm::Evm, text).map_err(|error| problem(error.to_string()))?;
        account.evm().ok_or_else(|| problem("not an address".to_owned()))
    }

    fn data(&self) -> Result<Bytes, ApiError> {
        let nothing = match &self.value {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => matches!(text.as_str(), "" | "0" | "0x" | "0x0"),
            Some(value) => value.as_u64() == Some(0),
        };
        if !nothing {
            return Err(bad("data.value", "must be 0: relayers send no value"));
        }
        let text = self.data.as_deref().ok_or_else(|| bad("data.data", "required"))?;
        let data = text.parse::<Bytes>().ok().filter(|data| (4..=MAX_DATA).contains(&data.len()));
        data.ok_or_else(|| {
            bad("data.data", format!("must be the hexadecimal data of a call, of at most {MAX_DATA} bytes"))
        })
    }

    /// The authorizations, with numbers as numbers or as their text.
    fn authorizations(&self) -> Result<Vec<SignedAuthorization>, ApiError> {
        let list = self.authorization_list.as_deref().unwrap_or_default();
        if list.len() > MAX_AUTHORIZATIONS {
            return Err(bad("data.authorizationList", format!("must be at most {MAX_AUTHORIZATIONS}")));
        }
        let read = |item: &Value| {
            let mut item = item.clone();
            for name in ["chainId", "nonce", "yParity"] {
                let number = match item.get(name) {
                    Some(Value::Number(number)) => number.as_u64(),
                    Some(Value::String(text)) if !text.starts_with("0x") => text.parse().ok(),
                    _ => None,
                };
                if let Some(number) = number {
                    item[name] = format!("{number:#x}").into();
                }
            }
            serde_json::from_value(item).ok()
        };
        let problem = "each needs chainId, address, nonce, yParity, r and s";
        list.iter().map(read).collect::<Option<_>>().ok_or_else(|| bad("data.authorizationList", problem))
    }
}

impl ExecuteRefusal {
    fn new(error: ApiError, request_id: Option<String>) -> (StatusCode, Self) {
        let details = match &error {
            ApiError::Execute(ExecuteError::Reverts { revert, data }) => {
                let said = revert.to_string();
                Some(RevertDetails {
                    top_level: said.clone(),
                    innermost: said,
                    path: Vec::new(),
                    revert: hex::encode_prefixed(data),
                })
            }
            _ => None,
        };
        let (status, body) = error.answer();
        let message = body.message;
        let refusal = Self {
            error: message.clone(),
            message,
            error_code: body.error_code,
            status_code: status.as_u16(),
            request_id,
            details,
        };
        (status, refusal)
    }
}

/// Sends a call that a smart account has signed for: an ERC-4337 bundle, or a batch of an EIP-7702 account.
#[utoipa::path(
    post,
    path = "/execute",
    security(("apiKey" = []), ("bearer" = [])),
    request_body = ExecuteBody,
    responses(
        (status = 200, description = "It is being sent", body = ExecuteResponse),
        (status = 400, description = "It fails, or is not to be sent", body = ExecuteRefusal),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 403, description = "No wallet is linked to the key", body = ExecuteRefusal),
        (status = 404, description = "No such request", body = ExecuteRefusal),
        (status = 409, description = "The request is being processed", body = ExecuteRefusal),
        (status = 429, description = "Too many requests", body = ErrorBody),
    )
)]
pub(crate) async fn execute(
    app: State<App>,
    Keyed(key): Keyed,
    body: Result<ApiJson<ExecuteBody>, ApiError>,
) -> Response {
    let named = body.as_ref().ok().and_then(|ApiJson(body)| body.request_id.clone());
    let executions = app.executions.clone();
    let sent = match body.and_then(|ApiJson(body)| body.wish(&key)) {
        // Committed work goes on whether or not the caller waits for the answer.
        Ok(wish) => match tokio::spawn(executions.execute(wish)).await {
            Ok(sent) => sent.map_err(ApiError::from),
            Err(_) => Err(ApiError::Internal),
        },
        Err(error) => Err(error),
    };
    match sent {
        Ok(id) => Json(ExecuteResponse { message: "The transaction is being sent", request_id: id.to_string() })
            .into_response(),
        Err(error) => {
            let (status, refusal) = ExecuteRefusal::new(error, named);
            (status, Json(refusal)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::api_key::{ApiKeyId, KeyLimits};
    use domain::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn call(member: &str, value: Value) -> CallBody {
        let mut body =
            json!({ "chainId": 8453, "to": format!("{:#x}", Address::repeat_byte(1)), "data": "0x01020304" });
        body[member] = value;
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn relayers_send_no_value() {
        for nothing in [json!(null), json!(0), json!("0"), json!("0x0"), json!("0x"), json!("")] {
            assert!(call("value", nothing.clone()).data().is_ok(), "{nothing}");
        }
        for something in
            [json!(1), json!("1"), json!("0x1"), json!("0x00"), json!(-1), json!(0.5), json!(true), json!({})]
        {
            let refused = call("value", something.clone()).data().unwrap_err().to_string();
            assert_eq!(refused, "data.value: must be 0: relayers send no value", "{something}");
        }
    }

    #[test]
    fn calls_on_the_destination_are_not_passed_over_in_silence() {
        let key = ApiKey {
            id: ApiKeyId::new([7; 10]),
            name: "test".to_owned(),
            wallet: None,
            limits: KeyLimits::default(),
            may_force_refund: false,
            created_at: Timestamp::from_secs(0),
            rotated_at: None,
            revoked_at: None,
        };
        let wish = |options: Value| {
            let body = json!({
                "executionKind": "rawCalls",
                "data": { "chainId": 8453, "to": format!("{:#x}", Address::repeat_byte(1)), "data": "0x01020304" },
                "executionOptions": options,
            });
            serde_json::from_value::<ExecuteBody>(body).unwrap().wish(&key)
        };
        assert!(wish(json!({ "referrer": "test", "destinationChainExecutionData": null })).is_ok());
        for data in [json!({}), json!({ "calls": [] }), json!("0x"), json!([])] {
            let refused = wish(json!({ "destinationChainExecutionData": data })).unwrap_err();
            let field = "executionOptions.destinationChainExecutionData";
            assert!(matches!(refused, ApiError::NotOffered { field: named } if named == field));
        }
    }
}
