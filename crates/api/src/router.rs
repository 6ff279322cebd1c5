//! The service as one router, and the layers that every call passes through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument, info_span};

use crate::cors::Preflights;
use crate::error::ApiError;
use crate::json::{MAX_BODY, MAX_URI};
use crate::openapi::{described, pages};
use crate::{App, cors, limits, lives, retirement};

mod answered;

use answered::Answered;

/// No answer may take longer; what a handler began in the store goes on without its caller.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The service as one router.
pub fn router(app: App) -> Router {
    let (router, document) = described(&app.addresses);
    let router = router.merge(pages(app.addresses.clone()));
    let router = if app.public_reports { router.route("/metrics", get(metrics_text)) } else { router };
    served(router, app, Preflights::new(&document))
}

/// For the operator: how a process is, in full.
pub fn operating_router(app: App) -> Router {
    let router = Router::new().route("/lives", get(lives::report)).route("/metrics", get(metrics_text));
    served(router, app, Preflights::new(&Value::Null))
}

/// All that [`pass`] reads for a call. Every call copies it, so it is one pointer.
struct PassState {
    app: App,
    preflights: Preflights,
    answered: Answered,
}

fn served(router: Router<App>, app: App, preflights: Preflights) -> Router {
    let state = Arc::new(PassState { app: app.clone(), preflights, answered: Answered::default() });
    router
        .fallback(|| async { ApiError::NoSuchPath })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        // One layer, the outermost first: each that is added by itself is boxed, and copied for every call with all
        // that is below it.
        .layer((
            CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| opened(ApiError::Internal.into_response())),
            middleware::from_fn_with_state(state, pass),
            DefaultBodyLimit::max(MAX_BODY),
        ))
        .with_state(app)
}

async fn metrics_text(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], (app.metrics)())
}

fn opened(mut response: Response) -> Response {
    cors::open(response.headers_mut());
    response
}

/// Every call is answered in time, observed, counted against its caller's limit, and done once under its name, in this
/// order. Browsers may read every answer, and every answer of a route that retires says so.
async fn pass(State(state): State<Arc<PassState>>, request: Request, next: Next) -> Response {
    let retires = retirement::is_about(request.uri().path());
    let mut response = answer(&state, request, next).await;
    if retires {
        state.app.retirement.announce(response.headers_mut());
    }
    response
}

async fn answer(state: &PassState, request: Request, next: Next) -> Response {
    if request.method() == Method::OPTIONS {
        return state.preflights.answer(&request);
    }
    if request.uri().path_and_query().is_some_and(|address| address.as_str().len() > MAX_URI) {
        return opened(ApiError::UriTooLong { most: MAX_URI }.into_response());
    }
    match tokio::time::timeout(TIMEOUT, observe(state, request, next)).await {
        Ok(response) => opened(response),
        Err(_) => opened(ApiError::TimedOut.into_response()),
    }
}

/// One span per call, and what it took. Queries, headers and bodies are not logged: keys and addresses are in them.
async fn observe(state: &PassState, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let span = info_span!("call", http.method = %request.method(), http.route = %route);
    let started = Instant::now();
    let response = limits::admit(&state.app, request, next).instrument(span).await;
    state.answered.record(&route, response.status(), started.elapsed());
    response
}
