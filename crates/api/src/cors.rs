//! Calls from pages of other origins. Any may call: there are no cookies, and a key is a header the caller must know.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::idempotency;

const ANYONE: HeaderValue = HeaderValue::from_static("*");
/// Headers of answers that a page may read.
const READABLE: HeaderValue =
    HeaderValue::from_static("ratelimit-limit,ratelimit-remaining,ratelimit-reset,retry-after");
/// Seconds for which a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("3600");

/// The headers of published clients and of keys, on every route; and those of bodies, of names and of streams.
const CALLERS: &str = "x-api-key,authorization,relay-sdk-version,relay-kit-ui-version";
const BODIES: &str = "content-type";
const NAMES: &str = "idempotency-key";
const POSITIONS: &str = "last-event-id";

/// The methods and headers that a route takes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    methods: HeaderValue,
    headers: HeaderValue,
}

impl Taken {
    fn new(methods: &[&str], headers: &[&str]) -> Self {
        let list = |names: &[&str]| HeaderValue::from_str(&names.join(",")).expect("these are visible characters");
        Self { methods: list(methods), headers: list(headers) }
    }
}

/// The methods and headers of all routes, by path.
#[derive(Debug)]
pub(crate) struct Preflights {
    routes: HashMap<String, Taken>,
    /// A page that calls a path which is not there should see that answer.
    others: Taken,
}

impl Preflights {
    /// Reads the routes from the document that describes them.
    pub(crate) fn new(document: &Value) -> Self {
        let mut routes = HashMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            let takes = |method: &str| item.get(method).is_some();
            let (posts, puts) = (takes("post"), takes("put"));
            let methods =
                [("GET", takes("get")), ("POST", posts), ("PUT", puts), ("DELETE", takes("delete")), ("OPTIONS", true)];
            let headers = [
                (CALLERS, true),
                (BODIES, posts || puts),
                (NAMES, posts && idempotency::is_covered(path)),
                (POSITIONS, takes_position(item)),
            ];
            let chosen = |all: &[(&'static str, bool)]| -> Vec<&'static str> {
                all.iter().filter(|(_, taken)| *taken).map(|(name, _)| *name).collect()
            };
            routes.insert(path.clone(), Taken::new(&chosen(&methods), &chosen(&headers)));
        }
        Self { routes, others: Taken::new(&["GET", "POST", "OPTIONS"], &[CALLERS, BODIES, NAMES]) }
    }

    /// The answer to a browser that asks before it calls.
    pub(crate) fn answer(&self, request: &Request) -> Response {
        let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let taken = path.and_then(|path| self.routes.get(path)).unwrap_or(&self.others);
        let headers = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, taken.methods.clone()),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, taken.headers.clone()),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            (header::ALLOW, taken.methods.clone()),
        ];
        let mut response = (StatusCode::NO_CONTENT, headers).into_response();
        open(response.headers_mut());
        response
    }
}

/// True if the route is a stream that goes on behind a position.
fn takes_position(item: &Value) -> bool {
    let parameters = item["get"]["parameters"].as_array();
    let named = |it: &Value| it["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(POSITIONS));
    parameters.into_iter().flatten().any(|it| it["in"] == "header" && named(it))
}

/// Lets a page read the answer.
pub(crate) fn open(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_preflight_says_what_its_route_takes() {
        let document = json!({ "paths": {
            "/chains": { "get": {} }, "/quote/v2": { "post": {} }, "/price": { "post": {} },
            "/webhooks/endpoint": { "get": {}, "put": {}, "delete": {} },
            "/requests/v3/stream": { "get": { "parameters": [{ "in": "header", "name": "Last-Event-ID" }] } },
        } });
        let preflights = Preflights::new(&document);
        for (path, methods, headers) in [
            ("/chains", "GET,OPTIONS", CALLERS.to_owned()),
            ("/quote/v2", "POST,OPTIONS", format!("{CALLERS},{BODIES},{NAMES}")),
            ("/price", "POST,OPTIONS", format!("{CALLERS},{BODIES}")),
            ("/webhooks/endpoint", "GET,PUT,DELETE,OPTIONS", format!("{CALLERS},{BODIES}")),
            ("/requests/v3/stream", "GET,OPTIONS", format!("{CALLERS},{POSITIONS}")),
        ] {
            let taken = &preflights.routes[path];
            assert_eq!((taken.methods.to_str().unwrap(), taken.headers.to_str().unwrap()), (methods, headers.as_str()));
        }
        let unknown = preflights.answer(&Request::default());
        assert_eq!(unknown.status(), StatusCode::NO_CONTENT);
        assert_eq!(unknown.headers()[header::ACCESS_CONTROL_ALLOW_METHODS], "GET,POST,OPTIONS");
        assert_eq!(unknown.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    }
}
