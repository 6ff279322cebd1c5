//! The routes.

use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::{CompressionLayer, CompressionLevel};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::{
    App, app_fees, attestation, capacity, chains, claims, currencies, deposit_addresses, execute, fast_fill, health,
    liquidity, listing, lives, losses, manual_refund, operator, pauses, permits, prices, quote, status, swap_sources,
    topups, trace, transactions, wallet_links, webhook_deliveries, webhook_endpoints,
};

/// Every route, described in this document.
pub(crate) fn routes(document: OpenApi) -> OpenApiRouter<App> {
    // Quotes are not compressed: that would take longer than pricing them.
    let catalogue = OpenApiRouter::new()
        .routes(routes!(chains::chains))
        .routes(routes!(currencies::search))
        .routes(routes!(currencies::trending))
        .layer(CompressionLayer::new());
    // Pages and exports are large and repeat themselves. The stream is not compressed: each event is to arrive at once.
    let fast = CompressionLayer::new().quality(CompressionLevel::Fastest);
    let listings = OpenApiRouter::new()
        .routes(routes!(listing::requests_v3))
        .routes(routes!(listing::requests_v3_csv))
        .layer(fast.clone());
    // A panic is caught here already, so that the answer to it announces the retirement as well.
    let retiring =
        OpenApiRouter::new().routes(routes!(listing::requests_v2)).layer(CatchPanicLayer::custom(panicked)).layer(fast);
    OpenApiRouter::with_openapi(document)
        .merge(catalogue)
        .merge(listings)
        .merge(retiring)
        .routes(routes!(quote::quote))
        .routes(routes!(quote::quote_unversioned))
        .routes(routes!(quote::price))
        .routes(routes!(status::status))
        .routes(routes!(status::status_v2))
        .routes(routes!(listing::requests_v3_stream))
        .routes(routes!(health::health))
        .routes(routes!(liquidity::liquidity))
        .routes(routes!(prices::token_price))
        .routes(routes!(prices::token_price_v2))
        .routes(routes!(swap_sources::swap_sources))
        .routes(routes!(capacity::config))
        .routes(routes!(transactions::index))
        .routes(routes!(transactions::single))
        .routes(routes!(deposit_addresses::find))
        .routes(routes!(deposit_addresses::reindex))
        .routes(routes!(attestation::signature))
        .routes(routes!(attestation::signature_v2))
        .routes(routes!(fast_fill::fast_fill))
        .routes(routes!(wallet_links::link))
        .routes(routes!(
            webhook_endpoints::get_default,
            webhook_endpoints::put_default,
            webhook_endpoints::delete_default
        ))
        .routes(routes!(webhook_endpoints::list))
        .routes(routes!(webhook_endpoints::get, webhook_endpoints::put, webhook_endpoints::delete))
        .routes(routes!(webhook_endpoints::test))
        .routes(routes!(webhook_deliveries::list))
        .routes(routes!(webhook_deliveries::replay))
        .routes(routes!(webhook_deliveries::replay_failed))
        .routes(routes!(trace::trace))
        .routes(routes!(app_fees::balances))
        .routes(routes!(claims::claim))
        .routes(routes!(permits::permit))
        .routes(routes!(execute::execute))
        .routes(routes!(claims::list))
        .routes(routes!(operator::risk))
        .routes(routes!(losses::losses))
        .routes(routes!(operator::receipts))
        .routes(routes!(manual_refund::refund))
        .routes(routes!(topups::top_ups))
        .routes(routes!(pauses::pause))
        .routes(routes!(lives::lives))
}

/// The answer of a route that panicked.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    ApiError::Internal.into_response()
}
