//! A receiver that remembers what it was sent and answers as it is told.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Received {
    pub at: Instant,
    /// Of the URL: it tells endpoints apart.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn request(&self) -> String {
        self.json()["data"]["requestId"].as_str().unwrap().to_owned()
    }

    pub fn sequence(&self) -> u64 {
        self.header("x-webhook-sequence").parse().unwrap()
    }
}

/// The answer to the nth event, from 0.
type Answer = Box<dyn Fn(usize, &Received) -> StatusCode + Send + Sync>;

struct Inner {
    received: Mutex<Vec<Received>>,
    answer: Answer,
}

#[derive(Clone)]
pub struct Receiver {
    inner: Arc<Inner>,
    pub url: String,
}

impl Receiver {
    pub async fn start(answer: impl Fn(usize, &Received) -> StatusCode + Send + Sync + 'static) -> Self {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?token=secret", socket.local_addr().unwrap());
        let inner = Arc::new(Inner { received: Mutex::default(), answer: Box::new(answer) });
        let router = Router::new().fallback(receive).with_state(inner.clone());
        tokio::spawn(async move { axum::serve(socket, router).await.unwrap() });
        Self { inner, url }
    }

    /// A receiver that accepts everything.
    pub async fn good() -> Self {
        Self::start(|_, _| StatusCode::NO_CONTENT).await
    }

    pub fn received(&self) -> Vec<Received> {
        self.inner.received.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.inner.received.lock().unwrap().len()
    }
}

async fn receive(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let it = Received { at: Instant::now(), path: uri.path().to_owned(), headers, body };
    let mut received = inner.received.lock().unwrap();
    let code = (inner.answer)(received.len(), &it);
    received.push(it);
    (code, "thank you")
}
