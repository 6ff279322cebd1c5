//! API keys: made, changed and ended beside a running service, and never to be found where they should not be.

use std::path::Path;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::fast_fill::sign;
use crate::harness::{Engine, Harness, ask, eventually, new_account, request_id};
use crate::process::{causeway, serve_logging};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// Runs `causeway keys` and returns its output.
fn keys(harness: &Harness, args: &[&str]) -> Result<String> {
    let config = harness.folder.path().join("dev.toml");
    let output = causeway().arg("keys").args(args).arg("--config").arg(config).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Makes a key and returns its id and its text.
pub fn create(harness: &Harness, more: &[&str]) -> Result<(String, String)> {
    let printed = keys(harness, &[&["create", "--name", "an app"], more].concat())?;
    id_and_text(&printed)
}

fn id_and_text(printed: &str) -> Result<(String, String)> {
    let (id, text) = printed.trim().split_once('\n').context("two lines")?;
    ensure!(id.starts_with("key_") && text.starts_with("cwk_"), "{printed}");
    Ok((id.to_owned(), text.to_owned()))
}

fn a_quote() -> Value {
    let user = new_account().address;
    ask(user, user, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(10u64.pow(17)))
}

/// A call's code and body.
async fn answer(call: RequestBuilder) -> Result<(u16, Value)> {
    let response = call.send().await?;
    Ok((response.status().as_u16(), response.json().await?))
}

/// Searches a file for the bytes of `part`.
fn holds(file: &Path, part: &[u8]) -> Result<bool> {
    Ok(std::fs::read(file)?.windows(part.len()).any(|window| window == part))
}

fn get(harness: &Harness, path: &str) -> RequestBuilder {
    harness.client.get(harness.url(path))
}

fn post_quote(harness: &Harness, body: &Value) -> RequestBuilder {
    harness.client.post(harness.url("/quote/v2")).json(body)
}

/// The status of a call with a key in its own header.
async fn status_with(harness: &Harness, text: &str) -> Result<u16> {
    Ok(answer(get(harness, "/chains").header("x-api-key", text)).await?.0)
}

#[tokio::test]
async fn keys_are_made_changed_and_ended_while_the_service_runs() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let log = harness.folder.path().join("log");
    let served = serve_logging(&harness.folder.path().join("dev.toml"), &log)?;
    harness.wait_until_served().await?;

    let (id, text) = create(&harness, &[])?;
    a_new_key_is_good_at_once(&harness, &id, &text).await?;
    a_wrong_key_is_refused_on_every_route(&harness, &text).await?;
    sponsoring_takes_a_key_and_a_wallet(&harness, &text).await?;
    api_keys_and_the_operators_token_are_apart(&harness, &text).await?;
    a_key_is_renamed_limited_and_listed(&harness, &id)?;
    let [second, third] = a_rotated_or_revoked_text_ends(&harness, &id, &text).await?;

    let metrics = get(&harness, "/metrics").send().await?.text().await?;
    ensure!(metrics.contains("causeway_wrong_keys_total"), "no metrics");
    ensure!(served.terminate().await?.success());
    ensure!(holds(&log, b"listening on")?, "nothing was logged");
    no_key_is_in_clear(&harness, &metrics, &[text, second, third])
}

/// A new key is good in either header, and kept with the quotes made with it.
async fn a_new_key_is_good_at_once(harness: &Harness, id: &str, text: &str) -> Result<()> {
    ensure!(status_with(harness, text).await? == 200);
    ensure!(answer(get(harness, "/chains").bearer_auth(text)).await?.0 == 200);
    let (code, quoted) = answer(post_quote(harness, &a_quote()).header("x-api-key", text)).await?;
    ensure!(code == 200, "{quoted}");
    let request = request_id(&quoted).parse()?;
    let store = store::Store::open(&causeway::assemble::database(&harness.config)?)?;
    let stored = store.read(move |tx| store::requests::find(tx, request)).await?.context("the quote")?;
    ensure!(stored.quote.ask.key.map(|key| key.to_string()).as_deref() == Some(id));
    store.close().await;
    Ok(())
}

/// A wrong key is never "no key", on any route, and of two headers the key's own wins.
async fn a_wrong_key_is_refused_on_every_route(harness: &Harness, text: &str) -> Result<()> {
    let get = |path: &str| get(harness, path);
    let wrong = format!("cwk_{}", "0".repeat(64));
    for shown in [wrong.as_str(), "", "nonsense", &text[..67], &text.to_uppercase()] {
        let quote = post_quote(harness, &a_quote());
        for call in [get("/chains"), get("/lives"), quote, get("/nowhere"), get("/intents/status/v3")] {
            let (code, body) = answer(call.header("x-api-key", shown)).await?;
            ensure!(code == 401 && body["errorCode"] == "UNAUTHORIZED" && body["statusCode"] == 401, "{body}");
            ensure!(!body.to_string().contains(&text[4..20]), "{body}");
        }
        ensure!(answer(get("/chains").bearer_auth(shown)).await?.0 == 401);
        ensure!(answer(get("/chains").bearer_auth(text).header("x-api-key", shown)).await?.0 == 401);
        ensure!(answer(get("/chains").bearer_auth(shown).header("x-api-key", text)).await?.0 == 200);
    }
    ensure!(answer(get("/chains").basic_auth("user", Some("password"))).await?.0 == 200);
    Ok(())
}

async fn sponsoring_takes_a_key_and_a_wallet(harness: &Harness, text: &str) -> Result<()> {
    let mut sponsored = a_quote();
    sponsored["subsidizeFees"] = json!(true);
    ensure!(answer(post_quote(harness, &sponsored)).await?.0 == 401);
    let (code, body) = answer(post_quote(harness, &sponsored).header("x-api-key", text)).await?;
    ensure!(code == 403 && body["errorCode"] == "FORBIDDEN", "{body}");
    Ok(())
}

/// The operator's token is no API key, and an API key is not the operator's.
async fn api_keys_and_the_operators_token_are_apart(harness: &Harness, text: &str) -> Result<()> {
    let operator = |token: &str| get(harness, "/operator/risk").bearer_auth(token);
    ensure!(answer(operator(causeway::local::OPERATOR_TOKEN)).await?.0 == 200);
    ensure!(answer(operator(text)).await?.0 == 401);
    ensure!(answer(get(harness, "/chains").bearer_auth(causeway::local::OPERATOR_TOKEN)).await?.0 == 200);
    ensure!(status_with(harness, causeway::local::OPERATOR_TOKEN).await? == 401);
    Ok(())
}

fn a_key_is_renamed_limited_and_listed(harness: &Harness, id: &str) -> Result<()> {
    let shown = keys(harness, &["rename", id, "another name"])?;
    ensure!(shown.contains("another name"), "{shown}");
    let shown = keys(harness, &["limits", id, "--elevated", "true", "--rate", "quotes=3/min"])?;
    ensure!(shown.contains("3/min  (its own)") && shown.contains("20/s"), "{shown}");
    ensure!(keys(harness, &["list"])?.contains(id) && keys(harness, &["show", id])?.contains("another name"));
    ensure!(keys(harness, &["show", "key_00000000000000000000"]).is_err());
    Ok(())
}

/// With an overlap both texts are good; without one the old text ends within seconds, and so does a revoked key.
/// Returns the two newer texts.
async fn a_rotated_or_revoked_text_ends(harness: &Harness, id: &str, text: &str) -> Result<[String; 2]> {
    let refused = async |text: &str| {
        eventually("the key is refused", || async { Ok(status_with(harness, text).await? == 401) }).await
    };
    let (_, second) = id_and_text(&keys(harness, &["rotate", id, "--overlap-secs", "3600"])?)?;
    ensure!(second != text);
    for text in [text, &second] {
        ensure!(status_with(harness, text).await? == 200);
    }
    let (_, third) = id_and_text(&keys(harness, &["rotate", id])?)?;
    ensure!(status_with(harness, &third).await? == 200);
    refused(text).await?;
    refused(&second).await?;
    ensure!(status_with(harness, &third).await? == 200);
    keys(harness, &["revoke", id])?;
    refused(&third).await?;
    ensure!(keys(harness, &["rotate", id]).is_err());
    Ok([second, third])
}

/// No key is in clear in the metrics or in the files of the service, its log and its database among them.
fn no_key_is_in_clear(harness: &Harness, metrics: &str, texts: &[String]) -> Result<()> {
    let files: Vec<_> = std::fs::read_dir(harness.folder.path())?.collect::<std::io::Result<_>>()?;
    for text in texts {
        let secret = &text[4..];
        ensure!(!metrics.contains(secret), "a key is in the metrics");
        let raw = alloy::primitives::hex::decode(secret)?;
        for file in files.iter().map(std::fs::DirEntry::path).filter(|path| path.is_file()) {
            let clear = holds(&file, secret.as_bytes())? || holds(&file, &raw)?;
            ensure!(!clear, "a key is in {}", file.display());
        }
    }
    Ok(())
}

fn figure(response: &Response, header: &str) -> Option<u64> {
    response.headers().get(header)?.to_str().ok()?.parse().ok()
}

#[tokio::test]
async fn a_caller_is_counted_by_its_key_or_by_its_address() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        config.limits.rate_limits = true;
        config.limits.others_per_minute = 40.try_into().unwrap();
        config.limits.quotes_per_minute = 2.try_into().unwrap();
        config.limits.wrong_keys_per_minute = 3.try_into().unwrap();
        config.trusted_proxies = vec!["127.0.0.1".to_owned()];
    })
    .await?;
    let (id, text) = create(&harness, &[])?;
    keys(&harness, &["limits", &id, "--rate", "quotes=4/min"])?;
    let service = harness.serve().await?;
    let client = &harness.client;
    // The quote itself need not be good.
    let quote = |from: &str| client.post(harness.url("/quote/v2")).header("x-forwarded-for", from).json(&json!({}));
    let codes = async |call: &dyn Fn() -> RequestBuilder, times: usize| {
        let mut codes = Vec::new();
        for _ in 0..times {
            codes.push(call().send().await?.status().as_u16());
        }
        anyhow::Ok(codes)
    };
    // By address, then by key from that very address, then by another address.
    ensure!(codes(&|| quote("9.9.9.9"), 3).await? == [400, 400, 429]);
    let first = quote("9.9.9.9").header("x-api-key", &text).send().await?;
    ensure!(first.status() == 400 && figure(&first, "ratelimit-limit") == Some(4));
    ensure!(figure(&first, "ratelimit-remaining") == Some(3) && figure(&first, "ratelimit-reset") == Some(15));
    ensure!(codes(&|| quote("9.9.9.8").header("x-api-key", &text), 4).await? == [400, 400, 400, 429]);
    let last = quote("9.9.9.8").bearer_auth(&text).send().await?;
    ensure!(figure(&last, "ratelimit-remaining") == Some(0));
    ensure!(last.headers().contains_key("retry-after") && figure(&last, "retry-after") <= Some(15));
    ensure!(last.json::<Value>().await?["errorCode"] == "RATE_LIMITED");
    // IPv6 by /64.
    ensure!(codes(&|| quote("2001:db8::1"), 2).await? == [400, 400]);
    ensure!(codes(&|| quote("2001:db8::ffff"), 1).await? == [429]);
    // Other routes have an allowance of their own.
    let other = || client.get(harness.url("/chains")).header("x-forwarded-for", "9.9.9.9");
    ensure!(codes(&other, 2).await? == [200, 200]);

    // Guessing keys ends soon; a key that is known goes on from the same address.
    let guess = || other().header("x-api-key", format!("cwk_{}", alloy::hex::encode(new_account().private_key)));
    ensure!(codes(&guess, 5).await? == [401, 401, 401, 429, 429]);
    ensure!(guess().send().await?.headers().contains_key("retry-after"));
    ensure!(codes(&|| other().header("x-api-key", "x"), 1).await? == [429]);
    ensure!(codes(&|| other().header("x-api-key", &text), 2).await? == [200, 200]);
    ensure!(codes(&other, 1).await? == [200]);

    // The older listing says nothing of its limits.
    let listing = client.get(harness.url("/requests/v2")).header("x-forwarded-for", "9.9.9.7").send().await?;
    ensure!(figure(&listing, "ratelimit-limit").is_none());
    service.stop().await
}

#[tokio::test]
async fn a_wallet_is_linked_by_its_own_signature_and_no_other() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let (id, text) = create(&harness, &[])?;
    let (_, other) = create(&harness, &[])?;
    let service = harness.serve().await?;
    let client = &harness.client;
    let link = async |key: &str, body: Value| {
        answer(client.post(harness.url("/keys/wallet")).header("x-api-key", key).json(&body)).await
    };
    let (owner, stranger) = (new_account(), new_account());
    let wallet = owner.address;
    ensure!(answer(client.post(harness.url("/keys/wallet")).json(&json!({ "wallet": wallet }))).await?.0 == 401);
    for bad in [json!({}), json!({ "wallet": "0x12" }), json!({ "wallet": Address::ZERO })] {
        ensure!(link(&text, bad).await?.0 == 400);
    }
    let message = async |key: &str, wallet: Address| {
        let (code, asked) = link(key, json!({ "wallet": wallet })).await?;
        ensure!(code == 200 && asked["linked"] == false && asked["expiresAt"].is_u64(), "{asked}");
        Ok(asked["message"].as_str().unwrap().to_owned())
    };
    let signed = |message: &str| json!({ "wallet": wallet, "signature": sign(&owner, message) });
    ensure!(link(&text, signed("anything")).await?.0 == 400, "nothing was asked");
    let asked = message(&text, wallet).await?;
    ensure!(asked.contains(&id) && asked.contains(&wallet.to_string()) && asked.contains(&harness.url("")), "{asked}");
    // Another's signature, another message, another key's message, and one that was replaced.
    let by_stranger = json!({ "wallet": wallet, "signature": sign(&stranger, &asked) });
    ensure!(link(&text, by_stranger).await?.0 == 400);
    ensure!(link(&text, signed("anything")).await?.0 == 400);
    ensure!(link(&text, json!({ "wallet": wallet, "signature": "0x1234" })).await?.0 == 400);
    ensure!(link(&other, signed(&asked)).await?.0 == 400);
    let newer = message(&text, wallet).await?;
    ensure!(link(&text, signed(&asked)).await?.0 == 400, "an older message was taken");
    let (code, linked) = link(&text, signed(&newer)).await?;
    ensure!(code == 200 && linked["linked"] == true && linked["keyId"] == id, "{linked}");
    ensure!(link(&text, signed(&newer)).await?.0 == 400, "a signature was taken twice");
    ensure!(keys(&harness, &["show", &id])?.contains(&wallet.to_string()));
    // The link is known at once to the process that made it.
    let mut sponsored = a_quote();
    sponsored["subsidizeFees"] = json!(true);
    let quoted = answer(client.post(harness.url("/quote/v2")).header("x-api-key", &text).json(&sponsored)).await?;
    ensure!(quoted.0 == 200, "{}", quoted.1);

    // By the command line, too.
    let asked = keys(&harness, &["link", &id, "--wallet", &stranger.address.to_string()])?;
    let signature = sign(&stranger, asked.trim_end_matches('\n'));
    keys(&harness, &["link", &id, "--wallet", &stranger.address.to_string(), "--signature", &signature])?;
    ensure!(keys(&harness, &["show", &id])?.contains(&stranger.address.to_string()));

    // A contract checks its signature itself: one accepts every signature, and one answers something else.
    let base = harness.chain("base");
    for (code, linked) in [("631626ba7e60e01b60005260206000f3", 200), ("63deadbeef60e01b60005260206000f3", 400)] {
        let contract = new_account().address;
        base.set_code(contract, code.parse()?).await?;
        message(&text, contract).await?;
        let body = json!({ "wallet": contract, "signature": "0x01" });
        ensure!(link(&text, body).await?.0 == linked, "{code}");
    }
    service.stop().await
}

async fn named_calls(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let (_, text) = create(&harness, &[])?;
    let (_, other) = create(&harness, &[])?;
    let service = harness.serve().await?;
    let client = &harness.client;
    let quote = |key: Option<&str>, name: &str, body: &Value| {
        let call = client.post(harness.url("/quote/v2")).header("idempotency-key", name).json(body);
        key.map_or(call.try_clone().unwrap(), |key| call.header("x-api-key", key))
    };
    let body = a_quote();
    let (code, first) = answer(quote(Some(&text), "a", &body)).await?;
    ensure!(code == 200, "{first}");
    ensure!(answer(quote(Some(&text), "a", &body)).await? == (200, first.clone()), "it was quoted again");
    // Another name, another key and no key are other calls.
    for (key, name) in [(Some(&text), "b"), (Some(&other), "a")] {
        let (code, second) = answer(quote(key.map(String::as_str), name, &body)).await?;
        ensure!(code == 200 && request_id(&second) != request_id(&first));
    }
    let (code, nobody) = answer(quote(None, "a", &body)).await?;
    ensure!(code == 200 && request_id(&nobody) != request_id(&first));
    // The name stands for one body and one route.
    let (code, conflict) = answer(quote(Some(&text), "a", &a_quote())).await?;
    ensure!(code == 409 && conflict["errorCode"] == "IDEMPOTENCY_CONFLICT", "{conflict}");
    let fill = client.post(harness.url("/fast-fill")).header("x-api-key", &text).header("idempotency-key", "a");
    ensure!(answer(fill.json(&json!({ "requestId": request_id(&first) }))).await?.0 == 409);
    ensure!(answer(quote(Some(&text), &"x".repeat(256), &body)).await?.0 == 400);
    // A refusal keeps nothing.
    let mut bad = body.clone();
    bad["amount"] = json!("0");
    ensure!(answer(quote(Some(&text), "c", &bad)).await?.0 == 400);
    ensure!(answer(quote(Some(&text), "c", &body)).await?.0 == 200);
    // Of many at once one is quoted.
    let calls = (0..20).map(|_| answer(quote(Some(&text), "d", &body)));
    let answers = futures::future::try_join_all(calls).await?;
    ensure!(answers.iter().all(|one| *one == answers[0]) && answers[0].0 == 200, "{answers:?}");
    service.stop().await
}

#[tokio::test]
async fn a_named_call_is_answered_once_sqlite() -> Result<()> {
    named_calls(Engine::Sqlite).await
}

#[tokio::test]
async fn a_named_call_is_answered_once_postgres() -> Result<()> {
    named_calls(Engine::Postgres).await
}
