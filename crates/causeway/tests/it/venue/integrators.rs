//! Integrators on the venue: fast fills, sponsorship, app fees, fixed rates and webhooks treat it like every chain.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Stage;
use crate::fast_fill::{Integrator, books, integrator};
use crate::funding::credited;
use crate::harness::{Engine, Harness, Receiver, amount, eventually, execute, new_account, request_id};
use crate::webhooks::listen;

/// A quote with the integrator's key, once quotes know of its balance.
async fn quoted(stage: &Stage, by: &Integrator, body: &Value) -> Result<Value> {
    let ask = || by.post(&stage.harness, "/quote/v2", body);
    if body["subsidizeFees"] == true {
        eventually("quotes know of the balance", || async {
            let (code, quote) = ask().await?;
            Ok(code == 200 && quote["fees"]["subsidized"]["amount"] != "0")
        })
        .await?;
    }
    let (code, quote) = ask().await?;
    ensure!(code == 200, "{quote}");
    Ok(quote)
}

#[tokio::test]
async fn an_integrator_is_served_on_the_venue_as_on_a_chain() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let harness = &stage.harness;
    let service = harness.serve().await?;
    let by = integrator(harness, 500).await?;
    let receiver = Receiver::accepting().await?;
    listen(harness, &by.key, &receiver.url("/hooks")).await?;
    let base = harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address.to_string());
    let plain = stage.deposit(&user.address.to_string(), &usdc, "100000000");

    // A fast fill reaches the account before anything was deposited, and the deposit frees the hold.
    let had = stage.balance(&stage.user)?;
    let quote = quoted(&stage, &by, &plain).await?;
    let (code, answer) = by.fast_fill(harness, request_id(&quote)).await?;
    ensure!(code == 200, "{answer}");
    stage.is_filled(&quote, had).await?;
    ensure!(books(&service, by.wallet.address).await? == (500_000_000, 100_000_000));
    execute(base, &quote, &user).await?;
    eventually("the hold ends", || async { Ok(books(&service, by.wallet.address).await? == (500_000_000, 0)) }).await?;
    eventually("the webhook tells the venue's own hash", || async {
        let posts = receiver.of(request_id(&quote));
        let told = |hash: &Value| hash.as_str().is_some_and(|hash| hash.len() == 80);
        Ok(posts.iter().any(|post| post.status() == "success" && told(&post.data("txHashes")[0])))
    })
    .await?;

    // The sponsor pays the fees, and the app earns its own.
    let (app, had) = (new_account().address, stage.balance(&stage.user)?);
    let mut sponsored = plain.clone();
    sponsored["subsidizeFees"] = json!(true);
    sponsored["appFees"] = json!([{ "recipient": app, "fee": "10" }]);
    let quote = quoted(&stage, &by, &sponsored).await?;
    ensure!(quote["details"]["currencyOut"]["amount"] == "100000000", "{}", quote["details"]);
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, had).await?;
    credited(harness, app, "100000").await?;

    // A fixed rate, into the venue and out of it.
    let had = stage.balance(&stage.user)?;
    let mut fixed = plain;
    (fixed["subsidizeFees"], fixed["fixedRate"]) = (json!(true), json!("1:1"));
    let quote = quoted(&stage, &by, &fixed).await?;
    ensure!(quote["details"]["isFixedRate"] == true, "{}", quote["details"]);
    ensure!(quote["details"]["currencyOut"]["amount"] == "100000000", "{}", quote["details"]);
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, had).await?;
    let (optimism, recipient) = (harness.chain("optimism"), new_account().address);
    let mut fixed = stage.withdrawal(20_000_000, &recipient.to_string());
    (fixed["subsidizeFees"], fixed["fixedRate"]) = (json!(true), json!("1:1"));
    let quote = quoted(&stage, &by, &fixed).await?;
    ensure!(quote["details"]["isFixedRate"] == true, "{}", quote["details"]);
    stage.withdraw(&quote).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    let arrived = optimism.balance(optimism.token("USDC").address, recipient).await?;
    ensure!(arrived == amount(&json!("20000000")), "{arrived}");

    // A withdrawal: the webhook and the listing tell the venue's own hash of what came in, and the app earns its fee.
    let app = new_account().address;
    let mut body = stage.withdrawal(20_000_000, &new_account().address.to_string());
    body["appFees"] = json!([{ "recipient": app, "fee": "10" }]);
    let quote = quoted(&stage, &by, &body).await?;
    let digest = json!(stage.withdraw(&quote).await?.to_string());
    harness.wait_for(request_id(&quote), "success").await?;
    credited(harness, app, "20000").await?;
    eventually("the webhook tells of the withdrawal", || async {
        let posts = receiver.of(request_id(&quote));
        Ok(posts.iter().any(|post| post.status() == "success" && post.data("inTxHashes")[0] == digest))
    })
    .await?;
    let (_, listed) = harness.get(&format!("/requests/v2?id={}", request_id(&quote))).await?;
    ensure!(listed["requests"][0]["data"]["inTxs"][0]["hash"] == digest, "{listed}");
    finds_by_hash(harness, &by.key, digest.as_str().context("a hash")?, request_id(&quote)).await?;
    service.stop().await
}

/// A request is found by the venue's own hash of its transfer.
async fn finds_by_hash(harness: &Harness, key: &str, hash: &str, request: &str) -> Result<()> {
    for query in [format!("v3?depositTxHash={hash}"), format!("v3?term=0x{hash}"), format!("v2?hash={hash}")] {
        let call = harness.client.get(harness.url(&format!("/requests/{query}"))).header("x-api-key", key);
        let found: Value = call.send().await?.json().await?;
        ensure!(found["requests"][0]["id"] == request, "{query}: {found}");
    }
    Ok(())
}
