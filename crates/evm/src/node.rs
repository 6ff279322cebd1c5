//! One endpoint of one chain: its requests and its health.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy::primitives::Bytes;
use domain::ids::ChainId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use url::Url;

use crate::errors::{ChainError, Host, Refusal, Unreachable, shown, understand};
use crate::rpc::{Answer, Head, Header};

/// A full block stays below this on every chain we know; a longer answer is a node gone wrong.
const LARGEST_ANSWER: usize = 64 << 20;

/// After a failure an endpoint is asked last for this long, doubled with each further one; then it gets a fresh chance.
const COOL_DOWN: Duration = Duration::from_secs(5);
const MAX_COOL_DOWN: Duration = Duration::from_secs(80);

pub(crate) struct Node {
    pub chain: ChainId,
    pub host: Host,
    pub ws: Option<Url>,
    pub timeout: Duration,
    http: Url,
    client: reqwest::Client,
    chain_label: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    head: Option<Head>,
    latency: Option<Duration>,
    failures_in_a_row: u32,
    last_error: Option<String>,
    last_success: Option<Instant>,
    last_failure: Option<Instant>,
    /// The method it failed at; success at another method does not make up for it.
    failed_method: Option<&'static str>,
    subscribed: bool,
}

/// The health of an endpoint, for `doctor` and the operator's page.
#[derive(Clone, Debug)]
pub struct EndpointHealth {
    pub chain: ChainId,
    /// Host and port only.
    pub host: String,
    /// The newest block it has told us of.
    pub head: Option<Head>,
    /// The latency of its last answer.
    pub latency: Option<Duration>,
    pub failures_in_a_row: u32,
    pub last_error: Option<String>,
    pub since_success: Option<Duration>,
    /// True while new heads are pushed to us.
    pub subscribed: bool,
}

pub(crate) const TRACE: &str = "debug_traceTransaction";
pub(crate) const BLOCK_RECEIPTS: &str = "eth_getBlockReceipts";
pub(crate) const SIMULATE: &str = "eth_simulateV1";

/// Optional methods: not every node offers these, and nothing is held against one that does not, because there is
/// another way to ask, or because what needs it is not offered then.
fn is_extra(method: &str) -> bool {
    method == TRACE || method == BLOCK_RECEIPTS || method == SIMULATE
}

impl Node {
    pub(crate) fn new(chain: ChainId, http: Url, ws: Option<Url>, client: reqwest::Client, timeout: Duration) -> Self {
        let host = Host::of(&http);
        Self { chain, host, ws, timeout, http, client, chain_label: chain.to_string(), state: Mutex::default() }
    }

    /// The time it may hold up a question before another endpoint is asked beside it.
    pub(crate) fn hedge_delay(&self) -> Duration {
        self.timeout / 4
    }

    /// One request, bounded by the endpoint's timeout; counted, timed and remembered.
    ///
    /// Built once per type of answer and of parameters, so only what they decide is in here.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl Serialize,
    ) -> Result<T, ChainError> {
        let body = serde_json::to_vec(&Question { jsonrpc: "2.0", id: 1, method, params });
        let body = body.map_err(|error| self.unreadable(method, &error))?;
        self.ask_in(method, body.into()).await
    }

    /// The same with the whole of a request as it is sent.
    pub(crate) async fn ask_in<T: DeserializeOwned>(&self, method: &'static str, body: Bytes) -> Result<T, ChainError> {
        let asking = Asking { node: self, method, started: Instant::now(), answered: false };
        let text = self.post(method, body).await;
        let answer = text.and_then(|text| {
            let result = self.result(method, &text)?;
            serde_json::from_str(result.get()).map_err(|error| self.unreadable(method, &error))
        });
        asking.end(answer.as_ref().err());
        answer
    }

    fn count(&self, method: &'static str, outcome: &'static str) {
        let chain = self.chain_label.clone();
        metrics::counter!("evm_rpc_calls_total", "chain" => chain, "method" => method, "outcome" => outcome)
            .increment(1);
    }

    pub(crate) async fn latest(&self) -> Result<Head, ChainError> {
        let header: Header = self.ask("eth_getBlockByNumber", ("latest", false)).await?;
        let head = header.head();
        self.saw(head);
        Ok(head)
    }

    /// Sends a request and returns the text of its answer.
    fn post(&self, method: &'static str, body: Bytes) -> BoxFuture<'_, Result<Vec<u8>, ChainError>> {
        let late = move || ChainError::Timeout { host: self.host.clone(), method, after: self.timeout };
        let posted = self.send(method, body);
        async move { tokio::time::timeout(self.timeout, posted).await.unwrap_or_else(|_| Err(late())) }.boxed()
    }

    async fn send(&self, method: &'static str, body: Bytes) -> Result<Vec<u8>, ChainError> {
        let request = self.client.post(self.http.clone()).header("content-type", "application/json").body(body.0);
        let mut response = request.send().await.map_err(|error| self.unreachable(method, &error))?;
        let status = response.status();
        let mut text = Vec::with_capacity(response.content_length().unwrap_or(0).min(1 << 20) as usize);
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(method, &error))? {
            if text.len() + chunk.len() > LARGEST_ANSWER {
                let refusal = Refusal::TooMuch;
                return Err(ChainError::Refused { host: self.host.clone(), method, refusal });
            }
            text.extend_from_slice(&chunk);
        }
        if status == reqwest::StatusCode::PAYLOAD_TOO_LARGE {
            return Err(ChainError::Refused { host: self.host.clone(), method, refusal: Refusal::TooMuch });
        }
        // Some nodes send their error as JSON under a failing status; it says more than the status code.
        let speaks = status.is_success() || serde_json::from_slice::<Answer>(&text).is_ok_and(|it| it.error.is_some());
        if status.as_u16() == 429 || !speaks {
            return Err(ChainError::Status { host: self.host.clone(), method, status: status.as_u16() });
        }
        Ok(text)
    }

    /// The result in an answer, as it was written.
    fn result(&self, method: &'static str, text: &[u8]) -> Result<Box<RawValue>, ChainError> {
        let answer: Answer = serde_json::from_slice(text).map_err(|error| self.unreadable(method, &error))?;
        if let Some(fault) = answer.error {
            let refusal = understand(fault.code, &fault.message, fault.bytes().as_ref());
            return Err(ChainError::Refused { host: self.host.clone(), method, refusal });
        }
        answer.result.ok_or_else(|| self.unreadable(method, &"neither result nor error"))
    }

    /// The library's own text names the URL, so only the kind of failure is kept.
    fn unreachable(&self, method: &'static str, error: &reqwest::Error) -> ChainError {
        let reason = if error.is_connect() { Unreachable::Connect } else { Unreachable::Broken };
        ChainError::Unreachable { host: self.host.clone(), method, reason }
    }

    fn unreadable(&self, method: &'static str, reason: &dyn fmt::Display) -> ChainError {
        ChainError::Unreadable { host: self.host.clone(), method, reason: shown(&reason.to_string()) }
    }

    pub(crate) fn saw(&self, head: Head) {
        self.state().head = Some(head);
    }

    /// A node has every block it can show, even one it was not the first to announce.
    pub(crate) fn saw_at_least(&self, head: Head) {
        let mut state = self.state();
        if state.head.is_none_or(|known| known.number < head.number) {
            state.head = Some(head);
        }
    }

    pub(crate) fn set_subscribed(&self, subscribed: bool) {
        self.state().subscribed = subscribed;
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.state().subscribed
    }

    /// Records a failure found only after the answer was read, such as logs of another block.
    pub(crate) fn failed(&self, method: &'static str, error: &ChainError) {
        let mut state = self.state();
        state.failed_method = Some(method);
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        state.last_failure = Some(Instant::now());
        state.last_error = Some(error.to_string());
    }

    fn answered(&self, method: &'static str, latency: Duration) {
        let mut state = self.state();
        if state.failed_method.is_none_or(|failed| failed == method) {
            state.failures_in_a_row = 0;
            state.failed_method = None;
        }
        state.last_success = Some(Instant::now());
        state.latency = Some(latency);
    }

    pub(crate) fn is_failing(&self) -> bool {
        let state = self.state();
        let Some(doublings) = state.failures_in_a_row.checked_sub(1) else { return false };
        let cool_down = COOL_DOWN.saturating_mul(1 << doublings.min(8)).min(MAX_COOL_DOWN);
        state.last_failure.is_some_and(|at| at.elapsed() < cool_down)
    }

    pub(crate) fn last_head(&self) -> Option<Head> {
        self.state().head
    }

    pub(crate) fn health(&self) -> EndpointHealth {
        let state = self.state();
        EndpointHealth {
            chain: self.chain,
            host: self.host.to_string(),
            head: state.head,
            latency: state.latency,
            failures_in_a_row: state.failures_in_a_row,
            last_error: state.last_error.clone(),
            since_success: state.last_success.map(|at| at.elapsed()),
            subscribed: state.subscribed,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while holding the state of a node")
    }
}

/// Records a timeout when nobody waits for the answer any more: the endpoint was so slow that another one was asked.
struct Asking<'a> {
    node: &'a Node,
    method: &'static str,
    started: Instant,
    answered: bool,
}

impl Asking<'_> {
    fn end(mut self, error: Option<&ChainError>) {
        self.answered = true;
        let Self { node, method, started, .. } = self;
        let elapsed = started.elapsed();
        node.count(method, error.map_or("ok", ChainError::label));
        metrics::histogram!("evm_rpc_seconds", "chain" => node.chain_label.clone(), "method" => method).record(elapsed);
        match error {
            Some(_) if is_extra(method) => {}
            Some(error) if error.is_endpoint_failure() => node.failed(method, error),
            _ => node.answered(method, elapsed),
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let after = self.started.elapsed();
        if !self.answered && !is_extra(self.method) && after >= self.node.hedge_delay() {
            let error = ChainError::Timeout { host: self.node.host.clone(), method: self.method, after };
            self.node.count(self.method, "overtaken");
            self.node.failed(self.method, &error);
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("chain", &self.chain).field("host", &self.host).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Question<P> {
    jsonrpc: &'static str,
    id: u8,
    method: &'static str,
    params: P,
}
