//! Calls of the service's own routes, within the process.

use api::Acting;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use serde_json::Value;
use url::form_urlencoded;

use crate::Dashboard;
use crate::failure::Failure;

/// The largest answer that a page is made from.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The header by which a browser names the last event that it got.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// A path with a query. Pairs without a value are left out.
pub(crate) fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

impl Dashboard {
    /// The answer as it comes, for a browser to get as it is.
    pub(crate) async fn open(&self, acting: Acting, path: &str) -> Result<Response, Failure> {
        self.open_behind(acting, path, None).await
    }

    /// The answer as it comes, of a stream that goes on behind an event where the browser names one.
    pub(crate) async fn open_behind(
        &self,
        acting: Acting,
        path: &str,
        last_event: Option<&HeaderValue>,
    ) -> Result<Response, Failure> {
        let mut request = Request::builder().uri(path);
        if let Some(last_event) = last_event {
            request = request.header(LAST_EVENT_ID, last_event);
        }
        let request = request.body(Body::empty()).map_err(|_| Failure::bad("the address does not fit"))?;
        let mut response = self.api.call(acting, request).await;
        // The routes are open to pages of every site; an account's own answers are not.
        response.headers_mut().remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        Ok(response)
    }

    pub(crate) async fn get(&self, acting: Acting, path: &str) -> Result<Value, Failure> {
        let response = self.open(acting, path).await?;
        read(response).await
    }

    pub(crate) async fn send(
        &self,
        acting: Acting,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let request =
            request.body(Body::from(body.to_string())).map_err(|_| Failure::bad("the address does not fit"))?;
        read(self.api.call(acting, request).await).await
    }
}

/// The body of a good answer; that of a refusal becomes a failure with its message and its code.
async fn read(response: Response) -> Result<Value, Failure> {
    let status = response.status();
    let bytes = to_bytes(response.into_body(), MAX_ANSWER).await;
    let bytes = bytes.map_err(|_| Failure::Internal("an answer of our own was too long"))?;
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let message = body["message"].as_str().unwrap_or("the service refused").to_owned();
    // A page does not show whose key it acted with: that it was refused is our fault, not the reader's.
    let status = if status == StatusCode::UNAUTHORIZED { StatusCode::FORBIDDEN } else { status };
    Err(Failure::Refused { status, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_without_empty_members() {
        assert_eq!(with_query("/a", []), "/a");
        assert_eq!(with_query("/a", [("b", ""), ("c", "d e&f")]), "/a?c=d+e%26f");
    }
}
