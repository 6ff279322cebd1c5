//! The document as it is served: for programs as JSON, and for people as a page that reads it. The page is our own and
//! needs nothing from elsewhere, so it also works where there is no other network.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::Value;
use tower_http::compression::CompressionLayer;

const PAGE: &str = include_str!("../../assets/documentation.html");
const STYLE: &str = include_str!("../../assets/documentation.css");
const SCRIPT: &str = include_str!("../../assets/documentation.js");

/// The page runs its own script and reads its own document, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Documents change with the build alone.
const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The routes of the document.
pub(crate) fn pages<S: Clone + Send + Sync + 'static>(document: &Value) -> Router<S> {
    let document = Bytes::from(document.to_string());
    let json = "application/json";
    Router::new()
        .route("/openapi.json", get(fixed(json, document.clone())))
        .route("/documentation/json", get(fixed(json, document)))
        .route("/documentation", get(fixed("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes()))))
        .route("/documentation/style.css", get(fixed("text/css", Bytes::from_static(STYLE.as_bytes()))))
        .route("/documentation/script.js", get(fixed("text/javascript", Bytes::from_static(SCRIPT.as_bytes()))))
        .layer(CompressionLayer::new())
}

fn fixed(kind: &'static str, body: Bytes) -> impl Fn() -> std::future::Ready<axum::response::Response> + Clone {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, CACHING),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    move || std::future::ready((headers.clone(), body.clone()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else() {
        for text in [PAGE, STYLE, SCRIPT] {
            assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("@import"), "{text}");
        }
        for asset in ["documentation/style.css", "documentation/script.js"] {
            assert!(PAGE.contains(asset), "{asset}");
        }
        assert!(SCRIPT.contains("documentation/json"));
    }
}
