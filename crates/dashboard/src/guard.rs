//! The guard before every page: who is signed in, whether a form is one of ours, and the headers of the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::keccak256;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics::{counter, histogram};
use store::sessions;
use url::form_urlencoded;

use crate::Dashboard;
use crate::access::Access;
use crate::account::{Account, TOKEN_FIELD};
use crate::cookies::Cookie;
use crate::failure::Failure;

/// The largest form.
const MAX_FORM: usize = 64 * 1024;
/// The most members of a form.
const MAX_FIELDS: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(30);
/// The header of a script's call that carries the session's token.
const TOKEN_HEADER: &str = "x-form-token";

/// Own scripts, styles, pictures and calls, and nothing of anybody else's. Nothing may be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The members of a form, as they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Arc<Vec<(String, String)>>);

impl Fields {
    fn parse(body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(body).into_owned().take(MAX_FIELDS);
        Self(Arc::new(pairs.collect()))
    }

    /// A member without the space around it; empty where it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.trim())
    }
}

impl<S: Sync> FromRequestParts<S> for Fields {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        parts.extensions.get::<Self>().cloned().ok_or(Failure::Internal("a form was not read"))
    }
}

/// Lets a call through to its page if its caller may see it.
pub(crate) async fn guard(
    State((dashboard, access)): State<(Dashboard, Access)>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let answered = tokio::time::timeout(TIMEOUT, admitted(&dashboard, access, request, next)).await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => failure.into_response(),
        Err(_) => Failure::Internal("a page took too long").into_response(),
    };
    let status = response.status().as_str().to_owned();
    counter!("causeway_dashboard_requests_total", "route" => route.clone(), "status" => status).increment(1);
    histogram!("causeway_dashboard_seconds", "route" => route).record(started.elapsed());
    response
}

async fn admitted(dashboard: &Dashboard, access: Access, request: Request, next: Next) -> Result<Response, Failure> {
    let account = signed_in(dashboard, request.headers()).await?;
    let (mut parts, body) = request.into_parts();
    match (access, &account) {
        (Access::Everyone, _) | (Access::Account, Some(_)) => {}
        // A script would take the way to the sign-in page for its answer.
        (Access::Account | Access::Operator, None) if parts.headers.contains_key(TOKEN_HEADER) => {
            return Err(Failure::Forbidden("Your session has ended. Sign in again."));
        }
        (Access::Account | Access::Operator, None) => return Err(Failure::SignIn),
        // An operator's page does not tell others that it is there.
        (Access::Operator, Some(account)) if !account.operator => return Err(Failure::NotFound),
        (Access::Operator, Some(_)) => {}
    }
    let is_form = parts.method == Method::POST;
    if account.as_ref().is_some_and(|account| !dashboard.rates.admit(account.address, is_form, Instant::now())) {
        let message = "That was a lot at once. Wait a minute, and go on.".to_owned();
        return Err(Failure::Refused { status: StatusCode::TOO_MANY_REQUESTS, message });
    }
    let body = if is_form {
        if !is_from_here(dashboard, &parts.headers) {
            return Err(Failure::Forbidden("This form was sent from another site."));
        }
        let bytes = to_bytes(body, MAX_FORM).await.map_err(|_| Failure::bad("The form is too large."))?;
        let fields = Fields::parse(&bytes);
        if let Some(account) = &account {
            let header = parts.headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
            let given = header.unwrap_or_else(|| fields.get(TOKEN_FIELD));
            if !dashboard.seal.is_form_token(account.session, given) {
                return Err(Failure::Forbidden("This form has expired. Go back, load the page again and repeat."));
            }
        }
        parts.extensions.insert(fields);
        Body::empty()
    } else {
        body
    };
    if let Some(account) = account {
        parts.extensions.insert(account);
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// The account of the session that the cookie opens.
async fn signed_in(dashboard: &Dashboard, headers: &HeaderMap) -> Result<Option<Account>, Failure> {
    let Some(token) = dashboard.cookies.read(headers, Cookie::Session) else { return Ok(None) };
    let (hash, now) = (keccak256(&token), dashboard.now());
    let session = dashboard.app.store.read(move |tx| sessions::find(tx, hash, now)).await?;
    Ok(session.map(|session| Account {
        address: session.account,
        operator: dashboard.settings.operators.contains(&session.account),
        session: session.token_hash,
        form_token: dashboard.seal.form_token(session.token_hash),
        test_wallet: dashboard.settings.test_wallet.is_some(),
    }))
}

/// True unless the browser says that another site sent the form. Browsers say so on every POST.
fn is_from_here(dashboard: &Dashboard, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let own = dashboard.base_url.origin().ascii_serialization();
    // A local network is reached under two names of this machine.
    let local = own.replace("127.0.0.1", "localhost");
    let origin = text("origin").is_none_or(|origin| origin == own || origin == local);
    site && origin
}

/// The headers of every answer. Pages are never kept by a cache: they are one account's.
pub(crate) async fn headers(State(dashboard): State<Dashboard>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin-allow-popups"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if dashboard.base_url.scheme() == "https" {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_by_name() {
        let fields = Fields::parse(b"a=1&b=%20two+words%20&a=3&c");
        assert_eq!(fields.get("a"), "1");
        assert_eq!(fields.get("b"), "two words");
        assert_eq!(fields.get("c"), "");
        assert_eq!(fields.get("d"), "");
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1", "3"]);
    }

    #[test]
    fn no_page_runs_what_is_written_into_it() {
        assert!(!POLICY.contains("unsafe") && POLICY.contains("default-src 'none'"));
    }
}
