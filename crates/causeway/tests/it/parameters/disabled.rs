//! Quotes that the operator or the state of the chains rules out: screened people, disabled chains, missing markets.

use alloy::primitives::{Bytes, U256};
use anyhow::{Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use serde_json::{Value, json};

use super::{BASE, Fixture, NATIVE, OPTIMISM, with};
use crate::harness::{Engine, Harness, eventually, new_account};

#[tokio::test]
async fn every_party_is_screened() -> Result<()> {
    let thief = new_account().address;
    let harness = Harness::with(Engine::Sqlite, |config| {
        std::fs::write(config.folder.join("blocked.txt"), format!("{thief} # a thief\n")).unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let fixture = Fixture::on(harness).await?;
    let innocent = new_account().address;
    for (changes, field) in [
        (json!({ "user": thief, "recipient": innocent }), "user"),
        (json!({ "recipient": thief }), "recipient"),
        (json!({ "refundTo": thief }), "refundTo"),
        (
            json!({ "appFees": [{ "recipient": innocent, "fee": "1" }, { "recipient": thief, "fee": "1" }] }),
            "appFees.recipient",
        ),
    ] {
        fixture.refused(&with(&fixture.plain(), changes.clone()), 400, "SANCTIONED_WALLET_ADDRESS", field).await?;
        let here = with(&fixture.ask_here("ETH", "USDC", "100000000000000000"), changes);
        fixture.refused(&here, 400, "SANCTIONED_WALLET_ADDRESS", field).await?;
    }
    fixture.quote(&with(&fixture.plain(), json!({ "recipient": innocent }))).await?;
    fixture.close().await
}

fn ask(origin: u64, destination: u64) -> Value {
    json!({
        "user": new_account().address, "originChainId": origin, "originCurrency": NATIVE,
        "destinationChainId": destination, "destinationCurrency": NATIVE, "amount": "100000000000000000",
    })
}

/// A wallet that was used elsewhere: its chain is not served before somebody has looked.
#[tokio::test]
async fn a_chain_that_is_not_served_is_said_to_be_disabled() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let filler = harness.fillers[0];
    harness.chain("optimism").send(filler.private_key, filler.address, U256::ZERO, Bytes::new()).await?;
    let service = Service::start(&harness.config, system_env()).await?;
    for (origin, destination, field) in [(BASE, OPTIMISM, "destinationChainId"), (OPTIMISM, BASE, "originChainId")] {
        let body = ask(origin, destination);
        eventually("base is served, optimism is not", || async {
            let (code, answer) = harness.post("/quote/v2", &body).await?;
            let message = answer["message"].as_str().unwrap_or_default();
            Ok(code == 400 && answer["errorCode"] == "CHAIN_DISABLED" && message.contains(field))
        })
        .await?;
    }
    eventually("the others go on", || async { Ok(harness.post("/quote/v2", &ask(BASE, 42161)).await?.0 == 200) })
        .await?;
    service.stop().await
}

/// A chain without a market: the solver's own currencies are transferred as they are, and nothing is traded there.
#[tokio::test]
async fn without_pools_there_is_no_route() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        for chain in &mut config.chains {
            chain.dex = None;
            chain.tokens.retain(|token| token.held);
        }
    })
    .await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let [tail, usdc, usdt] = ["TAIL", "USDC", "USDT"].map(|symbol| base.token(symbol).address);
    for (changes, error) in [
        (json!({ "originCurrency": tail }), "INVALID_INPUT_CURRENCY"),
        (json!({ "destinationCurrency": tail }), "INVALID_OUTPUT_CURRENCY"),
        (json!({ "destinationChainId": BASE, "destinationCurrency": usdc }), "NO_SWAP_ROUTES_FOUND"),
        // We hold none of it, and cannot buy any.
        (json!({ "destinationCurrency": usdt }), "INSUFFICIENT_LIQUIDITY"),
    ] {
        let body = with(&ask(BASE, OPTIMISM), changes);
        let (code, answer) = harness.post("/quote/v2", &body).await?;
        ensure!(code == 400 && answer["errorCode"] == error, "{code} {answer} for {body}");
    }
    harness.quote(&with(&ask(BASE, OPTIMISM), json!({ "destinationCurrency": usdc }))).await?;
    ensure!(harness.get("/swap-sources").await? == (200, json!({ "sources": [] })));
    service.stop().await
}
