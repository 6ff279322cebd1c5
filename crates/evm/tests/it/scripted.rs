//! A node that says exactly what a test tells it to.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use domain::ids::ChainId;
use evm::{Endpoint, Nodes};
use serde_json::{Value, json};
use url::Url;

pub(crate) const CHAIN: ChainId = ChainId(31_999);

pub(crate) enum Reply {
    Result(Value),
    Error(i64, &'static str),
    Status(u16),
    Garbage,
    Silence,
}

pub(crate) fn result(value: impl serde::Serialize) -> Reply {
    Reply::Result(json!(value))
}

type Script = dyn Fn(&str, &Value) -> Reply + Send + Sync;

#[derive(Clone)]
pub(crate) struct Scripted {
    pub url: Url,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Script>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Scripted {
    pub(crate) async fn start(script: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(HashMap::new()));
        let shared = Shared { script: Arc::new(script), asked: asked.clone() };
        let app = Router::new().route("/{key}", post(answer)).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/secret-key", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, asked }
    }

    /// The number of requests for a method.
    pub(crate) fn asked(&self, method: &str) -> usize {
        self.asked.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    /// Returns once a method has been asked for that many times.
    pub(crate) async fn until_asked(&self, method: &str, times: usize) {
        let waiting = async {
            while self.asked(method) < times {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("the node is asked in time");
    }
}

async fn answer(State(shared): State<Shared>, body: Bytes) -> Response {
    let question: Value = serde_json::from_slice(&body).unwrap();
    let method = question["method"].as_str().unwrap();
    *shared.asked.lock().unwrap().entry(method.to_owned()).or_default() += 1;
    let reply = |body: Value| body.to_string().into_response();
    match (shared.script)(method, &question["params"]) {
        Reply::Result(value) => reply(json!({ "jsonrpc": "2.0", "id": question["id"], "result": value })),
        Reply::Error(code, message) => {
            reply(json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": code, "message": message } }))
        }
        Reply::Status(status) => (StatusCode::from_u16(status).unwrap(), "no").into_response(),
        Reply::Garbage => "<html>".into_response(),
        Reply::Silence => pending().await,
    }
}

pub(crate) fn nodes(scripted: &[&Scripted], timeout: Duration) -> Nodes {
    let endpoints = scripted.iter().map(|it| Endpoint { http: it.url.clone(), ws: None }).collect();
    Nodes::new(CHAIN, endpoints, timeout).unwrap()
}

/// Long enough for a busy machine; a test of a timeout chooses a short one.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(20);

/// The name by which a contradiction accuses a node.
pub(crate) fn host(node: &Scripted) -> String {
    format!("127.0.0.1:{}", node.url.port().unwrap())
}

/// The nodes that the first contradiction accuses, once there is one.
pub(crate) async fn accused(nodes: &Nodes) -> Vec<String> {
    let named = async {
        loop {
            if let Some(contradiction) = nodes.contradictions().into_iter().next() {
                return contradiction.accused;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, named).await.expect("the contradiction is noted")
}

pub(crate) fn hash(byte: u8) -> B256 {
    B256::repeat_byte(byte)
}

pub(crate) fn block(number: u64, hash: B256, transactions: Value) -> Value {
    json!({
        "number": U256::from(number), "hash": hash, "parentHash": B256::ZERO, "timestamp": "0x64",
        "baseFeePerGas": "0x7", "transactions": transactions,
    })
}

pub(crate) fn transaction(hash: B256, from: Address) -> Value {
    json!({ "hash": hash, "from": from, "to": Address::ZERO, "nonce": "0x3", "value": "0x0", "input": "0x" })
}

pub(crate) fn receipt(tx: B256, block: B256) -> Value {
    json!({
        "transactionHash": tx, "blockHash": block, "blockNumber": "0x9", "transactionIndex": "0x0", "status": "0x1",
        "gasUsed": "0x5208", "effectiveGasPrice": "0xa", "l1Fee": "0x5", "logs": [],
    })
}
