//! Withdrawing an app balance: `POST /app-fees/{wallet}/claim` says what is to be signed, `POST /execute/permits`
//! (`permits.rs`) takes the signature, `GET /app-fees/{wallet}/claims` tells what became of it.

use alloy_primitives::Address;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::account::{Account, Vm};
use domain::catalog::Catalog;
use domain::ids::ChainId;
use domain::ledger;
use domain::money::{Amount, Price, Signed, UsdMicros};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use solver::integrators::claims::Wish;
use store::claims::{self, Claim, Listed};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::app_fees::wallet;
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{ApiJson, ApiPath, ApiQuery};
use crate::permits;
use crate::wire::{AmountBody, Rendered, iso};

/// Claims on one page, unless said, and at the most.
const PAGE: u16 = 20;
const MAX_PAGE: u16 = 50;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimBody {
    /// The chain on which it is paid out: that of app balances.
    #[schema(value_type = u64)]
    chain_id: Option<Value>,
    /// The currency in which it is paid out: USDC.
    #[schema(value_type = String)]
    currency: Option<Value>,
    /// Whom to pay; the wallet itself unless said.
    #[schema(value_type = Option<String>)]
    recipient: Option<Value>,
    /// Smallest units, as text; all that is available unless said.
    #[schema(value_type = Option<String>)]
    amount: Option<Value>,
}

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

fn address(field: &'static str, value: Option<&Value>) -> Result<Option<Address>, ApiError> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_str().unwrap_or_default(),
    };
    let bad = |problem: String| ApiError::Address { field, problem };
    Ok(Account::read(Vm::Evm, text).map_err(|error| bad(error.to_string()))?.evm())
}

impl ClaimBody {
    fn wish(&self, wallet: Address) -> Result<Wish, ApiError> {
        let required = |field: &'static str| bad(field, "required");
        let chain = match &self.chain_id {
            None | Some(Value::Null) => return Err(required("chainId")),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
        };
        Ok(Wish {
            wallet,
            chain: ChainId(chain.ok_or_else(|| bad("chainId", "must be a chain's number"))?),
            currency: address("currency", self.currency.as_ref())?.ok_or_else(|| required("currency"))?,
            recipient: address("recipient", self.recipient.as_ref())?.unwrap_or(wallet),
            amount: self.amount()?,
        })
    }

    fn amount(&self) -> Result<Option<Amount>, ApiError> {
        let text = match &self.amount {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(_) => String::new(),
        };
        let amount = text.parse::<Amount>().ok().filter(|amount| !amount.is_zero());
        let problem = "must be a whole number of smallest units, more than zero, as text";
        amount.map(Some).ok_or_else(|| bad("amount", problem))
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimResponse {
    steps: [ClaimStep; 1],
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimStep {
    id: &'static str,
    action: &'static str,
    description: String,
    kind: &'static str,
    request_id: String,
    items: [ClaimItem; 1],
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimItem {
    status: &'static str,
    data: ClaimData,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimData {
    sign: ClaimSign,
    post: ClaimPost,
}

/// The wallet signs the 32 bytes of `message` as a personal message (EIP-191); a contract answers for them (EIP-1271).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimSign {
    signature_kind: &'static str,
    message: String,
}

/// Where the signature goes, as the query's `signature`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimPost {
    endpoint: &'static str,
    method: &'static str,
    body: ClaimPermit,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimPermit {
    kind: &'static str,
    request_id: String,
}

impl ClaimResponse {
    fn new(claim: &Claim, catalog: &Catalog) -> Option<Self> {
        let currency = ledger::currency_of(catalog)?;
        let units = claim.amount.in_units(currency.decimals).ok()?;
        let id = claim.id.to_string();
        let amount = Signed::cost(units).scaled(currency.decimals);
        let step = ClaimStep {
            id: "authorize",
            action: "Sign to withdraw the app balance",
            description: format!("Withdraw {amount} {} to {:#x}", currency.symbol, claim.recipient),
            kind: "signature",
            request_id: id.clone(),
            items: [ClaimItem {
                status: "incomplete",
                data: ClaimData {
                    sign: ClaimSign { signature_kind: "eip191", message: id.clone() },
                    post: ClaimPost {
                        endpoint: "/execute/permits",
                        method: "POST",
                        body: ClaimPermit { kind: permits::CLAIM, request_id: id },
                    },
                },
            }],
        };
        Some(Self { steps: [step] })
    }
}

/// Says what a wallet has to sign to be paid its app balance, or a part of it. Nothing moves until it has.
#[utoipa::path(
    post,
    path = "/app-fees/{wallet}/claim",
    params(("wallet" = String, Path, description = "The wallet whose balance it is")),
    request_body = ClaimBody,
    responses(
        (status = 200, description = "The data to sign; good for ten minutes and for one use", body = ClaimResponse),
        (status = 400, description = "Not to be paid out so, or more than is available", body = ErrorBody),
    )
)]
pub(crate) async fn claim(
    app: State<App>,
    ApiPath(wallet_text): ApiPath,
    ApiJson(body): ApiJson<ClaimBody>,
) -> ApiResult<ClaimResponse> {
    let claim = app.claims.ask(body.wish(wallet(&wallet_text)?)?).await?;
    ClaimResponse::new(&claim, &app.catalog).map(Json).ok_or(ApiError::Internal)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ClaimsQuery {
    /// From 1 to 50; 20 unless said.
    #[param(value_type = Option<u16>)]
    limit: Option<String>,
    /// Where the page before ended.
    continuation: Option<String>,
}

impl ClaimsQuery {
    fn limit(&self) -> Result<u16, ApiError> {
        let Some(text) = &self.limit else { return Ok(PAGE) };
        let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
        limit.ok_or_else(|| bad("limit", format!("must be from 1 to {MAX_PAGE}")))
    }

    fn before(&self) -> Result<Option<i64>, ApiError> {
        let Some(text) = &self.continuation else { return Ok(None) };
        let before = text.parse().ok().filter(|before| *before >= 0);
        before.map(Some).ok_or_else(|| bad("continuation", "must be that of a page before"))
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claims)]
pub(crate) struct ClaimsResponse<'a> {
    /// Newest first.
    claims: Vec<ClaimRecord<'a>>,
    /// For the next page; none where there is none.
    #[schema(required = true)]
    continuation: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Claim)]
pub(crate) struct ClaimRecord<'a> {
    claim_id: String,
    wallet: String,
    recipient: String,
    /// The amount paid out.
    currency: AmountBody<'a>,
    #[schema(required = true)]
    tx_hash: Option<String>,
    /// `pending`, `success` or `failure`: then the balance has it back.
    status: &'static str,
    created_at: String,
}

impl<'a> ClaimRecord<'a> {
    fn new(listed: &Listed, catalog: &'a Catalog, rendered: &'a Rendered, price: Price) -> Option<Self> {
        let claim = &listed.stored.claim;
        let currency = ledger::currency_of(catalog)?;
        let units = claim.amount.in_units(currency.decimals).ok()?;
        let usd: UsdMicros = price.usd_floor(units, currency.decimals).ok()?;
        Some(Self {
            claim_id: claim.id.to_string(),
            wallet: format!("{:#x}", claim.wallet),
            recipient: format!("{:#x}", claim.recipient),
            currency: AmountBody::new(rendered.of(currency)?, units, usd),
            tx_hash: listed.tx.map(|tx| tx.to_string()),
            status: listed.stored.state.as_str(),
            created_at: iso(listed.stored.created_at),
        })
    }
}

/// Lists what a wallet has claimed.
#[utoipa::path(
    get,
    path = "/app-fees/{wallet}/claims",
    params(("wallet" = String, Path, description = "The wallet"), ClaimsQuery),
    responses(
        (status = 200, description = "Its claims", body = ClaimsResponse),
        (status = 400, description = "Not a wallet, or not a page", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    app: State<App>,
    ApiPath(wallet_text): ApiPath,
    ApiQuery(query): ApiQuery<ClaimsQuery>,
) -> Result<Response, ApiError> {
    let (wallet, limit, before) = (wallet(&wallet_text)?, query.limit()?, query.before()?);
    // One more says whether there is another page.
    let mut found = app.store.read(move |tx| claims::of_wallet(tx, wallet, before, limit + 1)).await?;
    let more = found.len() > usize::from(limit);
    found.truncate(limit.into());
    let continuation = found.last().filter(|_| more).map(|last| last.stored.sequence.to_string());
    let price = app.quoter.usdc_price();
    let shown = found.iter().map(|listed| ClaimRecord::new(listed, &app.catalog, &app.rendered, price));
    let claims = shown.collect::<Option<_>>().ok_or(ApiError::Internal)?;
    Ok(Json(ClaimsResponse { claims, continuation }).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_read_in_the_forms_clients_send() {
        let wallet = Address::repeat_byte(1);
        let read = |body: Value| serde_json::from_value::<ClaimBody>(body).unwrap().wish(wallet);
        let usdc = "0x00000000000000000000000000000000000000aa";
        let wish = read(json!({ "chainId": 8453, "currency": usdc })).unwrap();
        assert_eq!((wish.recipient, wish.amount, wish.chain), (wallet, None, ChainId(8453)));
        let wish = read(json!({ "chainId": "8453", "currency": usdc, "amount": "5" })).unwrap();
        assert_eq!(wish.amount.unwrap().to_string(), "5");
        for (member, value) in [
            ("chainId", json!(null)),
            ("chainId", json!(-1)),
            ("chainId", json!("base")),
            ("currency", json!(null)),
            ("currency", json!("usdc")),
            ("currency", json!(7)),
            ("recipient", json!("0x12")),
            ("recipient", json!([])),
            ("amount", json!("0")),
            ("amount", json!(5)),
            ("amount", json!(-1)),
            ("amount", json!(1.5)),
            ("amount", json!({})),
        ] {
            let mut body = json!({ "chainId": 8453, "currency": usdc });
            body[member] = value.clone();
            assert!(read(body).is_err(), "{member} {value}");
        }
    }
}
