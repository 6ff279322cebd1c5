//! `Idempotency-Key` on quotes and fast fills: the caller names its call, and calling again under the name does nothing
//! again. It is the API key's own name; without a key the header means nothing.
//!
//! Of several calls at once one is answered and the others get its answer, on whichever instance they arrive. Only what
//! was done is kept: after a refusal the name is free for another try.

use std::time::Duration;

use alloy_primitives::B256;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::time::Timestamp;
use solver::error::Chained;
use store::idempotency::{self, Call, Claimed};
use tracing::warn;

use crate::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::json::MAX_BODY;

const NAME: &str = "idempotency-key";
const MAX_NAME: usize = 255;
/// A call that is not answered by then died with its process.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);
/// How often whoever waits for another's answer looks, and for how long.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLLS: u32 = 500;

/// Lets one of several equal calls through.
pub(crate) async fn once(app: &App, request: Request, next: Next) -> Response {
    let key = request.extensions().get::<Caller>().and_then(|caller| caller.key().map(|key| key.id));
    let covered = request.method() == Method::POST && is_covered(request.uri().path());
    let (Some(key), Some(name), true) = (key, request.headers().get(NAME).cloned(), covered) else {
        return next.run(request).await;
    };
    let name = match read(&name) {
        Ok(name) => name,
        Err(error) => return error.into_response(),
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return ApiError::BodyTooLarge { most: MAX_BODY }.into_response();
    };
    let mut owner = B256::ZERO;
    (app.env.random)(owner.as_mut_slice());
    let call = Call { key, name, fingerprint: Call::fingerprint(parts.uri.path(), &body), owner };
    match answer(app, call, Request::from_parts(parts, Body::from(body)), next).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

pub(crate) fn is_covered(path: &str) -> bool {
    matches!(path, "/quote" | "/quote/v2" | "/fast-fill")
}

fn read(name: &HeaderValue) -> Result<String, ApiError> {
    let name = name.to_str().ok().filter(|name| (1..=MAX_NAME).contains(&name.len()));
    let problem = || format!("must be 1 to {MAX_NAME} visible characters");
    name.map(str::to_owned).ok_or_else(|| ApiError::Parameter { field: "Idempotency-Key", problem: problem() })
}

async fn answer(app: &App, call: Call, mut request: Request, mut next: Next) -> Result<Response, ApiError> {
    for _ in 0..MAX_POLLS {
        // The caller may hang up; a name that was taken for it is answered under all the same.
        let turn = tokio::spawn(turn(app.clone(), call.clone(), request, next));
        match turn.await.map_err(|_| ApiError::Internal)?? {
            Turn::Answer(response) => return Ok(response),
            Turn::Underway(back) => (request, next) = *back,
        }
        wait(app, &call).await?;
    }
    Err(ApiError::NameInUse)
}

enum Turn {
    Answer(Response),
    /// Somebody else is at it: the call as it came.
    Underway(Box<(Request, Next)>),
}

/// Takes the name and answers under it, or says what became of it.
async fn turn(app: App, call: Call, request: Request, next: Next) -> Result<Turn, ApiError> {
    let (claim, now) = (call.clone(), app.now());
    let abandoned = Timestamp::from_millis(now.millis().saturating_sub(CLAIM_TIMEOUT.as_millis() as i64));
    match app.store.write(move |tx| idempotency::claim(tx, &claim, abandoned, now)).await? {
        Claimed::Ours => Ok(Turn::Answer(first(app, call, request, next).await)),
        Claimed::Answered { status, answer } => Ok(Turn::Answer(again(status, answer))),
        Claimed::Differs => Err(ApiError::NameUsed),
        Claimed::Underway => Ok(Turn::Underway(Box::new((request, next)))),
    }
}

/// Until somebody else's answer is there, or will not be.
async fn wait(app: &App, call: &Call) -> Result<(), ApiError> {
    for _ in 0..MAX_POLLS {
        tokio::time::sleep(POLL_INTERVAL).await;
        let sought = call.clone();
        match app.store.read(move |tx| idempotency::find(tx, &sought)).await? {
            Some(Claimed::Underway) => {}
            _ => return Ok(()),
        }
    }
    Err(ApiError::NameInUse)
}

/// Answers, and keeps the answer if something was done.
async fn first(app: App, call: Call, request: Request, next: Next) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let kept = parts.status == StatusCode::OK;
    let (status, text) = (parts.status.as_u16(), String::from_utf8_lossy(&body).into_owned());
    let unit = move |tx: &mut store::Tx<'_>| {
        if kept { idempotency::keep(tx, &call, status, &text) } else { idempotency::drop(tx, &call) }
    };
    if let Err(error) = app.store.write(unit).await {
        warn!(error = %Chained(&error), "an answer could not be kept under its name");
    }
    Response::from_parts(parts, Body::from(body))
}

fn again(status: u16, answer: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [json], Bytes::from(answer)).into_response()
}
