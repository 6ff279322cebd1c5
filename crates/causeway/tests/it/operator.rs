//! The operator's means against a running service: to refund a request, to change the screening lists, to read a trace.

use std::process::Output;

use alloy::primitives::{B256, U256};
use anyhow::{Result, ensure};
use causeway::config::{Config, Environment};
use causeway::local::OPERATOR_TOKEN;
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, ask, eventually, execute, new_account, operator, request_id};
use crate::keys::create;
use crate::process::causeway;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The service runs on this thread, so that waiting for the command must not hold it up.
async fn refund(harness: &Harness, request: &str) -> Result<Output> {
    let (toml, request) = (harness.folder.path().join("dev.toml"), request.to_owned());
    let run = move || {
        let words = ["refund", &request, "--reason", "the user asked", "--by", "alice", "--config"];
        causeway().args(words).arg(toml).output()
    };
    Ok(tokio::task::spawn_blocking(run).await??)
}

/// One transfer is filled, and for the other there are no funds. The operator has that one refunded, and nothing else.
#[tokio::test]
async fn the_operator_refunds_a_request_that_waits_for_its_fill() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let transfer = |to| ask(user.address, to, (BASE, here), (OPTIMISM, there), U256::from(60_000_000u64));
    let (mut quotes, key) = (Vec::new(), create(&harness, &[])?.1);
    for recipient in [new_account().address, recipient] {
        let call = harness.client.post(harness.url("/quote/v2")).header("x-api-key", &key);
        quotes.push(harness.served(call.json(&transfer(recipient))).await?.1);
    }
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let early = refund(&harness, request_id(&quotes[1])).await?;
    ensure!(!early.status.success() && said(&early).contains("nothing that counts has been deposited"), "{early:?}");
    execute(base, &quotes[0], &user).await?;
    harness.wait_for(request_id(&quotes[0]), "success").await?;
    optimism.set_token_balance(there, harness.treasury.address, U256::ZERO).await?;
    harness.knows_holdings(optimism, "USDC").await?;
    execute(base, &quotes[1], &user).await?;
    let trace = format!("/requests/{}/trace", request_id(&quotes[1]));
    eventually("the second waits for funds", || async {
        Ok(operator(&harness, &trace).await?.1["due"][0]["purpose"] == "fill")
    })
    .await?;
    let had = base.balance(here, user.address).await?;
    let output = refund(&harness, request_id(&quotes[1])).await?;
    ensure!(output.status.success(), "{output:?}");

    let again = refund(&harness, request_id(&quotes[1])).await?;
    ensure!(!again.status.success() && said(&again).contains("refund"), "{again:?}");
    let filled = refund(&harness, request_id(&quotes[0])).await?;
    ensure!(!filled.status.success() && said(&filled).contains("it was filled"), "{filled:?}");
    let unknown = refund(&harness, &B256::repeat_byte(0x77).to_string()).await?;
    ensure!(!unknown.status.success() && said(&unknown).contains("not found"), "{unknown:?}");

    let status = harness.wait_for(request_id(&quotes[1]), "refund").await?;
    ensure!(status["failReason"] == "MANUAL_ADMIN_REFUND", "{status}");
    ensure!(base.balance(here, user.address).await? > had);
    ensure!(optimism.balance(there, recipient).await?.is_zero());
    let (_, trace) = operator(&harness, &trace).await?;
    let decided = trace["events"].as_array().into_iter().flatten().find(|it| it["rule"] == "operator-refund").cloned();
    let figures = decided.unwrap_or_default()["figures"].clone();
    ensure!(figures == json!({ "by": "alice", "reason": "the user asked" }), "{trace}");
    // The caller of the quote sees that the request was refunded by hand, and not by whom.
    let call = harness.client.get(harness.url(&format!("/requests/{}/trace", request_id(&quotes[1]))));
    let seen = call.header("x-api-key", &key).send().await?.text().await?;
    ensure!(seen.contains("operator-refund") && !seen.contains("alice") && !seen.contains("the user asked"), "{seen}");
    service.stop().await
}

#[tokio::test]
async fn a_refund_by_hand_needs_the_token_a_name_and_a_reason() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let id = B256::repeat_byte(0x77).to_string();
    let whole = json!({ "requestId": id, "by": "alice", "reason": "why not" });
    ensure!(harness.post("/operator/refunds", &whole).await?.0 == 401);
    let long = "x".repeat(501);
    let cases = [
        (json!({ "requestId": "0x12", "by": "alice", "reason": "r" }), 400, "requestId"),
        (json!({ "requestId": id, "by": " ", "reason": "r" }), 400, "by"),
        (json!({ "requestId": id, "by": "alice", "reason": "" }), 400, "reason"),
        (json!({ "requestId": id, "by": "alice", "reason": long }), 400, "reason"),
        (json!({ "requestId": id, "by": "alice" }), 400, "reason"),
        (whole, 404, "not found"),
    ];
    let client = &harness.client;
    for (body, code, named) in cases {
        let call = client.post(harness.url("/operator/refunds")).bearer_auth(OPERATOR_TOKEN).json(&body);
        let answer = call.send().await?;
        let status = answer.status().as_u16();
        let answer: serde_json::Value = answer.json().await?;
        ensure!(status == code && answer["statusCode"] == code, "{body}: {answer}");
        ensure!(answer["message"].as_str().is_some_and(|text| text.contains(named)), "{body}: {answer}");
    }
    service.stop().await
}

/// A trace is shown to the caller of the quote and to the operator; for everybody else there is none.
#[tokio::test]
async fn a_trace_is_for_the_caller_of_the_quote_and_for_the_operator() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let user = new_account().address;
    let native = alloy::primitives::Address::ZERO;
    let body = ask(user, user, (BASE, native), (OPTIMISM, native), U256::from(10u64.pow(16)));
    let [owner, stranger] = [create(&harness, &[])?.1, create(&harness, &[])?.1];
    let client = &harness.client;
    let quote = client.post(harness.url("/quote/v2")).header("x-api-key", &owner).json(&body).send().await?;
    let quote: Value = quote.json().await?;
    let unkeyed = harness.quote(&body).await?;
    let read = async |request: &str, key: Option<&str>| {
        let call = client.get(harness.url(&format!("/requests/{request}/trace")));
        let call = key.into_iter().fold(call, |call, key| call.header("x-api-key", key));
        let answer = call.send().await?;
        anyhow::Ok((answer.status().as_u16(), answer.json::<Value>().await?))
    };
    let (code, trace) = read(request_id(&quote), Some(&owner)).await?;
    ensure!(code == 200 && trace["requestId"] == request_id(&quote), "{trace}");
    ensure!(trace["awaits"].as_str().is_some_and(|text| text.contains("a deposit of")), "{trace}");
    let (code, whole) = operator(&harness, &format!("/requests/{}/trace", request_id(&quote))).await?;
    ensure!(code == 200 && whole == trace, "{whole}");
    let (_, unknown) = read(&B256::repeat_byte(0x77).to_string(), Some(&owner)).await?;
    for (request, key) in [(request_id(&quote), &stranger), (request_id(&unkeyed), &owner)] {
        let (code, refused) = read(request, Some(key)).await?;
        ensure!(code == 404 && refused == unknown, "{refused}");
    }
    for (key, error) in [(None, 401), (Some("cwk_nobodys"), 401)] {
        let (code, refused) = read(request_id(&quote), key).await?;
        ensure!(code == error && refused["statusCode"] == error, "{refused}");
    }
    ensure!(operator(&harness, &format!("/requests/{}/trace", request_id(&unkeyed))).await?.0 == 200);
    service.stop().await
}

/// In production, a forced refund needs a key with that right.
#[tokio::test]
async fn a_refund_is_forced_by_a_key_that_may_and_by_no_other() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| config.environment = Environment::Mainnet).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let may = create(&harness, &["--may-force-refund"])?.1;
    let may_not = create(&harness, &[])?.1;
    let client = &harness.client;
    for (key, status) in [(Some(&may), "refund"), (Some(&may_not), "success"), (None, "success")] {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let mut body = ask(user.address, recipient, (BASE, here), (OPTIMISM, there), U256::from(60_000_000u64));
        body["referrer"] = json!("debug-force-refund");
        let call = client.post(harness.url("/quote/v2")).json(&body);
        let call = key.into_iter().fold(call, |call, key| call.header("x-api-key", key));
        let (_, quote) = harness.served(call).await?;
        let had = base.balance(here, user.address).await?;
        execute(base, &quote, &user).await?;
        let ended = harness.wait_for(request_id(&quote), status).await?;
        let lost = had - base.balance(here, user.address).await?;
        let refunded = status == "refund";
        ensure!(refunded == (ended["failReason"] == "MANUAL_ADMIN_REFUND"), "{ended}");
        ensure!(refunded == (lost < U256::from(1_000_000u64)), "{lost} {ended}");
        ensure!(refunded == optimism.balance(there, recipient).await?.is_zero(), "{ended}");
    }
    service.stop().await
}

/// The lists are read again when they change; one that cannot be read leaves the last good one in force.
#[tokio::test]
async fn screening_lists_are_read_again_when_they_change() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config: &mut Config| {
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let (list, user) = (harness.folder.path().join("blocked.txt"), new_account().address);
    let native = alloy::primitives::Address::ZERO;
    let body = ask(user, user, (BASE, native), (OPTIMISM, native), U256::from(10u64.pow(16)));
    let code = || async { anyhow::Ok(harness.post("/quote/v2", &body).await?.0) };
    ensure!(code().await? == 200);
    std::fs::write(&list, format!("{user} # a thief\n"))?;
    eventually("the wallet is blocked", || async { Ok(code().await? == 400) }).await?;
    let unreadable = "causeway_screening_unreadable_total";
    let unreadable_before = harness.counted(unreadable).await?;
    std::fs::write(&list, "not an address at all\n")?;
    eventually("the bad list is noticed", || async { Ok(harness.counted(unreadable).await? > unreadable_before) })
        .await?;
    ensure!(code().await? == 400, "a list that cannot be read lets nobody in");
    std::fs::write(&list, "# all is forgiven\n")?;
    eventually("the wallet is served again", || async { Ok(code().await? == 200) }).await?;
    service.stop().await
}

/// A list that grows between the deposit and its payment: nothing goes out, and nothing comes back until the list says
/// so.
#[tokio::test]
async fn a_recipient_who_is_blocked_after_the_quote_is_not_paid() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config: &mut Config| {
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let native = alloy::primitives::Address::ZERO;
    let quote = harness
        .quote(&ask(user.address, recipient, (BASE, native), (OPTIMISM, native), U256::from(10u64.pow(16))))
        .await?;
    let list = harness.folder.path().join("blocked.txt");
    std::fs::write(&list, format!("{recipient} # a thief\n"))?;
    let again = ask(recipient, recipient, (BASE, native), (OPTIMISM, native), U256::from(10u64.pow(16)));
    let is_listed = || async { Ok(harness.post("/quote/v2", &again).await?.0 == 400) };
    eventually("the list is read", is_listed).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "pending").await?;
    // Long enough for the deposit to be final, and for a payment to be mined if one was made.
    harness.let_pass(base, 20).await?;
    let status = harness.status(request_id(&quote)).await?;
    ensure!(status["status"] == "pending", "{status}");
    ensure!(optimism.balance(native, recipient).await?.is_zero());
    std::fs::write(&list, "# all is forgiven\n")?;
    let ended = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(ended["failReason"] == "BLOCKED_WALLET", "{ended}");
    ensure!(optimism.balance(native, recipient).await?.is_zero());
    service.stop().await
}
