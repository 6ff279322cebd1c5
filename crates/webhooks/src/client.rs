//! One POST to a receiver that may be slow, broken or hostile: bounded in time and memory, never redirected, and never
//! connected to an address that is not public.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::dns::Resolve;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::redirect;
use rustls::pki_types::CertificateDer;

use crate::address::{Policy, Refusal};
use crate::env::{MAX_POSTS_PER_ENDPOINT, Settings};
use crate::resolver::{GuardedResolver, SystemResolver};
use crate::target::Target;

/// Bytes of an answer that are read and kept.
pub const MAX_BODY: usize = 1_024;
/// The longest wait for the start of a body: the status has already decided.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Characters of an error that are kept.
const MAX_ERROR: usize = 200;
const MAX_RESPONSE_HEADERS: usize = 100;

/// The answer of a receiver, or the reason why there is none.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub code: Option<u16>,
    pub error: Option<String>,
    /// The start of the body.
    pub body: Option<String>,
    pub duration: Duration,
}

impl Reply {
    /// An attempt that failed before anything was sent.
    pub fn not_sent(why: impl Into<String>) -> Self {
        Self { error: Some(shortened(&why.into(), MAX_ERROR)), ..Self::default() }
    }

    pub fn is_accepted(&self) -> bool {
        self.code.is_some_and(|code| (200..300).contains(&code))
    }
}

#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the HTTP client cannot be set up")]
    Http(#[from] reqwest::Error),
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Self, ClientError> {
        Self::with(settings, Arc::new(SystemResolver), &[])
    }

    /// `resolver` is asked for names, and its answers are judged; `roots` are trusted beside the public authorities.
    pub fn with(
        settings: &Settings,
        resolver: Arc<dyn Resolve>,
        roots: &[CertificateDer<'_>],
    ) -> Result<Self, ClientError> {
        let policy = Policy { allow_local: settings.allow_local };
        let mut trusted = rustls::RootCertStore::empty();
        trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        trusted.add_parsable_certificates(roots.iter().map(|root| root.clone().into_owned()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            // A proxy would connect for us, to wherever it is told.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .tls_backend_preconfigured(tls)
            .dns_resolver(GuardedResolver { inner: resolver, policy })
            .connect_timeout(settings.connect_timeout)
            .http1_only()
            .http1_max_headers(MAX_RESPONSE_HEADERS)
            .pool_max_idle_per_host(MAX_POSTS_PER_ENDPOINT)
            .pool_idle_timeout(Duration::from_secs(15))
            .build()?;
        Ok(Self { http, timeout: settings.attempt_timeout })
    }

    /// Posts once. `signed` are our headers; those of the target cannot take their place.
    pub async fn post(&self, target: &Target, signed: HeaderMap, body: Vec<u8>) -> Reply {
        let began = Instant::now();
        let mut headers: HeaderMap = target.headers().iter().cloned().collect();
        headers.extend(signed);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("causeway-webhooks/1"));
        let sent = self.http.post(target.url().clone()).headers(headers).body(body).send();
        let mut reply = match tokio::time::timeout(self.timeout, sent).await {
            Err(_) => Reply::not_sent("no answer in time"),
            Ok(Err(error)) => Reply::not_sent(describe(&error)),
            Ok(Ok(response)) => {
                let code = response.status().as_u16();
                let left = self.timeout.saturating_sub(began.elapsed()).min(BODY_TIMEOUT);
                Reply { code: Some(code), body: start_of_body(response, left).await, ..Reply::default() }
            }
        };
        reply.duration = began.elapsed();
        reply
    }
}

/// Reads at most [`MAX_BODY`] bytes; the rest of the body is never asked for.
async fn start_of_body(mut response: reqwest::Response, limit: Duration) -> Option<String> {
    let mut start = Vec::with_capacity(MAX_BODY);
    let read = async {
        while start.len() < MAX_BODY {
            match response.chunk().await {
                Ok(Some(chunk)) => start.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY - start.len())]),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // The part that came in time is kept.
    let _ = tokio::time::timeout(limit, read).await;
    (!start.is_empty()).then(|| shortened(&String::from_utf8_lossy(&start), MAX_BODY))
}

/// The innermost cause without the URL, which may carry a secret.
fn describe(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        if let Some(refusal) = next.downcast_ref::<Refusal>() {
            return refusal.to_string();
        }
        cause = next;
    }
    let at = if error.is_connect() { "cannot connect" } else { "the exchange broke off" };
    if error.is_timeout() { "no connection in time".to_owned() } else { format!("{at}: {cause}") }
}

/// Text without control characters, which a database may refuse and a terminal may obey.
fn shortened(text: &str, most: usize) -> String {
    let plain =
        |letter: char| if letter.is_control() && letter != '\n' && letter != '\t' { '\u{fffd}' } else { letter };
    text.chars().take(most).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_2xx_is_accepted() {
        for (code, accepted) in [(199, false), (200, true), (204, true), (299, true), (300, false), (302, false)] {
            assert_eq!(Reply { code: Some(code), ..Reply::default() }.is_accepted(), accepted, "{code}");
        }
        assert!(!Reply::not_sent("x").is_accepted());
    }

    #[test]
    fn kept_text_is_short_and_plain() {
        assert_eq!(shortened("a\0b\u{1b}[31m\n", 100), "a\u{fffd}b\u{fffd}[31m\n");
        assert_eq!(shortened(&"ü".repeat(50), 10).chars().count(), 10);
    }
}
