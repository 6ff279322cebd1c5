//! The log of deliveries by API: why an event was given up, page by page, and replays that bring it after all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use domain::request::State;
use serde_json::{Value, json};

use super::{call, listen, nothing_is_due};
use crate::harness::{Engine, Harness, Receiver, ask, found, new_account, request_id};
use crate::keys::create;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The deliveries that a query finds, newest first, and where the page ended.
async fn log(harness: &Harness, key: &str, query: &str) -> Result<(Vec<Value>, Value)> {
    let (code, mut page) = call(harness, "GET", &format!("/webhooks/deliveries?{query}"), key, None).await?;
    ensure!(code == 200, "{page}");
    let found = page["deliveries"].as_array().context("deliveries")?.clone();
    Ok((found, page["continuation"].take()))
}

#[tokio::test]
async fn the_log_says_why_an_event_was_given_up_and_a_replay_brings_it() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| config.webhooks.first_retry_millis = 10).await?;
    let service = harness.serve().await?;
    let accepts = Arc::new(AtomicBool::new(false));
    let accepting = accepts.clone();
    let receiver = Receiver::start(move |_, _| if accepting.load(Ordering::SeqCst) { 204 } else { 503 }).await?;
    let (_, key) = create(&harness, &[])?;
    listen(&harness, &key, &receiver.url("/hooks")).await?;
    let mut requests = Vec::new();
    for _ in 0..3 {
        let user = new_account().address;
        let body = ask(user, user, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(10u64.pow(16)));
        let (code, quote) = call(&harness, "POST", "/quote/v2", &key, Some(&body)).await?;
        ensure!(code == 200, "{quote}");
        requests.push(request_id(&quote).to_owned());
    }
    ::harness::publish(&harness.config, &requests, &[State::Pending]).await?;

    let failed = found("every delivery is given up", || async {
        let (failed, _) = log(&harness, &key, "state=failed").await?;
        Ok(Some(failed).filter(|failed| failed.len() == 3))
    })
    .await?;
    for it in &failed {
        ensure!(it["endedBecause"] == "every attempt failed" && it["nextAttemptAt"].is_null(), "{it}");
        let attempts = it["attempts"].as_array().context("attempts")?;
        let told = |attempt: &Value| attempt["code"] == 503 && attempt["durationMillis"].is_number();
        ensure!(attempts.len() == 11 && attempts.iter().all(told), "{it}");
    }
    // Two pages are the whole, in the same order.
    let (first, continuation) = log(&harness, &key, "limit=2").await?;
    let continuation = continuation.as_str().context("there is more")?;
    let (second, end) = log(&harness, &key, &format!("limit=2&continuation={continuation}")).await?;
    ensure!(end.is_null() && [first, second].concat() == failed, "{end}");
    let one = format!("requestId={}", requests[0]);
    for (query, count) in [
        ("status=pending", 3),
        ("status=success", 0),
        ("state=due", 0),
        ("endpoint=default", 3),
        ("endpoint=other", 0),
        ("since=0", 3),
        (one.as_str(), 1),
        ("until=1", 0),
    ] {
        let (found, _) = log(&harness, &key, query).await?;
        ensure!(found.len() == count, "{query}: {found:?}");
    }

    accepts.store(true, Ordering::SeqCst);
    let id = failed[0]["deliveryId"].as_str().context("an id")?;
    let (code, answer) = call(&harness, "POST", &format!("/webhooks/deliveries/{id}/replay"), &key, None).await?;
    ensure!(code == 200 && answer == json!({ "replayed": 1, "more": false }), "{answer}");
    nothing_is_due(&harness, &key).await?;
    let (replayed, _) = log(&harness, &key, &format!("deliveryId={id}")).await?;
    ensure!(replayed[0]["state"] == "delivered" && replayed[0]["attempts"][11]["code"] == 204, "{replayed:?}");
    let since = json!({ "since": 0 });
    let (code, answer) = call(&harness, "POST", "/webhooks/deliveries/replay", &key, Some(&since)).await?;
    ensure!(code == 200 && answer == json!({ "replayed": 2, "more": false }), "{answer}");
    nothing_is_due(&harness, &key).await?;
    ensure!(log(&harness, &key, "state=delivered").await?.0.len() == 3);
    service.stop().await?;

    // Eleven refusals and an acceptance of each, under one id, with the same body.
    let posts = receiver.posts();
    ensure!(posts.len() == 36 && posts.iter().all(|post| post.is_signed_by(&key)), "{}", posts.len());
    for it in &failed {
        let of_id: Vec<_> = posts.iter().filter(|post| it["deliveryId"] == post.id()).collect();
        ensure!(of_id.len() == 12 && of_id.iter().all(|post| post.body == of_id[0].body), "{it}");
    }
    Ok(())
}
