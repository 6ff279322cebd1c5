//! `POST /quote/v2`.

use axum::Json;
use axum::extract::State;
use domain::account::Account;
use domain::catalog::Catalog;
use domain::ids::ChainId;
use domain::quote::{Ask, CurrencyKey, Trade};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

mod response;

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{Answer, ApiJson};
use response::{PriceResponse, QuoteResponse};

/// What the client asks for. Members we do not know are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuoteBody {
    /// The sender on the origin chain.
    user: String,
    /// Who receives the output; the user unless said.
    recipient: Option<String>,
    origin_chain_id: u64,
    destination_chain_id: u64,
    /// The zero address is the native currency.
    origin_currency: String,
    destination_currency: String,
    /// Smallest units: of the input, or of the output where the trade type fixes that.
    amount: String,
    /// `EXACT_INPUT` unless said, `EXACT_OUTPUT` or `EXPECTED_OUTPUT`.
    trade_type: Option<String>,
    /// Where refunds go; the user unless said.
    refund_to: Option<String>,
    /// Basis points, as text; a number is taken too.
    #[schema(value_type = Option<String>)]
    slippage_tolerance: Option<Value>,
    referrer: Option<String>,
    /// False for a plain transfer to the depository with the order id appended.
    explicit_deposit: Option<bool>,
    /// Seconds after which the deposit is refunded instead of filled.
    ttl: Option<u32>,
    /// Adds the solver's signature of the order.
    include_protocol_data: Option<bool>,
    #[schema(value_type = Option<Vec<Object>>)]
    txs: Option<Vec<Value>>,
    #[schema(value_type = Option<Vec<Object>>)]
    app_fees: Option<Vec<Value>>,
    #[schema(value_type = Option<Vec<Object>>)]
    authorization_list: Option<Vec<Value>>,
    subsidize_fees: Option<bool>,
    fixed_rate: Option<String>,
    topup_gas: Option<bool>,
    use_deposit_address: Option<bool>,
    strict: Option<bool>,
    recovery_address: Option<String>,
    use_permit: Option<bool>,
    #[schema(value_type = Option<u64>)]
    permit_expiry: Option<Value>,
}

/// What a referrer may be at most: it is stored with every quote.
const MAX_REFERRER: usize = 128;

impl QuoteBody {
    fn into_ask(self, catalog: &Catalog) -> Result<Ask, ApiError> {
        self.refuse_what_is_not_offered()?;
        let account = |field: &'static str, chain: ChainId, text: &str| {
            let vm = catalog.chain(chain).map_or(domain::account::Vm::Evm, |chain| chain.vm);
            Account::parse(vm, text).map_err(|error| ApiError::Address { field, problem: error.to_string() })
        };
        let currency = |field: &'static str, chain: ChainId, text: &str| match account(field, chain, text) {
            Ok(address) => Ok(CurrencyKey { chain, address }),
            Err(_) if field == "originCurrency" => Err(solver::QuoteError::InvalidInputCurrency { chain }.into()),
            Err(_) => Err(ApiError::from(solver::QuoteError::InvalidOutputCurrency { chain })),
        };
        let (origin, destination) = (ChainId(self.origin_chain_id), ChainId(self.destination_chain_id));
        // An unknown chain is said first: without it no address can be read.
        for (field, chain) in [("originChainId", origin), ("destinationChainId", destination)] {
            if catalog.chain(chain).is_none() {
                return Err(solver::QuoteError::UnsupportedChain { field, chain }.into());
            }
        }
        let user = account("user", origin, &self.user)?;
        let recipient = match &self.recipient {
            Some(text) => account("recipient", destination, text)?,
            None => user.clone(),
        };
        let amount = self.amount.parse::<domain::money::Amount>();
        let amount = amount.map_err(|error| ApiError::Parameter { field: "amount", problem: error.to_string() })?;
        if amount.is_zero() {
            return Err(ApiError::Parameter { field: "amount", problem: "must be more than zero".to_owned() });
        }
        if self.referrer.as_ref().is_some_and(|referrer| referrer.len() > MAX_REFERRER) {
            let problem = format!("must be at most {MAX_REFERRER} bytes");
            return Err(ApiError::Parameter { field: "referrer", problem });
        }
        if self.ttl == Some(0) {
            return Err(ApiError::Parameter { field: "ttl", problem: "must be more than zero".to_owned() });
        }
        let trade = match self.trade_type.as_deref() {
            None | Some("EXACT_INPUT") => Trade::ExactInput,
            Some("EXACT_OUTPUT") => Trade::ExactOutput,
            Some("EXPECTED_OUTPUT") => Trade::ExpectedOutput,
            Some(_) => {
                let problem = "must be EXACT_INPUT, EXACT_OUTPUT or EXPECTED_OUTPUT".to_owned();
                return Err(ApiError::Parameter { field: "tradeType", problem });
            }
        };
        Ok(Ask {
            trade,
            refund_to: self.refund_to.as_deref().map(|text| account("refundTo", origin, text)).transpose()?,
            origin: currency("originCurrency", origin, &self.origin_currency)?,
            destination: currency("destinationCurrency", destination, &self.destination_currency)?,
            user,
            recipient,
            amount,
            slippage_bps: self.slippage_tolerance.as_ref().map(slippage).transpose()?,
            referrer: self.referrer,
            explicit_deposit: self.explicit_deposit.unwrap_or(true),
            ttl_secs: self.ttl,
        })
    }

    /// Each of these changes where money goes, so none is passed over in silence.
    fn refuse_what_is_not_offered(&self) -> Result<(), ApiError> {
        let text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let list = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if list(&self.txs) {
            return Err(ApiError::ExtraTxs);
        }
        if self.subsidize_fees == Some(true) {
            return Err(ApiError::KeyRequired { field: "subsidizeFees" });
        }
        if text(&self.fixed_rate) {
            return Err(ApiError::KeyRequired { field: "fixedRate" });
        }
        let asked = [
            ("appFees", list(&self.app_fees)),
            ("authorizationList", list(&self.authorization_list)),
            ("topupGas", self.topup_gas == Some(true)),
            ("useDepositAddress", self.use_deposit_address == Some(true)),
            ("strict", self.strict == Some(true)),
            ("recoveryAddress", text(&self.recovery_address)),
            ("usePermit", self.use_permit == Some(true)),
            ("permitExpiry", self.permit_expiry.as_ref().is_some_and(|value| !value.is_null())),
        ];
        match asked.into_iter().find(|(_, asked)| *asked) {
            Some((field, _)) => Err(ApiError::NotOffered { field }),
            None => Ok(()),
        }
    }
}

fn slippage(value: &Value) -> Result<u16, ApiError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(ApiError::Slippage),
    };
    let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&bps| digits && bps <= 10_000).ok_or(ApiError::Slippage)
}

/// Prices a transfer and says what to send for it.
#[utoipa::path(
    post,
    path = "/quote/v2",
    request_body = QuoteBody,
    responses(
        (status = 200, description = "The quote", body = QuoteResponse),
        (status = 400, description = "It cannot be quoted", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 429, description = "Too many requests", body = ErrorBody),
        (status = 503, description = "Prices are not known at the moment", body = ErrorBody),
    )
)]
pub async fn quote(app: State<App>, ApiJson(body): ApiJson<QuoteBody>) -> Result<Answer<QuoteResponse>, ApiError> {
    let signed = body.include_protocol_data == Some(true);
    let ask = body.into_ask(&app.catalog)?;
    let quoted = app.solver.quote(ask).await?;
    let signature = signed.then(|| app.solver.order_signature(quoted.order_id));
    QuoteResponse::new(&quoted, &app.catalog, signature).map(Answer).ok_or(ApiError::Internal)
}

/// Prices a transfer without promising it: no steps, nothing kept.
#[utoipa::path(
    post,
    path = "/price",
    request_body = QuoteBody,
    responses(
        (status = 200, description = "The price", body = PriceResponse),
        (status = 400, description = "It cannot be priced", body = ErrorBody),
        (status = 503, description = "Prices are not known at the moment", body = ErrorBody),
    )
)]
pub async fn price(app: State<App>, ApiJson(body): ApiJson<QuoteBody>) -> ApiResult<PriceResponse> {
    let priced = app.solver.price(body.into_ask(&app.catalog)?)?;
    let quote = QuoteResponse::new(&priced, &app.catalog, None).ok_or(ApiError::Internal)?;
    Ok(Json(quote.into_price()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slippage_is_a_whole_number_of_basis_points() {
        use serde_json::json;
        assert_eq!(slippage(&json!("0")).ok(), Some(0));
        assert_eq!(slippage(&json!("10000")).ok(), Some(10_000));
        assert_eq!(slippage(&json!(50)).ok(), Some(50));
        for bad in ["", "10001", "-1", "+5", "1.5", "0x1", "５"] {
            assert!(slippage(&json!(bad)).is_err(), "{bad}");
        }
        for bad in [json!(-1), json!(1.5), json!(1e3), json!(true), json!([])] {
            assert!(slippage(&bad).is_err(), "{bad}");
        }
    }
}
