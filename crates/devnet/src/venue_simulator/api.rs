//! The routes of the simulated venue.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use alloy_primitives::Address;
use anyhow::Result;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::venue::AccountIndex;
use serde_json::{Value, json};
use url::form_urlencoded;
use venue::{AuthToken, KeyIndex, SignedTransfer};

use super::accounts::Holder;
use super::book::Book;
use super::journal::Entry;
use super::refusal::{INVALID_PARAM, REJECTED, Refusal, TRANSACTION_NOT_FOUND, UNAUTHORIZED};
use super::{NETWORK, State, answers};

const MAX_BODY_BYTES: usize = 16 << 10;
const MAX_ANSWER_BYTES: usize = 4 << 20;
const PAGE: usize = 50;

type Params = Query<HashMap<String, String>>;

/// A refusal of the venue, a fault of it, or a failure of the simulator.
enum Failure {
    Refused(Refusal),
    /// The transaction is kept back: whoever sent it cannot know what becomes of it.
    Held,
    Broken(anyhow::Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refusal) => refusal.into_response(),
            Self::Held => internal_error().into_response(),
            Self::Broken(error) => {
                tracing::error!("the venue simulator failed: {error:#}");
                internal_error().into_response()
            }
        }
    }
}

fn internal_error() -> (StatusCode, Json<Value>) {
    (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "code": 500, "message": "internal server error" })))
}

type Answer = Result<Json<Value>, Failure>;

pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/", get(status))
        .route("/api/v1/account", get(account))
        .route("/api/v1/accountsByL1Address", get(accounts_by_wallet))
        .route("/api/v1/apikeys", get(api_keys))
        .route("/api/v1/nextNonce", get(next_nonce))
        .route("/api/v1/transferFeeInfo", get(transfer_fee))
        .route("/api/v1/transfer/history", get(history))
        .route("/api/v1/tx", get(transaction))
        .route("/api/v1/sendTx", post(send))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(state.clone(), misbehave))
        .with_state(state)
}

/// Faults that have nothing to do with the call.
async fn misbehave(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    if state.has_ended() {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::CONNECTION, "close")]).into_response();
    }
    let fault = state.faults.get();
    if fault.stall {
        pending::<()>().await;
    }
    tokio::time::sleep(fault.delay).await;
    if fault.down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if fault.busy {
        let body = Json(json!({ "code": 23_000, "message": "too many requests" }));
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], body).into_response();
    }
    let response = next.run(request).await;
    if !fault.garbage {
        return response;
    }
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), MAX_ANSWER_BYTES).await.unwrap_or_default();
    (status, body.slice(..body.len() / 2)).into_response()
}

fn param<'a>(params: &'a HashMap<String, String>, name: &str) -> Result<&'a str, Refusal> {
    params.get(name).map(String::as_str).ok_or_else(|| Refusal::param(name, "is missing"))
}

fn account_param(params: &HashMap<String, String>, name: &str) -> Result<AccountIndex, Refusal> {
    param(params, name)?.parse().map_err(|error| Refusal::param(name, error))
}

fn key_param(params: &HashMap<String, String>) -> Result<KeyIndex, Refusal> {
    let text = param(params, "api_key_index")?;
    let index = text.parse().map_err(|_| Refusal::param("api_key_index", "must be a number"))?;
    KeyIndex::new(index).map_err(|error| Refusal::param("api_key_index", error))
}

fn wallet_param(params: &HashMap<String, String>, name: &str) -> Result<Address, Refusal> {
    param(params, name)?.parse().map_err(|_| Refusal::param(name, "must be an address"))
}

fn of_wallet(book: &Book, wallet: Address) -> Result<Vec<(AccountIndex, &Holder)>, Refusal> {
    let accounts: Vec<_> = book.accounts().filter(|(_, holder)| holder.wallet == wallet).collect();
    match accounts.is_empty() {
        true => Err(Refusal::new(super::refusal::ACCOUNT_NOT_FOUND, "account not found")),
        false => Ok(accounts),
    }
}

async fn status(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    Json(answers::status(state.now_millis()))
}

async fn account(Shared(state): Shared<Arc<State>>, Query(params): Params) -> Answer {
    let books = state.current()?;
    let book = &books.book;
    let list = match param(&params, "by")? {
        "index" => {
            let index = account_param(&params, "value")?;
            vec![(index, book.account(index)?)]
        }
        "l1_address" => of_wallet(book, wallet_param(&params, "value")?)?,
        _ => return Err(Refusal::param("by", "must be index or l1_address").into()),
    };
    Ok(Json(answers::accounts(&list)))
}

async fn accounts_by_wallet(Shared(state): Shared<Arc<State>>, Query(params): Params) -> Answer {
    let books = state.current()?;
    let list = of_wallet(&books.book, wallet_param(&params, "l1_address")?)?;
    Ok(Json(answers::sub_accounts(&list)))
}

async fn api_keys(Shared(state): Shared<Arc<State>>, Query(params): Params) -> Answer {
    let books = state.current()?;
    let index = account_param(&params, "account_index")?;
    // 255 stands for all of them.
    let all = params.get("api_key_index").is_none_or(|text| text == "255");
    let only = if all { None } else { Some(key_param(&params)?.get()) };
    Ok(Json(answers::api_keys(index, books.book.account(index)?, only)))
}

async fn next_nonce(Shared(state): Shared<Arc<State>>, Query(params): Params) -> Answer {
    let books = state.current()?;
    let key = books.book.key(account_param(&params, "account_index")?, key_param(&params)?)?;
    Ok(Json(json!({ "code": 200, "nonce": key.next_nonce })))
}

/// The account that a call is allowed to read.
fn authorized(
    state: &State,
    book: &Book,
    headers: &HeaderMap,
    params: &HashMap<String, String>,
) -> Result<AccountIndex, Refusal> {
    let account = account_param(params, "account_index")?;
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.or_else(|| params.get("auth").map(String::as_str));
    let token = token.and_then(|text| text.parse::<AuthToken>().ok());
    let token = token.ok_or_else(|| Refusal::new(UNAUTHORIZED, "an auth token is required"))?;
    book.authorize(&token, account, state.now_millis())?;
    Ok(account)
}

async fn transfer_fee(Shared(state): Shared<Arc<State>>, headers: HeaderMap, Query(params): Params) -> Answer {
    let books = state.current()?;
    let from = authorized(&state, &books.book, &headers, &params)?;
    let fee = books.book.fee(from, account_param(&params, "to_account_index")?)?;
    Ok(Json(json!({ "code": 200, "transfer_fee_usdc": fee })))
}

/// Newest first. The cursor is the place of the last line shown, so that new transfers do not shift the pages.
async fn history(Shared(state): Shared<Arc<State>>, headers: HeaderMap, Query(params): Params) -> Answer {
    let (fault, books) = (state.faults.get(), state.current()?);
    let account = authorized(&state, &books.book, &headers, &params)?;
    let cursor = params.get("cursor").filter(|text| !text.is_empty());
    let below = cursor.map(|text| text.parse::<usize>()).transpose();
    let below = below.map_err(|_| Refusal::param("cursor", "must be a cursor of an answer"))?;
    let rows = books.book.history(account).filter(|(place, _)| below.is_none_or(|below| *place < below));
    let rows: Vec<_> = rows.take(if fault.forget || fault.unlisted { 0 } else { PAGE + 1 }).collect();
    let more = rows.len() > PAGE;
    let shown = &rows[..rows.len().min(PAGE)];
    let cursor = shown.last().filter(|_| more).map(|(place, _)| place.to_string()).unwrap_or_default();
    let mut lines: Vec<Value> =
        shown.iter().map(|(place, tx)| answers::history_row(*place, tx, account, &books.book)).collect();
    if fault.duplicate {
        lines = lines.into_iter().flat_map(|line| [line.clone(), line]).collect();
    }
    if fault.reorder {
        // Every second line first: newest and oldest lines are apart, neighbours have changed places.
        let (even, odd): (Vec<_>, Vec<_>) = lines.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
        lines = odd.into_iter().chain(even).map(|(_, line)| line).collect();
    }
    Ok(Json(json!({ "code": 200, "transfers": lines, "cursor": cursor })))
}

async fn transaction(Shared(state): Shared<Arc<State>>, Query(params): Params) -> Answer {
    let (fault, mut books) = (state.faults.get(), state.current()?);
    if param(&params, "by")? != "hash" {
        return Err(Refusal::param("by", "must be hash").into());
    }
    let hash = param(&params, "value")?.parse().map_err(|error| Refusal::param("value", error))?;
    let found = books.book.tx(hash).filter(|_| !fault.forget);
    let missing = || Refusal::new(TRANSACTION_NOT_FOUND, "transaction not found");
    let (place, mut tx) = found.map(|(place, tx)| (place, tx.clone())).ok_or_else(missing)?;
    if fault.flicker {
        tx.status = books.flickering(hash, tx.status).ok_or_else(missing)?;
    }
    Ok(Json(answers::transaction(place, &tx, &books.book)))
}

async fn send(Shared(state): Shared<Arc<State>>, body: Bytes) -> Response {
    match take(&state, &body) {
        Ok(_) if state.faults.get().error_after_send => internal_error().into_response(),
        Ok(answer) => answer.into_response(),
        Err(failure) => failure.into_response(),
    }
}

fn take(state: &State, body: &[u8]) -> Answer {
    let form: HashMap<_, _> = form_urlencoded::parse(body).into_owned().collect();
    if param(&form, "tx_type")? != "12" {
        return Err(Refusal::param("tx_type", "must be 12: the simulator knows transfers alone").into());
    }
    let info = param(&form, "tx_info")?;
    let signed = SignedTransfer::from_json(info);
    let signed = signed.map_err(|error| Refusal::new(INVALID_PARAM, format!("invalid tx_info: {error}")))?;
    let (fault, mut books) = (state.faults.get(), state.current()?);
    let now = state.now_millis();
    books.book.judge(&signed, now)?;
    if fault.reject_sends {
        return Err(Refusal::new(REJECTED, "transaction is rejected").into());
    }
    if fault.hold_sends {
        books.hold(signed)?;
        return Err(Failure::Held);
    }
    if !fault.drop_sends {
        // Our own text of it: the transaction that was verified, and nothing beside it.
        books.write(Entry::Taken { info: signed.to_json(), at: now })?;
        state.taken.send_replace(Some(Instant::now()));
    }
    Ok(Json(json!({
        "code": 200,
        "message": "{}",
        "tx_hash": signed.hash(NETWORK).to_string(),
        "predicted_execution_time_ms": now + u64::try_from(state.step.as_millis()).unwrap_or_default(),
        "volume_quota_remaining": 0,
    })))
}
