//! The document as it is served: for programs as JSON, and for people as a page that reads it. The page is our own and
//! needs nothing from elsewhere, so it also works where there is no other network.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::OnceCell;
use tower_http::compression::CompressionLayer;

use super::{Addresses, completed};
use crate::error::ApiError;

const PAGE: &str = include_str!("../../assets/documentation.html");
const STYLE: &str = include_str!("../../assets/documentation.css");
const SCRIPT: &str = include_str!("../../assets/documentation.js");

/// The page runs its own script and reads its own document, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Documents change with the build alone.
const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The routes of the document.
pub(crate) fn pages<S: Clone + Send + Sync + 'static>(addresses: Addresses) -> Router<S> {
    let document = Document { addresses, text: Arc::default() };
    let served = document.clone();
    Router::new()
        .route("/openapi.json", get(move || served.clone().answer()))
        .route("/documentation/json", get(move || document.clone().answer()))
        .route("/documentation", get(async || fixed("text/html; charset=utf-8", PAGE)))
        .route("/documentation/style.css", get(async || fixed("text/css", STYLE)))
        .route("/documentation/script.js", get(async || fixed("text/javascript", SCRIPT)))
        .layer(CompressionLayer::new())
}

/// Written when somebody first asks for it, so that the service does not start later for it.
#[derive(Clone, Debug)]
struct Document {
    addresses: Addresses,
    text: Arc<OnceCell<Bytes>>,
}

impl Document {
    async fn answer(self) -> Response {
        let Self { addresses, text } = self;
        let write = || tokio::task::spawn_blocking(move || Bytes::from(completed(&addresses).to_string()));
        match text.get_or_try_init(write).await {
            Ok(text) => fixed("application/json", text.clone()),
            Err(_) => ApiError::Internal.into_response(),
        }
    }
}

fn fixed(kind: &'static str, body: impl Into<Bytes>) -> Response {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, CACHING),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, body.into()).into_response()
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
