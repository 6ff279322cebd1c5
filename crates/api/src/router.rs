//! The service as one router, and the layers that every call passes through.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics::{counter, histogram};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tracing::{Instrument, info_span};

use crate::error::ApiError;
use crate::json::MAX_BODY;
use crate::openapi::document;
use crate::routes::routes;
use crate::{App, limits, lives};

/// No answer may take longer; what a handler began in the store goes on without its caller.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The service as one router.
pub fn router(app: App) -> Router {
    let (router, document) = routes(document(&app.addresses)).split_for_parts();
    let document = document.to_json().expect("the document is plain data");
    let document = move || async move { ([(header::CONTENT_TYPE, "application/json")], document) };
    served(router.route("/openapi.json", get(document)), app)
}

/// Of a process that answers no callers: only how it is.
pub fn operating_router(app: App) -> Router {
    served(Router::new().route("/lives", get(lives::lives)), app)
}

fn served(router: Router<App>, app: App) -> Router {
    router
        .route("/metrics", get(metrics_text))
        .fallback(|| async { ApiError::NoSuchPath })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        // One layer, the outermost first: each that is added by itself is boxed, and copied for every call with all
        // that is below it.
        .layer((
            cors(),
            CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| ApiError::Internal.into_response()),
            middleware::from_fn_with_state(app.clone(), pass),
            DefaultBodyLimit::max(MAX_BODY),
        ))
        .with_state(app)
}

/// Browsers on any origin may call: there are no cookies, and a key is a header the caller must know.
fn cors() -> CorsLayer {
    let allowed =
        ["content-type", "relay-sdk-version", "relay-kit-ui-version", "x-api-key", "authorization", "idempotency-key"];
    let exposed = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"];
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS])
        .allow_headers(allowed.map(HeaderName::from_static))
        .expose_headers(exposed.map(HeaderName::from_static))
        .max_age(Duration::from_secs(3600))
}

async fn metrics_text(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], (app.metrics)())
}

/// Every call is answered in time, observed, counted against its caller's limit, and done once under its name, in this
/// order.
async fn pass(State(app): State<App>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(TIMEOUT, observe(&app, request, next)).await {
        Ok(response) => response,
        Err(_) => ApiError::TimedOut.into_response(),
    }
}

/// One span per call, and what it took. Queries, headers and bodies are not logged: keys and addresses are in them.
async fn observe(app: &App, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let span = info_span!("call", http.method = %request.method(), http.route = %route);
    let started = Instant::now();
    let response = limits::admit(app, request, next).instrument(span).await;
    let status = response.status();
    let class = if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE { "error" } else { "ok" };
    counter!("causeway_http_requests_total", "route" => route.clone(), "status" => status.as_str().to_owned())
        .increment(1);
    histogram!("causeway_http_seconds", "route" => route, "class" => class).record(started.elapsed());
    response
}
