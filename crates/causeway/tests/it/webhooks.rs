//! Webhooks end to end: endpoints and their owners, the sequence of every path, and a service that is killed meanwhile.

mod kill;
mod log;
mod paths;
mod sequence;
mod venue;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use causeway::served::Served;
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, Receiver, WAIT_TIMEOUT, eventually};
use crate::keys::create;
use crate::process::{causeway, serve};

async fn call(harness: &Harness, method: &str, path: &str, key: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let call = harness.client.request(method.parse()?, harness.url(path)).header("x-api-key", key);
    let call = match body {
        Some(body) => call.json(body),
        None => call,
    };
    harness.served(call).await
}

/// Sets the endpoint of a key.
pub async fn listen(harness: &Harness, key: &str, url: &str) -> Result<()> {
    let (code, answer) = call(harness, "PUT", "/webhooks/endpoint", key, Some(&json!({ "url": url }))).await?;
    ensure!(code == 200 && answer["url"] == url && answer["enabled"] == true, "{answer}");
    Ok(())
}

/// Waits until every event of a key's requests was posted.
async fn nothing_is_due(harness: &Harness, key: &str) -> Result<()> {
    eventually("nothing is left to be posted", || async {
        let (code, due) = call(harness, "GET", "/webhooks/deliveries?state=due&limit=1", key, None).await?;
        Ok(code == 200 && due["deliveries"] == json!([]))
    })
    .await
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
    let shown = webhook(&["--enabled", "false"])?;
    ensure!(shown.contains("enabled   false") && shown.contains("x-tenant"), "{shown}");
    ensure!(webhook(&["--delete"])?.contains("deleted"));
    service.stop().await
}

/// The crash test around one post: it is repeated, under the same id, only if it may have been made.
pub async fn crash(harness: &Harness, point: &str, mut first: Served, toml: &Path) -> Result<()> {
    harness.wait_until_served().await?;
    let receiver = Receiver::accepting().await?;
    let (_, key) = create(harness, &[])?;
    listen(harness, &key, &receiver.url("/hooks")).await?;
    // The process may die before it answers.
    let answered = call(harness, "POST", "/webhooks/endpoints/default/test", &key, None).await;
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success());
    let before = receiver.count();
    ensure!(before == usize::from(point == "webhook.posted"), "{before}");
    let second = serve(toml, None)?;
    eventually("it is posted", || async { Ok(receiver.count() > before) }).await?;
    let log = || async { Ok::<_, anyhow::Error>(call(harness, "GET", "/webhooks/deliveries", &key, None).await?.1) };
    eventually("it is recorded", || async { Ok(log().await?["deliveries"][0]["state"] == "delivered") }).await?;
    let log = log().await?;
    let [delivery] = log["deliveries"].as_array().map(Vec::as_slice).unwrap_or_default() else {
        anyhow::bail!("one delivery is expected: {log}");
    };
    if let Ok((code, answer)) = answered {
        ensure!(code == 200 && answer["deliveryId"] == delivery["deliveryId"], "{code} {answer} {log}");
    }
    let all = receiver.posts();
    ensure!(all.len() == before + 1, "{}", all.len());
    ensure!(all.iter().all(|post| post.is_signed_by(&key) && post.id() == delivery["deliveryId"]));
    let attempts = &delivery["attempts"];
    ensure!(attempts[0]["code"].is_null() && attempts[1]["code"] == 204, "{log}");
    ensure!(second.terminate().await?.success());
    Ok(())
}
