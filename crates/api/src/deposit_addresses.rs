//! `GET /deposit-addresses/v1` and `POST /transactions/deposit-address/reindex`.

use alloy_primitives::Address;
use axum::Json;
use axum::extract::State;
use domain::account::{Account, NotAnAccount, Vm};
use domain::ids::{ChainId, RequestId};
use serde::{Deserialize, Serialize};
use solver::deposit_addresses::reindex::{Found, REINDEX_PAUSE_MILLIS, ReindexError, Wish};
use store::deposit_addresses::DepositAddress;
use store::{deposit_addresses, requests};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::caller::{CallerName, Keyed};
use crate::error::{ApiError, ApiResult, ErrorBody};
use crate::json::{ApiJson, ApiQuery};
use crate::wire::iso;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct AddressQuery {
    /// The address. This or `requestId`.
    address: Option<String>,
    /// The request that an address was given out for.
    request_id: Option<String>,
}

/// An address that was given out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GivenAddress)]
pub(crate) struct GivenAddress {
    deposit_address: String,
    /// `strict` or `open`.
    r#type: &'static str,
    /// The request that it was given out for.
    request_id: String,
    chain_id: u64,
    /// The currency of that request.
    #[schema(required = true)]
    currency: Option<String>,
    #[schema(required = true)]
    refund_to: Option<String>,
    /// ISO 8601 in UTC.
    created_at: String,
}

fn evm_address(field: &'static str, text: &str) -> Result<Address, ApiError> {
    let read = Account::read(Vm::Evm, text).and_then(|account| account.evm().ok_or(NotAnAccount::Evm));
    read.map_err(|error| ApiError::Address { field, problem: error.to_string() })
}

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

enum Named {
    Address(Address),
    Request(RequestId),
}

impl AddressQuery {
    fn named(&self) -> Result<Named, ApiError> {
        match (&self.address, &self.request_id) {
            (Some(address), None) => Ok(Named::Address(evm_address("address", address)?)),
            (None, Some(id)) => id
                .parse()
                .map(Named::Request)
                .map_err(|error: domain::ids::NotAnId| bad("requestId", error.to_string())),
            (None, None) => Err(bad("address", "required, or requestId")),
            (Some(_), Some(_)) => Err(bad("requestId", "not beside address")),
        }
    }
}

/// Looks up a deposit address.
#[utoipa::path(
    get,
    path = "/deposit-addresses/v1",
    params(AddressQuery),
    security(("apiKey" = []), ("bearer" = [])),
    responses(
        (status = 200, description = "The address", body = GivenAddress),
        (status = 400, description = "Neither an address nor a request", body = ErrorBody),
        (status = 401, description = "An API key is required", body = ErrorBody),
        (status = 404, description = "No such address was given out", body = ErrorBody),
    )
)]
pub(crate) async fn find(
    app: State<App>,
    Keyed(_key): Keyed,
    ApiQuery(query): ApiQuery<AddressQuery>,
) -> ApiResult<GivenAddress> {
    let named = query.named()?;
    let found = app.store.read(move |tx| {
        let given = match named {
            Named::Address(address) => deposit_addresses::find(tx, address)?,
            Named::Request(id) => deposit_addresses::of_request(tx, id)?,
        };
        let Some(given) = given else { return Ok(None) };
        let request = requests::find(tx, given.request)?;
        let refund_to = request.and_then(|request| request.quote.ask.refund_to).map(|who| who.text().to_owned());
        Ok::<_, store::StoreError>(Some((given, refund_to)))
    });
    let (given, refund_to) = found.await?.ok_or(ApiError::NotFound("no such deposit address"))?;
    let DepositAddress { address, kind, request, chain, currency, created_at, .. } = given;
    Ok(Json(GivenAddress {
        deposit_address: format!("{address:#x}"),
        r#type: kind.as_str(),
        request_id: request.to_string(),
        chain_id: chain.0,
        currency: Some(format!("{currency:#x}")),
        refund_to,
        created_at: iso(created_at),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReindexBody {
    /// The chain that the address was given out for.
    chain_id: u64,
    deposit_address: String,
    /// The chain to search; `chainId` unless said.
    target_chain_id: Option<u64>,
    /// The only currency to search for; all that can be deposited unless said.
    currency: Option<String>,
    /// Deprecated and without effect: what is found is swept.
    #[expect(dead_code, reason = "read so that its type is checked and documented")]
    sweep: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReindexResponse {
    message: &'static str,
    /// Currencies that were found at the address.
    triggered_currencies: Vec<TriggeredCurrency>,
    checked_currencies: usize,
    failed_currencies: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggeredCurrency {
    currency: String,
    symbol: String,
    /// Smallest units.
    balance: String,
}

impl From<Found> for TriggeredCurrency {
    fn from(found: Found) -> Self {
        let Found { currency, balance } = found;
        Self { currency: currency.address.text().to_owned(), symbol: currency.symbol, balance: balance.to_string() }
    }
}

/// Searches a deposit address for money that was not noticed, on its own chain or on another one. Once a minute for each
/// address, chain and caller.
#[utoipa::path(
    post,
    path = "/transactions/deposit-address/reindex",
    request_body = ReindexBody,
    responses(
        (status = 200, description = "The address was searched", body = ReindexResponse),
        (status = 400, description = "Not a chain or currency where it could be searched", body = ErrorBody),
        (status = 404, description = "No such address was given out", body = ErrorBody),
        (status = 429, description = "It was searched a short while ago", body = ErrorBody),
        (status = 503, description = "The nodes of the chain do not answer", body = ErrorBody),
    )
)]
pub(crate) async fn reindex(
    app: State<App>,
    CallerName(caller): CallerName,
    ApiJson(body): ApiJson<ReindexBody>,
) -> ApiResult<ReindexResponse> {
    let known = |field: &'static str, id: u64| match app.catalog.chain(ChainId(id)) {
        Some(chain) => Ok(chain.id),
        None => Err(ApiError::UnsupportedChain { field, chain: ChainId(id) }),
    };
    let chain = known("chainId", body.chain_id)?;
    let wish = Wish {
        address: evm_address("depositAddress", &body.deposit_address)?,
        chain,
        target: body.target_chain_id.map_or(Ok(chain), |id| known("targetChainId", id))?,
        currency: body.currency.as_deref().map(|text| evm_address("currency", text)).transpose()?,
        caller,
    };
    let report = app.reindexer.reindex(wish).await.map_err(|error| match error {
        ReindexError::TooSoon => ApiError::TooMany { retry_after_secs: REINDEX_PAUSE_MILLIS.unsigned_abs() / 1_000 },
        error => error.into(),
    })?;
    let message = if report.found.is_empty() { "Nothing was found" } else { "What was found is being swept" };
    Ok(Json(ReindexResponse {
        message,
        triggered_currencies: report.found.into_iter().map(Into::into).collect(),
        checked_currencies: report.checked,
        failed_currencies: report.failed,
    }))
}
