//! Permits that are refused, each by its own code, and nothing is sent for any of them.

use ::harness::sign_permit;
use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use devnet::{Account, Devnet, Fault};
use serde_json::{Value, json};

use super::{
    BASE, DOLLAR, authorization, authorizationStateCall, body, cancellation, post, quick, refused, step, user_of,
};
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, amount, ask, eventually, new_account, request_id};
use crate::lying_nodes;

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
    // Members that are missing, and one that is none.
    let good = &last["items"][0]["data"]["post"]["body"];
    for (path, member, value) in [
        ("/execute/permits".to_owned(), "signature", good.clone()),
        (format!("/execute/permits?signature={signature}"), "kind", json!({ "requestId": good["requestId"] })),
        (format!("/execute/permits?signature={signature}"), "requestId", json!({ "kind": "eip3009" })),
        (
            format!("/execute/permits?signature={signature}"),
            "requestId",
            json!({ "kind": "eip3009", "requestId": "1" }),
        ),
    ] {
        let (status, answer) = harness.post(&path, &value).await?;
        let named = answer["message"].as_str().is_some_and(|text| text.starts_with(member));
        ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS" && named, "{member}: {status} {answer}");
    }
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

/// No node answers: the service says so and sends nothing, and the same signature is good when they do again.
#[tokio::test]
async fn a_permit_outlasts_nodes_that_do_not_answer() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let nodes = [lying_nodes::endpoint(base).await?, lying_nodes::endpoint(base).await?];
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        for chain in config.chains.iter_mut().filter(|chain| chain.id == BASE) {
            chain.endpoints = nodes.iter().map(lying_nodes::configured).collect();
        }
    })
    .await?;
    let service = harness.serve().await?;
    let (user, recipient) = (user_of(base, "USDC", 25 * DOLLAR).await?, new_account().address);
    let quote = harness.quote(&body(&harness, user.address, recipient, "USDC", 20)).await?;
    let last = step(&quote, "authorize1")?;
    nodes.iter().for_each(|node| node.faults.set(Fault { reset: true, ..Fault::default() }));
    let (status, answer) = post(&harness, last, &sign_permit(&user, last)?).await?;
    ensure!(status == 503 && answer["errorCode"] == "RPC_HTTP_ERROR", "{status} {answer}");
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    nodes.iter().for_each(|node| node.faults.clear());
    goes_through(&harness, &quote, &user, recipient).await?;
    service.stop().await
}

/// No block comes, so that nobody knows what gas costs: the permit is not taken until one does.
#[tokio::test]
async fn a_permit_is_not_taken_while_the_price_of_gas_is_old() -> Result<()> {
    let harness = Harness::isolated(|config| {
        quick(config);
        config.limits.market_max_age_secs = 8;
    })
    .await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (user, recipient) = (user_of(base, "USDC", 25 * DOLLAR).await?, new_account().address);
    let quote = harness.quote(&body(&harness, user.address, recipient, "USDC", 20)).await?;
    let last = step(&quote, "authorize1")?;
    base.pause_mining().await;
    let health = format!("/chains/health?chainId={BASE}");
    eventually("the price is old", || async { Ok(harness.get(&health).await?.1["healthy"] == false) }).await?;
    refused(&harness, last, &sign_permit(&user, last)?, "CHAIN_DISABLED").await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
    base.resume_mining().await;
    goes_through(&harness, &quote, &user, recipient).await?;
    service.stop().await
}

/// The same signature is taken now, and moves what was quoted, once.
async fn goes_through(harness: &Harness, quote: &Value, user: &Account, recipient: Address) -> Result<()> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let last = step(quote, "authorize1")?;
    let signature = sign_permit(user, last)?;
    eventually("it is taken", || async { Ok(post(harness, last, &signature).await?.0 == 200) }).await?;
    harness.wait_for(request_id(quote), "success").await?;
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == promised);
    ensure!(base.balance(base.token("USDC").address, user.address).await? == U256::from(5 * DOLLAR));
    Ok(())
}
