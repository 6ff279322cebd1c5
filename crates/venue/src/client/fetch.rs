//! One call: its limits of time, size and rate, and the attempts of a read.

use std::fmt::Display;
use std::time::Duration;

use reqwest::{Response, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use url::{Url, form_urlencoded};

use super::error::VenueError;
use super::quota::{Meter, Purpose, Quota};
use crate::auth::AuthToken;

/// The largest answer is a page of history or an account with all its positions.
const MAX_ANSWER_BYTES: usize = 1 << 20;
const MAX_ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(150);
/// A longer pause is the caller's to make.
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Fetch {
    http: reqwest::Client,
    base: Url,
    meter: Meter,
    /// The purpose of reads, unless they are for a payment.
    reads: Purpose,
}

/// The question of a read.
#[derive(Clone, Debug)]
pub(super) struct Query {
    weight: u32,
    for_payment: bool,
    pairs: Vec<(&'static str, String)>,
    token: Option<AuthToken>,
}

impl Query {
    pub(super) fn new(weight: u32) -> Self {
        Self { weight, for_payment: false, pairs: Vec::new(), token: None }
    }

    /// The answer is needed before something is sent: the question may use what is left to payments.
    pub(super) fn before_sending(mut self) -> Self {
        self.for_payment = true;
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.pairs.push((name, value.to_string()));
        self
    }

    pub(super) fn signed(mut self, token: &AuthToken) -> Self {
        self.token = Some(*token);
        self
    }
}

/// Every answer says how it went. Some have 200 for HTTP and an error in here.
#[derive(Deserialize)]
struct Envelope {
    code: Option<u64>,
    #[serde(default)]
    message: Option<String>,
}

impl Fetch {
    pub(super) fn new(base: Url, timeout: Duration, quota: Quota) -> Result<Self, VenueError> {
        if base.cannot_be_a_base() {
            return Err(VenueError::BaseUrl);
        }
        // The second and every later call finds the provider installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // Signed transactions go where the configuration says: no proxy of the environment, no redirect.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(timeout)
            .connect_timeout(timeout)
            .build()
            .map_err(VenueError::Unreachable)?;
        Ok(Self { http, base, meter: Meter::new(quota), reads: Purpose::Read })
    }

    /// The same connections and the same meter, for reads of another purpose.
    pub(super) fn reading_for(&self, reads: Purpose) -> Self {
        Self { reads, ..self.clone() }
    }

    /// Reads, up to three times.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, query: &Query) -> Result<T, VenueError> {
        let mut url = self.url(path);
        if !query.pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(&query.pairs);
        }
        let purpose = if query.for_payment { Purpose::Send } else { self.reads };
        let mut attempt = 1;
        loop {
            self.pay(query.weight, purpose)?;
            let mut request = self.http.get(url.clone());
            if let Some(token) = &query.token {
                request = request.header(header::AUTHORIZATION, token.expose());
            }
            let answer = match request.send().await {
                Ok(response) => read(response).await,
                Err(error) => Err(VenueError::Unreachable(error)),
            };
            match answer {
                Err(error) if error.is_passing() && attempt < MAX_ATTEMPTS => {
                    tracing::debug!(attempt, "the venue did not answer: {error}");
                    tokio::time::sleep(FIRST_PAUSE * 2u32.pow(attempt - 1)).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Posts a form, once.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        weight: u32,
        form: &[(&str, &str)],
    ) -> Result<T, VenueError> {
        self.pay(weight, Purpose::Send)?;
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.http.post(self.url(path)).body(body);
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        read(request.send().await.map_err(VenueError::Unreachable)?).await
    }

    fn pay(&self, weight: u32, purpose: Purpose) -> Result<(), VenueError> {
        self.meter.take(weight, purpose, Instant::now()).map_err(VenueError::QuotaUsed)
    }

    /// Below the base address, whether it ends with a slash or not.
    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let joined = format!("{}{path}", self.base.path().trim_end_matches('/'));
        url.set_path(&joined);
        url.set_query(None);
        url
    }
}

async fn read<T: DeserializeOwned>(mut response: Response) -> Result<T, VenueError> {
    let status = response.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        let asked = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        return Err(VenueError::Busy(asked.map_or(Duration::from_secs(1), Duration::from_secs).min(MAX_PAUSE)));
    }
    if status.is_server_error() || status.is_redirection() || status.is_informational() {
        return Err(VenueError::Failing(status.as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(VenueError::Unreachable)? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(VenueError::TooLarge(MAX_ANSWER_BYTES));
        }
        body.extend_from_slice(&chunk);
    }
    let envelope = serde_json::from_slice::<Envelope>(&body);
    if status.is_client_error() {
        let (code, message) = match envelope {
            Ok(Envelope { code, message }) => (code, message.unwrap_or_default()),
            Err(_) => (None, String::new()),
        };
        return Err(VenueError::refused(code.unwrap_or(status.as_u16().into()), &message));
    }
    match envelope.map_err(VenueError::Json)? {
        Envelope { code: None | Some(200), .. } => serde_json::from_slice(&body).map_err(VenueError::Json),
        Envelope { code: Some(code), message } => Err(VenueError::refused(code, &message.unwrap_or_default())),
    }
}
