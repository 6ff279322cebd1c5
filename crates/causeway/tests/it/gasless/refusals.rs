//! Permits that are refused, each by its own code, and nothing is sent for any of them.

use ::harness::sign_permit;
use alloy::primitives::U256;
use anyhow::{Result, ensure};
use serde_json::json;

use super::{BASE, DOLLAR, authorization, authorizationStateCall, body, cancellation, post, quick, refused, step};
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, ask, eventually, new_account, request_id};

#[tokio::test]
async fn a_permit_is_refused_by_the_code_of_its_trouble() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (usdc, weth) = (base.token("USDC").address, base.token("WETH").address);
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let had = base.balance(usdc, user.address).await?;
    let asked = body(&harness, user.address, recipient, "USDC", 20);
    // The time of a signature has two ends.
    for (secs, code) in [(59, 400), (60, 200), (3_600, 200), (3_601, 400)] {
        let mut asked = asked.clone();
        asked["permitExpiry"] = json!(secs);
        let (status, answer) = harness.served(harness.client.post(harness.url("/quote/v2")).json(&asked)).await?;
        ensure!(status == code, "{secs}: {status} {answer}");
        let named = answer["message"].as_str().is_some_and(|text| text.contains("permitExpiry"));
        ensure!(code == 200 || (named && answer["errorCode"] == "INVALID_PARAMETERS"), "{secs}: {answer}");
    }
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    let signature = sign_permit(&user, last)?;
    // A request that nobody has quoted.
    let mut unknown = last.clone();
    unknown["items"][0]["data"]["post"]["body"]["requestId"] = json!(new_account().private_key);
    let (status, answer) = post(&harness, &unknown, &signature).await?;
    ensure!(status == 404 && answer["errorCode"] == "REQUEST_NOT_FOUND", "{status} {answer}");
    // An authorization that its user has taken back.
    base.send(user.private_key, usdc, U256::ZERO, cancellation(&user, last)?).await?;
    let state = authorizationStateCall { authorizer: user.address, nonce: authorization(last)? };
    ensure!(base.read(usdc, &state).await?, "the nonce is not used");
    refused(&harness, last, &signature, "INVALID_NONCE").await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    // A sponsor without a balance.
    let poor = integrator(&harness, 0).await?;
    let mut swap = ask(user.address, recipient, (BASE, usdc), (BASE, weth), U256::from(50 * DOLLAR));
    (swap["usePermit"], swap["subsidizeFees"]) = (json!(true), json!(true));
    let (status, quote) = poor.post(&harness, "/quote/v2", &swap).await?;
    ensure!(status == 200, "{quote}");
    let last = step(&quote, "authorize2")?;
    refused(&harness, last, &sign_permit(&user, last)?, "SPONSOR_BALANCE_TOO_LOW").await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    // A wallet that is not served any more.
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    std::fs::write(harness.folder.path().join("blocked.txt"), format!("{}\n", user.address))?;
    eventually("there is no quote", || async { Ok(harness.post("/quote/v2", &asked).await?.0 == 400) }).await?;
    refused(&harness, last, &sign_permit(&user, last)?, "SANCTIONED_WALLET_ADDRESS").await?;
    harness.let_pass(base, 3).await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    ensure!(base.balance(usdc, user.address).await? == had, "something was sent");
    service.stop().await
}
