//! Webhooks end to end: every path of a request tells exactly its sequence.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ::webhooks::signature::verify;
use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use causeway::served::Served;
use devnet::Account;
use serde_json::{Value, json};

use crate::fast_fill::{Integrator, USDC, integrator};
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, ask, eventually, execute, new_account, request_id, transactions};
use crate::keys::create;
use crate::process::{causeway, serve};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

#[derive(Clone, Debug)]
struct Received {
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn data(&self, member: &str) -> Value {
        self.json()["data"][member].clone()
    }

    fn is_signed_by(&self, key: &str) -> bool {
        verify(key, self.header("x-signature-timestamp"), &self.body, self.header("x-signature-sha256"))
    }
}

/// A receiver that accepts everything.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<Received>>>);

impl Receiver {
    async fn start() -> Result<(Self, String)> {
        let (receiver, socket) = (Self::default(), tokio::net::TcpListener::bind("127.0.0.1:0").await?);
        let url = format!("http://{}/hooks", socket.local_addr()?);
        let router = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(socket, router).await });
        Ok((receiver, url))
    }

    fn all(&self) -> Vec<Received> {
        self.0.lock().unwrap().clone()
    }

    /// Events of a request in the order they came.
    fn of(&self, request: &str) -> Vec<Received> {
        self.all().into_iter().filter(|it| it.json()["data"]["requestId"] == request).collect()
    }

    /// Waits until a request has told as many events, and checks that they are these, in order and signed.
    async fn told(&self, what: &str, request: &str, key: &str, expected: &[&str]) -> Result<Vec<Received>> {
        let count = expected.len();
        eventually(&format!("{what}: {expected:?}"), || async { Ok(self.of(request).len() >= count) }).await?;
        let events = self.of(request);
        for (at, (event, status)) in events.iter().zip(expected).enumerate() {
            ensure!(event.json()["data"]["status"] == *status, "{what}: {:?}", event.json());
            ensure!(event.header("x-webhook-sequence") == (at + 1).to_string(), "{what}: {:?}", event.headers);
            ensure!(event.is_signed_by(key), "{what}: {:?}", event.headers);
        }
        ensure!(events.len() == count, "{what}: {} events", events.len());
        Ok(events)
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    receiver.0.lock().unwrap().push(Received { headers, body });
    StatusCode::NO_CONTENT
}

async fn call(harness: &Harness, method: &str, path: &str, key: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let call = harness.client.request(method.parse()?, harness.url(path)).header("x-api-key", key);
    let call = match body {
        Some(body) => call.json(body),
        None => call,
    };
    let response = call.send().await?;
    Ok((response.status().as_u16(), response.json().await?))
}

/// Sets the endpoint of a key.
async fn listen(harness: &Harness, key: &str, url: &str) -> Result<()> {
    let (code, answer) = call(harness, "PUT", "/webhooks/endpoint", key, Some(&json!({ "url": url }))).await?;
    ensure!(code == 200 && answer["url"] == url && answer["enabled"] == true, "{answer}");
    Ok(())
}

async fn quoted(harness: &Harness, key: &str, body: &Value) -> Result<Value> {
    let (code, quote) = call(harness, "POST", "/quote/v2", key, Some(body)).await?;
    ensure!(code == 200, "{quote}");
    Ok(quote)
}

/// The last event says what polling says.
async fn agrees(harness: &Harness, request: &str, event: &Received) -> Result<()> {
    let (told, polled) = (event.json(), harness.status(request).await?);
    for member in
        ["status", "txHashes", "originChainId", "destinationChainId", "failReason", "refundFailReason", "details"]
    {
        ensure!(told["data"][member] == polled[member], "{member}: {told} {polled}");
    }
    ensure!(told["data"]["inTxHashes"] == polled["inTxHashes"], "{told} {polled}");
    Ok(())
}

/// A service with a receiver, a user, and two keys: one of an integrator with a balance, one that may force refunds.
struct Story {
    harness: Harness,
    receiver: Receiver,
    by: Integrator,
    forcing: String,
    user: Account,
    recipient: Address,
}

impl Story {
    fn bridge(&self) -> Value {
        let value = U256::from(10u64.pow(16));
        ask(self.user.address, self.recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)
    }

    /// An ordinary transfer, whose deposit is announced before it is in a block.
    async fn announced(&self) -> Result<Value> {
        let (harness, receiver, key) = (&self.harness, &self.receiver, &self.by.key);
        let base = harness.chain("base");
        let mut body = self.bridge();
        body["referrer"] = json!("a shop");
        let quote = quoted(harness, key, &body).await?;
        base.pause_mining().await;
        let step = transactions(&quote)?.remove(0);
        let hash = base.submit_with(self.user.private_key, step.to, step.value, step.data, 300_000).await?;
        let hint = json!({ "chainId": BASE.to_string(), "txHash": hash });
        ensure!(harness.post("/transactions/index", &hint).await?.0 == 200);
        let waiting = receiver.told("announced", request_id(&quote), key, &["waiting"]).await?;
        ensure!(waiting[0].data("inTxHashes") == json!([]), "{:?}", waiting[0].json());
        base.resume_mining().await;
        let path = ["waiting", "pending", "submitted", "success"];
        let events = receiver.told("announced", request_id(&quote), key, &path).await?;
        ensure!(events[1].data("inTxHashes") == json!([hash]) && events[1].data("txHashes") == json!([]));
        ensure!(events[2].data("txHashes").as_array().is_some_and(|hashes| hashes.len() == 1));
        ensure!(events.iter().all(|it| it.data("referrer") == "a shop" && it.data("failReason") == "N/A"));
        agrees(harness, request_id(&quote), &events[3]).await?;
        Ok(quote)
    }

    async fn refunded(&self) -> Result<Value> {
        let mut body = self.bridge();
        body["referrer"] = json!("debug-force-refund");
        let quote = quoted(&self.harness, &self.forcing, &body).await?;
        execute(self.harness.chain("base"), &quote, &self.user).await?;
        let told = self.receiver.told("refunded", request_id(&quote), &self.forcing, &["pending", "refund"]);
        let events = told.await?;
        ensure!(events[1].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[1].json());
        agrees(&self.harness, request_id(&quote), &events[1]).await?;
        Ok(quote)
    }

    /// A transaction of the user's own on one chain.
    async fn same_chain(&self) -> Result<Value> {
        let (value, native) = (U256::from(10u64.pow(16)), Address::ZERO);
        let body = ask(self.user.address, self.recipient, (BASE, native), (BASE, native), value);
        let quote = quoted(&self.harness, &self.by.key, &body).await?;
        let hash = execute(self.harness.chain("base"), &quote, &self.user).await?;
        let events = self.receiver.told("same chain", request_id(&quote), &self.by.key, &["success"]).await?;
        ensure!(events[0].data("inTxHashes") == json!([hash]) && events[0].data("txHashes") == json!([hash]));
        Ok(quote)
    }

    /// A fast fill tells one more success when its deposit has a hash.
    async fn fast_filled(&self) -> Result<Value> {
        let (harness, receiver, key) = (&self.harness, &self.receiver, &self.by.key);
        let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
        let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
        let amount = U256::from(100 * USDC);
        let body = ask(self.user.address, self.recipient, (BASE, here), (OPTIMISM, there), amount);
        let quote = quoted(harness, key, &body).await?;
        let (code, answer) = self.by.fast_fill(harness, request_id(&quote)).await?;
        ensure!(code == 200, "{answer}");
        receiver.told("fast fill", request_id(&quote), key, &["submitted", "success"]).await?;
        let hash = execute(base, &quote, &self.user).await?;
        let path = ["submitted", "success", "success"];
        let events = receiver.told("fast fill", request_id(&quote), key, &path).await?;
        ensure!(events[1].data("inTxHashes") == json!([]), "{:?}", events[1].json());
        ensure!(events[2].data("inTxHashes") == json!([hash]), "{:?}", events[2].json());
        agrees(harness, request_id(&quote), &events[2]).await?;
        Ok(quote)
    }

    /// A second deposit is a request of its own, which goes back once it is final.
    async fn second_deposit(&self, of: &Value, known: &[String]) -> Result<()> {
        let base = self.harness.chain("base");
        let second = execute(base, of, &self.user).await?;
        self.harness.finalise(base).await?;
        let is_child = |it: &Received| !known.iter().any(|id| it.data("requestId") == **id);
        let children = || self.receiver.all().into_iter().filter(is_child).collect::<Vec<_>>();
        eventually("the second deposit is told", || async { Ok(children().len() >= 2) }).await?;
        let id = children()[0].data("requestId").as_str().context("a request")?.to_owned();
        let events = self.receiver.told("second deposit", &id, &self.by.key, &["pending", "refund"]).await?;
        ensure!(events[0].data("inTxHashes") == json!([second]), "{:?}", events[0].json());
        ensure!(events[1].data("failReason") == "DOUBLE_SPEND", "{:?}", events[1].json());
        Ok(())
    }
}

#[tokio::test]
async fn every_path_tells_exactly_its_sequence() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let (receiver, url) = Receiver::start().await?;
    let by = integrator(&harness, 500).await?;
    let (_, forcing) = create(&harness, &["--elevated", "--may-force-refund"])?;
    listen(&harness, &by.key, &url).await?;
    listen(&harness, &forcing, &url).await?;
    let user = harness.chain("base").fresh_user().await?;
    let story = Story { harness, receiver, by, forcing, user, recipient: new_account().address };
    let (harness, receiver) = (&story.harness, &story.receiver);
    // A request without a key tells nobody.
    let silent = harness.quote(&story.bridge()).await?;
    execute(harness.chain("base"), &silent, &story.user).await?;
    let announced = story.announced().await?;
    let others = [story.refunded().await?, story.same_chain().await?, story.fast_filled().await?];
    let known: Vec<_> = others.iter().chain([&silent, &announced]).map(|it| request_id(it).to_owned()).collect();
    story.second_deposit(&announced, &known).await?;

    harness.wait_for(request_id(&silent), "success").await?;
    ensure!(receiver.of(request_id(&silent)).is_empty());
    // All of it is in the log of its key, and of no other.
    let path = format!("/webhooks/deliveries?requestId={}&state=delivered", request_id(&announced));
    let (code, log) = call(harness, "GET", &path, &story.by.key, None).await?;
    let told: Vec<_> = log["deliveries"].as_array().context("deliveries")?.iter().map(|it| &it["status"]).collect();
    ensure!(code == 200 && told == ["success", "submitted", "pending", "waiting"], "{log}");
    ensure!(log["deliveries"][0]["attempts"][0]["code"] == 204, "{log}");
    let (_, others) = call(harness, "GET", &path, &story.forcing, None).await?;
    ensure!(others["deliveries"] == json!([]), "{others}");
    service.stop().await
}

#[tokio::test]
async fn endpoints_are_set_by_the_owner_of_a_key_and_checked() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (id, key) = create(&harness, &[])?;
    let put = |body: Value| {
        let (harness, key) = (&harness, &key);
        async move { call(harness, "PUT", "/webhooks/endpoints/ops", key, Some(&body)).await }
    };
    ensure!(harness.get("/webhooks/endpoint").await?.0 == 401);
    ensure!(call(&harness, "GET", "/webhooks/endpoint", &key, None).await?.0 == 404);
    for (body, said) in [
        (json!({}), "url"),
        (json!({ "url": 1 }), "url"),
        (json!({ "url": "https://10.0.0.1/" }), "url"),
        (json!({ "url": "ftp://example.com/" }), "url"),
        (json!({ "url": "https://example.com/", "headers": { "Host": "x" } }), "headers"),
        (json!({ "url": "https://example.com/", "headers": { "x-a": "b\r\nc: d" } }), "headers"),
        (json!({ "url": "https://example.com/", "statuses": ["fallback"] }), "statuses"),
        (json!({ "url": "https://example.com/", "header": {} }), "header"),
    ] {
        let (code, answer) = put(body.clone()).await?;
        let names = answer["message"].as_str().is_some_and(|message| message.contains(said));
        ensure!(code == 400 && names && answer["errorCode"] == "INVALID_PARAMETERS", "{body}: {code} {answer}");
    }
    let body = json!({ "url": "https://example.com/a", "headers": { "X-Token": "hunter2" }, "statuses": ["success"] });
    let (code, answer) = put(body).await?;
    ensure!(code == 200 && answer["headerNames"] == json!(["x-token"]), "{answer}");
    ensure!(!answer.to_string().contains("hunter2"), "{answer}");
    let (_, listed) = call(&harness, "GET", "/webhooks/endpoints", &key, None).await?;
    ensure!(listed["endpoints"] == json!([answer]), "{listed}");
    for path in [
        "/webhooks/deliveries?state=lost",
        "/webhooks/deliveries?limit=51",
        "/webhooks/deliveries?since=yesterday",
        "/webhooks/deliveries?requestId=0x12",
        "/webhooks/endpoints/A",
    ] {
        let (code, answer) = call(&harness, "GET", path, &key, None).await?;
        ensure!(code == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{path}: {answer}");
    }
    ensure!(call(&harness, "POST", "/webhooks/deliveries/1/replay", &key, None).await?.0 == 404);
    ensure!(call(&harness, "POST", "/webhooks/deliveries/replay", &key, Some(&json!({}))).await?.0 == 400);
    ensure!(call(&harness, "POST", "/webhooks/endpoints/nobody/test", &key, None).await?.0 == 404);
    ensure!(call(&harness, "DELETE", "/webhooks/endpoints/ops", &key, None).await?.0 == 200);
    ensure!(call(&harness, "DELETE", "/webhooks/endpoints/ops", &key, None).await?.0 == 404);

    // The developer's receiver, and an endpoint that the operator sets.
    let arguments = ["webhook-listen", "--key", key.as_str(), "--port", "0", "--events", "1"];
    let mut listener = causeway().args(arguments).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(listener.stdout.take().context("its output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let url = line.trim().strip_prefix("listening on ").with_context(|| line.clone())?.to_owned();
    let config = harness.folder.path().join("dev.toml");
    let webhook = |more: &[&str]| {
        let mut command = causeway();
        command.args(["keys", "webhook", &id]).args(more).arg("--config").arg(&config);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok::<_, anyhow::Error>(String::from_utf8(output.stdout)?)
    };
    let shown = webhook(&["--url", &url, "--header", "X-Tenant: a b", "--status", "success"])?;
    ensure!(shown.contains(&url) && shown.contains("x-tenant") && shown.contains("success"), "{shown}");
    webhook(&["--test"])?;
    let printed = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        output.read_to_string(&mut rest)?;
        listener.wait()?;
        Ok::<_, std::io::Error>(rest)
    });
    let printed = tokio::time::timeout(WAIT_TIMEOUT, printed).await???;
    ensure!(printed.contains("success (test)") && printed.contains("signature good"), "{printed}");
    ensure!(webhook(&["--delete"])?.contains("deleted"));
    service.stop().await
}

/// The crash test around one post: it is repeated, under the same id, only if it may have been made.
pub async fn crash(harness: &Harness, point: &str, mut first: Served, toml: &Path) -> Result<()> {
    harness.wait_until_served().await?;
    let (receiver, url) = Receiver::start().await?;
    let (_, key) = create(harness, &[])?;
    listen(harness, &key, &url).await?;
    let (code, answer) = call(harness, "POST", "/webhooks/endpoints/default/test", &key, None).await?;
    ensure!(code == 200, "{answer}");
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success());
    let before = receiver.all().len();
    ensure!(before == usize::from(point == "webhook.posted"), "{before}");
    let second = serve(toml, None)?;
    eventually("it is posted", || async { Ok(receiver.all().len() > before) }).await?;
    let path = format!("/webhooks/deliveries?deliveryId={}", answer["deliveryId"].as_str().unwrap_or_default());
    eventually("it is recorded", || async {
        let (_, log) = call(harness, "GET", &path, &key, None).await?;
        Ok(log["deliveries"][0]["state"] == "delivered")
    })
    .await?;
    let all = receiver.all();
    ensure!(all.len() == before + 1, "{}", all.len());
    ensure!(all.iter().all(|it| it.is_signed_by(&key) && it.header("x-webhook-id") == answer["deliveryId"]));
    let (_, log) = call(harness, "GET", &path, &key, None).await?;
    let attempts = &log["deliveries"][0]["attempts"];
    ensure!(attempts[0]["code"].is_null() && attempts[1]["code"] == 204, "{log}");
    ensure!(second.terminate().await?.success());
    Ok(())
}
