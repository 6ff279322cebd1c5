//! A second endpoint for a node, over HTTP and websocket, that can be told to misbehave.
//!
//! Calls are answered over HTTP whichever way they came in; only subscriptions use a websocket to the node, one for
//! each of the caller's.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use alloy_primitives::U64;
use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{self, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use url::Url;

use crate::connection::Cutting;
use crate::fault_replies::{self, Plan};
use crate::faults::{Fault, Faults};
use crate::forgeries::{self, Forgery};
use crate::invented;

/// Runs until it is dropped; then its connections are reset.
#[derive(Debug)]
pub struct FaultProxy {
    pub rpc_url: Url,
    pub ws_url: Url,
    pub faults: Faults,
    task: JoinHandle<()>,
    _alive: watch::Sender<()>,
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FaultProxy {
    /// Starts a proxy in front of the given endpoints of one node, on a free port.
    pub async fn start(upstream_http: Url, upstream_ws: Url) -> Result<Self> {
        Self::start_at(upstream_http, upstream_ws, 0).await
    }

    pub async fn start_at(upstream_http: Url, upstream_ws: Url, port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .with_context(|| format!("cannot listen on port {port}; choose another"))?;
        let port = listener.local_addr()?.port();
        let faults = Faults::new();
        let client = crate::http::client().build()?;
        let node = Arc::new(Node { client, http: upstream_http, ws: upstream_ws, faults: faults.clone() });
        let app =
            Router::new().route("/", get(websocket).post(http)).layer(DefaultBodyLimit::disable()).with_state(node);
        let (alive, is_alive) = watch::channel(());
        let listener = Cutting { listener, faults: faults.watch(), alive: is_alive };
        let task = tokio::spawn(async move {
            if let Err(e) = axum::serve(listener, app).await {
                tracing::error!("the fault proxy on {port} ended: {e}");
            }
        });
        let rpc_url = Url::parse(&format!("http://127.0.0.1:{port}"))?;
        let ws_url = Url::parse(&format!("ws://127.0.0.1:{port}"))?;
        Ok(Self { rpc_url, ws_url, faults, task, _alive: alive })
    }
}

/// The node behind the proxy, and the faults of its replies.
#[derive(Debug)]
struct Node {
    client: reqwest::Client,
    http: Url,
    ws: Url,
    faults: Faults,
}

async fn http(State(node): State<Arc<Node>>, body: Bytes) -> Response {
    let fault = node.faults.get();
    if fault.stall {
        pending::<()>().await;
    }
    tokio::time::sleep(fault.delay).await;
    let answer = if fault.forwards_all() {
        node.forward(body).await
    } else {
        match serde_json::from_slice(&body) {
            Ok(request) => node.answer(request, &fault).await.map(|answer| answer.to_string().into()),
            Err(_) => Ok(Bytes::from_static(
                br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
            )),
        }
    };
    match answer {
        Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(e) => (StatusCode::BAD_GATEWAY, format!("{e:#}")).into_response(),
    }
}

async fn websocket(State(node): State<Arc<Node>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |socket| {
        if let Err(e) = relay(node, socket).await {
            tracing::debug!("a websocket through the fault proxy ended: {e:#}");
        }
    })
}

impl Fault {
    /// True when nothing in calls and answers changes, so they need not be parsed.
    fn forwards_all(&self) -> bool {
        *self == Self { delay: self.delay, ..Self::default() }
    }
}

impl Node {
    async fn forward(&self, body: Bytes) -> Result<Bytes> {
        let request = self.client.post(self.http.clone()).header(header::CONTENT_TYPE, "application/json");
        Ok(request.body(body).send().await?.bytes().await?)
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer: Value = serde_json::from_slice(&self.forward(call.to_string().into()).await?)?;
        ensure!(answer.get("error").is_none(), "{method}: {answer}");
        Ok(answer["result"].clone())
    }

    /// The highest block to be seen, if that is not simply the node's head.
    async fn head(&self, fault: &Fault) -> Result<Option<u64>> {
        if fault.stale_head == 0 {
            return Ok(None);
        }
        let head =
            fault_replies::number(&self.ask("eth_blockNumber", json!([])).await?).context("a head without a number")?;
        Ok(Some(head.saturating_sub(fault.stale_head)))
    }

    /// Answers one call or a batch.
    async fn answer(&self, request: Value, fault: &Fault) -> Result<Value> {
        let head = self.head(fault).await?;
        match request {
            Value::Array(calls) => {
                let answers = calls.into_iter().map(|call| self.answer_one(call, fault, head));
                Ok(Value::Array(futures::future::try_join_all(answers).await?))
            }
            call => self.answer_one(call, fault, head).await,
        }
    }

    async fn answer_one(&self, call: Value, fault: &Fault, head: Option<u64>) -> Result<Value> {
        let (id, method) = (call["id"].clone(), fault_replies::method(&call).to_owned());
        if fault.invented_heads > 0
            && let Some(result) = self.invent(&method, &call["params"], fault.invented_heads).await?
        {
            return Ok(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        Ok(match fault_replies::plan(call, fault, head) {
            Plan::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Plan::Error(code, text) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
            Plan::Forward(call) => {
                let mut answer: Value = serde_json::from_slice(&self.forward(call.to_string().into()).await?)?;
                if let Some(result) = answer.get_mut("result") {
                    self.forge(&method, &call["params"], result, &fault.forgeries).await?;
                    if method == "eth_call" {
                        forgeries::about_output(result, &fault.false_words);
                    }
                    if let Some(refusal) = fault_replies::refusal(&method, result, fault) {
                        return Ok(json!({"jsonrpc": "2.0", "id": id, "error": refusal}));
                    }
                    fault_replies::bend(&method, result, fault, head);
                }
                answer
            }
        })
    }

    /// The answer to a question about a block that is invented; none for other questions.
    async fn invent(&self, method: &str, params: &Value, ahead: u64) -> Result<Option<Value>> {
        const ASKED: [&str; 5] =
            ["eth_blockNumber", "eth_getBlockByNumber", "eth_getBlockByHash", "eth_getBlockReceipts", "eth_getLogs"];
        if !ASKED.contains(&method) {
            return Ok(None);
        }
        let head = self.ask("eth_getBlockByNumber", json!(["latest", false])).await?;
        let real = fault_replies::number(&head["number"]).context("a head without a number")?;
        if method == "eth_blockNumber" {
            return Ok(Some(json!(U64::from(real.saturating_add(ahead)))));
        }
        let Some(number) = invented::asked_for(method, params, real, ahead) else { return Ok(None) };
        if matches!(method, "eth_getLogs" | "eth_getBlockReceipts") {
            return Ok(Some(json!([])));
        }
        let below = number.saturating_sub(1);
        let parent = match below.cmp(&real) {
            Ordering::Greater => json!(invented::hash(below)),
            Ordering::Equal => head["hash"].clone(),
            Ordering::Less => self.ask("eth_getBlockByNumber", json!([U64::from(below), false])).await?["hash"].clone(),
        };
        Ok(Some(invented::block(&head, number, &parent)))
    }

    /// Changes the node's answer to a call by the forgeries it is to show.
    async fn forge(&self, method: &str, params: &Value, result: &mut Value, forgeries: &[Forgery]) -> Result<()> {
        if forgeries.is_empty() {
            return Ok(());
        }
        let each = |items: &mut Value, tell: fn(&mut Value, &[Forgery])| {
            items.as_array_mut().into_iter().flatten().for_each(|item| tell(item, forgeries));
        };
        match method {
            "eth_getBlockByHash" | "eth_getBlockByNumber" => {
                each(&mut result["transactions"], forgeries::about_transaction);
            }
            "eth_getTransactionByHash" => forgeries::about_transaction(result, forgeries),
            "eth_getTransactionReceipt" => forgeries::about_receipt(result, forgeries),
            "eth_getBlockReceipts" => each(result, forgeries::about_receipt),
            "eth_getLogs" => {
                let transactions = self.transactions_of(&params[0]).await?;
                if let Value::Array(logs) = result {
                    forgeries::about_logs(logs, &params[0], &transactions, forgeries);
                }
            }
            _ => (),
        }
        Ok(())
    }

    /// The transactions of the blocks that a log filter names.
    async fn transactions_of(&self, filter: &Value) -> Result<Vec<Value>> {
        let blocks = if filter["blockHash"].is_string() {
            vec![self.ask("eth_getBlockByHash", json!([filter["blockHash"], true])).await?]
        } else {
            let head = self.ask("eth_blockNumber", json!([])).await?;
            let head = fault_replies::number(&head).context("a head without a number")?;
            let place = |tag: &Value| fault_replies::number(tag).unwrap_or(head).min(head);
            let range = place(&filter["fromBlock"])..=place(&filter["toBlock"]);
            let asked = range.map(|number| self.ask("eth_getBlockByNumber", json!([U64::from(number), true])));
            futures::future::try_join_all(asked).await?
        };
        let transactions = |mut block: Value| match block["transactions"].take() {
            Value::Array(transactions) => transactions,
            _ => Vec::new(),
        };
        Ok(blocks.into_iter().flat_map(transactions).collect())
    }

    /// The notification as the fault leaves it; possibly none.
    async fn notification(&self, mut message: Value, fault: &Fault) -> Result<Option<Value>> {
        let result = &mut message["params"]["result"];
        let is_head = result.get("parentHash").is_some();
        let is_log = result.get("topics").is_some();
        if is_log && fault.hide_logs {
            return Ok(None);
        }
        if let Some(head) = self.head(fault).await? {
            if is_log && fault_replies::number(&result["blockNumber"]).is_some_and(|n| n > head) {
                return Ok(None);
            }
            if is_head {
                let seen = fault_replies::number(&result["number"]).context("a head without a number")?;
                let seen = U64::from(seen.saturating_sub(fault.stale_head));
                *result = self.ask("eth_getBlockByNumber", json!([seen, false])).await?;
                for of_blocks_only in ["transactions", "uncles", "size", "withdrawals"] {
                    result.as_object_mut().context("a block that is not an object")?.remove(of_blocks_only);
                }
            }
        }
        if is_head && fault.invented_heads > 0 {
            let invented = self.invent("eth_getBlockByNumber", &json!(["latest", false]), fault.invented_heads).await?;
            *result = invented.context("a head that is invented")?;
            for of_blocks_only in ["transactions", "uncles", "size", "withdrawals"] {
                result.as_object_mut().context("a block that is not an object")?.remove(of_blocks_only);
            }
        }
        fault_replies::bend("", result, fault, None);
        Ok(Some(message))
    }
}

/// One caller's websocket, until either side closes it.
async fn relay(node: Arc<Node>, socket: WebSocket) -> Result<()> {
    let (mut to_caller, mut from_caller) = socket.split();
    let (upstream, _) = tokio_tungstenite::connect_async(node.ws.as_str()).await?;
    let (mut to_node, mut from_node) = upstream.split();
    // Answers come from tasks of their own: a slow one does not hold up the rest.
    let (answers, mut answered) = mpsc::channel::<Result<Value>>(1024);
    // Delayed messages leave in the order they came.
    let mut leaving: VecDeque<(Instant, String)> = VecDeque::new();
    loop {
        let due = leaving.front().map(|(due, _)| *due);
        let next_leaves = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = next_leaves => {
                let (_, text) = leaving.pop_front().context("only a message that waits can be due")?;
                to_caller.send(ws::Message::Text(text.into())).await?;
            }
            // Without an answer from the node the connection ends, as the node's own would.
            Some(answer) = answered.recv() => leaving.push_back((Instant::now(), answer?.to_string())),
            message = from_caller.next() => {
                let text = match message.transpose()? {
                    None | Some(ws::Message::Close(_)) => return Ok(()),
                    Some(ws::Message::Text(text)) => text,
                    Some(_) => continue,
                };
                let fault = node.faults.get();
                if fault.stall {
                    continue;
                }
                let request: Value = serde_json::from_str(&text)?;
                if matches!(fault_replies::method(&request), "eth_subscribe" | "eth_unsubscribe") {
                    to_node.send(Message::text(text.as_str())).await?;
                    continue;
                }
                let (node, answers) = (node.clone(), answers.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(fault.delay).await;
                    // The caller may have gone meanwhile.
                    drop(answers.send(node.answer(request, &fault).await).await);
                });
            }
            message = from_node.next() => {
                let text = match message.transpose()? {
                    None | Some(Message::Close(_)) => return Ok(()),
                    Some(Message::Text(text)) => text,
                    Some(_) => continue,
                };
                let fault = node.faults.get();
                if fault.stall {
                    continue;
                }
                let due = Instant::now() + fault.delay;
                let message: Value = serde_json::from_str(&text)?;
                let message = match fault_replies::method(&message) {
                    "eth_subscription" => node.notification(message, &fault).await?,
                    _ => Some(message),
                };
                leaving.extend(message.map(|message| (due, message.to_string())));
            }
        }
    }
}
