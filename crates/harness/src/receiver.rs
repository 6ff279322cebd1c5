//! A receiver of webhooks that remembers every post, answers as it is told, and judges what it got.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use webhooks::signature::{DELIVERY_HEADER, SEQUENCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, verify};

/// The clocks of sender and receiver begin at other moments: the sender's hold may look this much shorter.
const HOLD_TOLERANCE: Duration = Duration::from_secs(2);

/// One post as it arrived, and the answer it got.
#[derive(Clone, Debug)]
pub struct Post {
    pub at: Instant,
    /// Of the URL: it tells endpoints apart.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub code: u16,
}

impl Post {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Null if the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn data(&self, member: &str) -> Value {
        self.json()["data"][member].clone()
    }

    pub fn request(&self) -> String {
        self.data("requestId").as_str().unwrap_or_default().to_owned()
    }

    pub fn status(&self) -> String {
        self.data("status").as_str().unwrap_or_default().to_owned()
    }

    /// Id of the delivery.
    pub fn id(&self) -> &str {
        self.header(DELIVERY_HEADER)
    }

    pub fn sequence(&self) -> Option<u64> {
        self.header(SEQUENCE_HEADER).parse().ok()
    }

    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The signature is good over the bytes as they came, and over the body parsed and written again, which is how
    /// published samples verify it.
    pub fn is_signed_by(&self, key: &str) -> bool {
        let (time, signature) = (self.header(TIMESTAMP_HEADER), self.header(SIGNATURE_HEADER));
        let rewritten = rewritten(&self.body);
        verify(key, time, &self.body, signature) && verify(key, time, &rewritten, signature)
    }
}

/// The body parsed and written again, its members in the order in which they came.
fn rewritten(body: &[u8]) -> Vec<u8> {
    let parsed: Option<Written> = serde_json::from_slice(body).ok();
    parsed.and_then(|parsed| serde_json::to_vec(&parsed).ok()).unwrap_or_default()
}

/// JSON that keeps the order of its members, whatever map the build of `serde_json` uses.
#[derive(Debug, serde::Deserialize, serde::Serialize)]
struct Written {
    event: String,
    timestamp: i64,
    data: WrittenData,
}

#[derive(Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenData {
    status: String,
    in_tx_hashes: Vec<String>,
    tx_hashes: Vec<String>,
    updated_at: i64,
    origin_chain_id: u64,
    destination_chain_id: u64,
    deposit_address: Option<WrittenAddress>,
    request_id: String,
    referrer: Option<String>,
    details: Option<Value>,
    fail_reason: String,
    refund_fail_reason: String,
}

#[derive(Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenAddress {
    address: String,
    deposit_address_type: String,
    depositor: Option<String>,
    deposit_tx_hash: Option<String>,
}

/// The answer to a post, by the number of posts of the same delivery before it.
type Answer = Box<dyn Fn(&Post, usize) -> u16 + Send + Sync>;

struct Inner {
    posts: Mutex<Posts>,
    answer: Answer,
}

#[derive(Default)]
struct Posts {
    all: Vec<Post>,
    /// Posts by the id of their delivery.
    of_delivery: BTreeMap<String, usize>,
}

impl Inner {
    fn posts(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A receiver that ends when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Receiver {
    pub async fn start(answer: impl Fn(&Post, usize) -> u16 + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner { posts: Mutex::default(), answer: Box::new(answer) });
        let router = Router::new().fallback(receive).with_state(inner.clone());
        let task = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, inner, task })
    }

    /// A receiver that accepts everything.
    pub async fn accepting() -> Result<Self> {
        Self::start(|_, _| 204).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All posts in the order they came.
    pub fn posts(&self) -> Vec<Post> {
        self.inner.posts().all.clone()
    }

    pub fn count(&self) -> usize {
        self.inner.posts().all.len()
    }

    /// Posts of a request in the order they came.
    pub fn of(&self, request: &str) -> Vec<Post> {
        self.posts().into_iter().filter(|post| post.request() == request).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut post = Post { at: Instant::now(), path: uri.path().to_owned(), headers, body, code: 0 };
    let mut posts = inner.posts();
    let before = posts.of_delivery.entry(post.id().to_owned()).or_default();
    post.code = (inner.answer)(&post, *before);
    *before += 1;
    let code = post.code;
    posts.all.push(post);
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The verdict on the posts of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Events that were accepted, by endpoint and request: the sequence numbers and the statuses that they told.
    pub events: BTreeMap<(String, String), BTreeMap<u64, String>>,
    /// Posts of events that had been accepted before.
    pub repeats: usize,
    /// Posts that were not accepted.
    pub refused: usize,
    pub wrong: Vec<String>,
}

/// The first attempt at each event of a request, by sequence number, and whether one was accepted.
type Attempts = BTreeMap<u64, (Instant, bool)>;

/// Judges posts in the order they came. Each is signed by the key. An id stands for one event of one endpoint, and
/// every event has one id. An event of a request comes after those before it were accepted, or `hold` after their first
/// attempt.
pub fn judge(posts: &[Post], key: &str, hold: Duration) -> Judged {
    let mut judged = Judged::default();
    let mut bodies: BTreeMap<&str, &Post> = BTreeMap::new();
    let mut ids: BTreeMap<(&str, String, u64), &str> = BTreeMap::new();
    let mut tried: BTreeMap<(&str, String), Attempts> = BTreeMap::new();
    let mut accepted: BTreeSet<&str> = BTreeSet::new();
    for post in posts {
        let (request, sequence) = (post.request(), post.sequence().unwrap_or_default());
        let name = format!("{sequence} of {request} at {}, id {}", post.path, post.id());
        if !post.is_signed_by(key) {
            judged.wrong.push(format!("{name}: its signature is not good"));
        }
        if bodies.insert(post.id(), post).is_some_and(|other| other.body != post.body || other.path != post.path) {
            judged.wrong.push(format!("{name}: the id had another body before"));
        }
        if ids.insert((post.path.as_str(), request.clone(), sequence), post.id()).is_some_and(|id| id != post.id()) {
            judged.wrong.push(format!("{name}: the event had another id before"));
        }
        let of_request = tried.entry((post.path.as_str(), request.clone())).or_default();
        for earlier in 1..sequence {
            let is_over = |at: Instant| post.at.duration_since(at) + HOLD_TOLERANCE >= hold;
            if !of_request.get(&earlier).is_some_and(|(at, accepted)| *accepted || is_over(*at)) {
                judged.wrong.push(format!("{name}: it came before number {earlier}"));
            }
        }
        let state = of_request.entry(sequence).or_insert((post.at, false));
        state.1 |= post.is_accepted();
        match (post.is_accepted(), accepted.contains(post.id())) {
            (true, false) => {
                accepted.insert(post.id());
                judged.events.entry((post.path.clone(), request)).or_default().insert(sequence, post.status());
            }
            (true, true) => judged.repeats += 1,
            (false, _) => judged.refused += 1,
        }
    }
    judged
}
