//! Stylesheet, scripts and icon: our own, in the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::failure::Failure;

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and content.
static ASSETS: [(&str, &str, &str); 9] = [
    ("style.css", CSS, include_str!("../assets/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
    ("wallet.js", SCRIPT, include_str!("../assets/wallet.js")),
    ("sign-in.js", SCRIPT, include_str!("../assets/sign-in.js")),
    ("transfer.js", SCRIPT, include_str!("../assets/transfer.js")),
    ("balance.js", SCRIPT, include_str!("../assets/balance.js")),
    ("link.js", SCRIPT, include_str!("../assets/link.js")),
    ("live.js", SCRIPT, include_str!("../assets/live.js")),
    ("copy.js", SCRIPT, include_str!("../assets/copy.js")),
];

/// A mark of the content.
fn mark(content: &str) -> String {
    let hash = alloy_primitives::keccak256(content);
    format!("\"{}\"", alloy_primitives::hex::encode(&hash[..8]))
}

pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Failure> {
    let &(_, kind, content) = ASSETS.iter().find(|(known, ..)| *known == name).ok_or(Failure::NotFound)?;
    let mark = HeaderValue::from_str(&mark(content)).map_err(|_| Failure::Internal("the mark of an asset"))?;
    let kept = headers.get(header::IF_NONE_MATCH) == Some(&mark);
    // Browsers ask each time whether it has changed, so that pages and scripts are of one build.
    let answer = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, mark),
    ];
    Ok(if kept { (StatusCode::NOT_MODIFIED, answer).into_response() } else { (answer, content).into_response() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_ask_nobody_else_and_are_small() {
        let total: usize = ASSETS.iter().map(|(.., content)| content.len()).sum();
        assert!(total < 60 * 1024, "{total}");
        for (name, _, content) in ASSETS {
            let outside = content.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !outside.contains("http://") && !outside.contains("https://") && !outside.contains("@import"),
                "{name}"
            );
            assert!(!content.contains("innerHTML") && !content.contains("eval("), "{name}");
        }
    }
}
