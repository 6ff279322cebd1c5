//! Transaction hints of clients: recorded at once, shown in the request's trace, and never a condition for money to
//! move.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::harness::{Harness, ask, eventually, new_account, request_id, transactions};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

async fn announcements(harness: &Harness, quote: &Value) -> Result<Vec<Value>> {
    let trace = harness.trace(request_id(quote)).await?;
    let events = trace["events"].as_array().cloned().unwrap_or_default();
    Ok(events.into_iter().filter(|event| event["rule"] == "announced").collect())
}

async fn index(harness: &Harness, chain: u64, hash: B256) -> Result<()> {
    let body = json!({"chainId": chain.to_string(), "txHash": hash, "referrer": "test"});
    let (code, answer) = harness.post("/transactions/index", &body).await?;
    ensure!(code == 200 && answer["message"].is_string(), "{answer}");
    Ok(())
}

async fn single(harness: &Harness, chain: u64, hash: B256, quote: &Value) -> Result<()> {
    let tx = json!({"from": Address::ZERO, "txHash": hash}).to_string();
    let body = json!({"chainId": chain.to_string(), "requestId": request_id(quote), "tx": tx});
    let (code, answer) = harness.post("/transactions/single", &body).await?;
    ensure!(code == 200, "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_deposit_on_its_way_is_told_once_and_changes_nothing() -> Result<()> {
    // The chain stands still while quotes are made and told of.
    let harness = Harness::isolated(|config| config.limits.market_max_age_secs = 600).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let native = Address::ZERO;
    // Deposits to the depository, as a plain transfer, and a same-chain transaction.
    let options = [
        ((BASE, native), (OPTIMISM, native), U256::from(10u64.pow(16)), false),
        ((BASE, here), (OPTIMISM, there), U256::from(20_000_000u64), false),
        ((BASE, here), (OPTIMISM, there), U256::from(20_000_000u64), true),
        ((BASE, native), (BASE, native), U256::from(10u64.pow(16)), false),
    ];
    let user = base.fresh_user().await?;
    let mut sent = Vec::new();
    base.pause_mining().await;
    for (from, to, value, explicit) in options {
        let mut body = ask(user.address, new_account().address, from, to, value);
        body["explicitDeposit"] = json!(explicit);
        let quote = harness.quote(&body).await?;
        let mut hashes = Vec::new();
        for step in transactions(&quote)? {
            hashes.push(base.submit_with(user.private_key, step.to, step.value, step.data, 300_000).await?);
        }
        sent.push((quote, hashes));
    }
    // An unknown hash; and an approval, which names no request.
    index(&harness, BASE, B256::repeat_byte(0x77)).await?;
    for (quote, hashes) in &sent {
        let same_chain = quote["steps"].as_array().unwrap().iter().all(|step| step["id"] != "deposit");
        for &hash in hashes {
            for _ in 0..2 {
                if same_chain {
                    single(&harness, BASE, hash, quote).await?
                } else {
                    index(&harness, BASE, hash).await?
                }
            }
        }
    }
    for (quote, hashes) in &sent {
        let told = || async { Ok(!announcements(&harness, quote).await?.is_empty()) };
        eventually("the announcement is in the story", told).await?;
        let told = announcements(&harness, quote).await?;
        ensure!(told.len() == 1 && told[0]["state"] == "waiting", "{told:?}");
        ensure!(told[0]["figures"] == json!({"chain": BASE, "tx": hashes.last(), "mined": false}), "{told:?}");
        let status = harness.status(request_id(quote)).await?;
        ensure!(status["status"] == "waiting" && status["inTxHashes"] == json!([]), "{status}");
    }
    base.resume_mining().await;
    for (quote, hashes) in &sent {
        let status = harness.wait_for(request_id(quote), "success").await?;
        ensure!(status["inTxHashes"] == json!([hashes.last()]), "{status}");
        index(&harness, BASE, hashes[hashes.len() - 1]).await?;
        ensure!(announcements(&harness, quote).await?.len() == 1);
    }
    service.stop().await
}

#[tokio::test]
async fn a_malformed_hint_is_refused_by_its_field() -> Result<()> {
    let harness = Harness::new(crate::harness::Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let hash = B256::repeat_byte(1);
    for (path, body, field) in [
        ("/transactions/index", json!({"chainId": "x", "txHash": hash}), "chainId"),
        ("/transactions/index", json!({"chainId": "8453", "txHash": "0x12"}), "txHash"),
        ("/transactions/index", json!({"chainId": 8453, "txHash": hash, "requestId": "0x"}), "requestId"),
        ("/transactions/single", json!({"chainId": "8453", "requestId": hash, "tx": "{}"}), "tx"),
        ("/transactions/single", json!({"chainId": "1", "requestId": hash, "tx": "{}"}), "chainId"),
    ] {
        let (code, answer) = harness.post(path, &body).await?;
        ensure!(code == 400 && answer["message"].as_str().is_some_and(|text| text.contains(field)), "{answer}");
    }
    service.stop().await
}
