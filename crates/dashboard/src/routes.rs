//! The table of routes: each with who may call it. The guard reads it, and so do the tests that try every route.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Redirect, Response};
use axum::routing::{any, get, post};
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use crate::access::Access;
use crate::failure::Failure;
use crate::guard::{guard, headers};
use crate::pages::{actions, balance, keys, live, operator, overview, request, requests, transfer, views, webhooks};
use crate::{Dashboard, assets, sign_in, test_wallet};

/// A route as tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteFacts {
    /// In lower case.
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
}

macro_rules! table {
    ($($method:ident $path:literal $access:ident $handler:path;)*) => {
        /// Every route but the assets.
        pub const ROUTES: &[RouteFacts] =
            &[$(RouteFacts { method: stringify!($method), path: $path, access: Access::$access }),*];

        fn guarded(dashboard: &Dashboard) -> Router<Dashboard> {
            Router::new()$(.route(
                $path,
                $method($handler)
                    .route_layer(middleware::from_fn_with_state((dashboard.clone(), Access::$access), guard)),
            ))*
        }
    };
}

table! {
    get "/dashboard" Account overview::page;
    get "/dashboard/sign-in" Everyone sign_in::page;
    post "/dashboard/sign-in" Everyone sign_in::sign_in;
    post "/dashboard/sign-in/message" Everyone sign_in::message;
    post "/dashboard/sign-in/test" Everyone sign_in::test;
    post "/dashboard/sign-out" Account sign_in::sign_out;
    post "/dashboard/test-wallet" Everyone test_wallet::call;
    get "/dashboard/keys" Account keys::page;
    post "/dashboard/keys" Account keys::create;
    get "/dashboard/keys/{key}" Account keys::one;
    post "/dashboard/keys/{key}/rename" Account keys::rename;
    post "/dashboard/keys/{key}/rotate" Account keys::rotate;
    post "/dashboard/keys/{key}/revoke" Account keys::revoke;
    post "/dashboard/keys/{key}/wallet" Account keys::wallet;
    get "/dashboard/webhooks" Account webhooks::first;
    get "/dashboard/keys/{key}/webhooks" Account webhooks::page;
    post "/dashboard/keys/{key}/webhooks" Account webhooks::save;
    post "/dashboard/keys/{key}/webhooks/delete" Account webhooks::delete;
    post "/dashboard/keys/{key}/webhooks/test" Account webhooks::test;
    post "/dashboard/keys/{key}/webhooks/replay" Account webhooks::replay;
    get "/dashboard/requests" Account requests::page;
    get "/dashboard/requests.csv" Account requests::csv;
    post "/dashboard/requests/views" Account views::save;
    post "/dashboard/requests/views/delete" Account views::delete;
    get "/dashboard/requests/{id}" Account request::page;
    get "/dashboard/live" Account live::stream;
    get "/dashboard/balance" Account balance::page;
    post "/dashboard/balance/claim" Account balance::claim;
    post "/dashboard/balance/permit" Account balance::permit;
    get "/dashboard/transfer" Account transfer::page;
    post "/dashboard/transfer" Account transfer::quote;
    get "/dashboard/operator" Operator operator::page;
    post "/dashboard/operator/refund" Operator actions::refund;
    post "/dashboard/operator/topup" Operator actions::top_up;
    post "/dashboard/operator/pause" Operator actions::pause;
}

/// The dashboard beside the service's own routes.
pub fn router(dashboard: Dashboard, api: Router) -> Router {
    guarded(&dashboard)
        .route("/dashboard/assets/{name}", get(assets::asset).layer(CompressionLayer::new()))
        .route("/dashboard/", get(|| async { Redirect::permanent("/dashboard") }))
        .route("/dashboard/{*rest}", any(|| async { Failure::NotFound }))
        .route("/", get(front))
        // Pages are not compressed: with text of the caller's own beside a token, its length would tell of the token.
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Failure::Internal("a page panicked").into_response()
        }))
        .layer(middleware::from_fn_with_state(dashboard.clone(), headers))
        .with_state(dashboard)
        // In one table with the pages: behind a second one, every call of the service would be looked up twice.
        .merge(api)
}

/// `/`: a browser goes to the dashboard, a program gets a few words.
async fn front(State(dashboard): State<Dashboard>, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return Redirect::to("/dashboard").into_response();
    }
    let base = &dashboard.app.addresses.base_url;
    Json(json!({
        "name": "Causeway",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Moves value between chains: POST /quote/v2, send the steps, poll GET /intents/status/v3.",
        "documentation": format!("{base}/documentation"),
        "openapi": format!("{base}/openapi.json"),
        "dashboard": format!("{base}/dashboard"),
    }))
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_under_the_dashboard_and_changes_by_post_alone() {
        for route in ROUTES {
            assert!(route.path.starts_with("/dashboard"), "{route:?}");
            assert!(matches!(route.method, "get" | "post"), "{route:?}");
            let open = route.access == Access::Everyone;
            let known = route.path.contains("/sign-in") || route.path == "/dashboard/test-wallet";
            assert_eq!(open, known, "{route:?}: only signing in is open to everyone");
            assert_eq!(route.access == Access::Operator, route.path.contains("/operator"), "{route:?}");
        }
    }
}
