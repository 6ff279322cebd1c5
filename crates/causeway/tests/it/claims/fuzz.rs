//! Random malformed bodies against the routes of claims.

use anyhow::{Result, ensure};
use causeway::service::Service;
use serde_json::{Value, json};

use super::{USDC, asked, body, funded, listed};
use crate::funding::balance;
use crate::fuzz::Rng;
use crate::harness::{Engine, Harness};

/// Every malformed body is answered with its error, and moves nothing.
#[tokio::test]
async fn every_malformed_claim_is_answered_with_its_error() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service: Service = harness.serve().await?;
    let by = funded(&harness, 5 * USDC).await?;
    let good = body(&harness, by.address, Some(3 * USDC));
    let step = asked(&harness, by.address, &good).await?;
    let permit = json!({ "kind": "claim", "requestId": step["steps"][0]["requestId"] });
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("0x"),
        json!("-0"),
        json!("9".repeat(5_000)),
        json!("claim\u{0}'; drop table claim; --"),
        json!([]),
        json!({ "a": [] }),
        json!("0x0000000000000000000000000000000000000000"),
    ];
    let mut rng = Rng(0x5eed);
    let client = &harness.client;
    for _ in 0..400 {
        let of_claim = rng.below(2) == 0;
        let mut sent = if of_claim { good.clone() } else { permit.clone() };
        let member = *rng.pick(&["chainId", "currency", "recipient", "amount", "kind", "requestId", "unheardOf", ""]);
        sent[member] = rng.pick(&values).clone();
        let mut text = sent.to_string().into_bytes();
        match rng.below(8) {
            0 => text.truncate(rng.below(text.len())),
            1 => text[..].fill(b'['),
            2 => {
                let at = rng.below(text.len());
                text[at] = 0xff;
            }
            _ => {}
        }
        let signature = *rng.pick(&["", "?signature=", "?signature=0x00", "?signature=%ff", "?signature=0xzz"]);
        let claim = format!("/app-fees/{:#x}/claim", by.address);
        let path = if of_claim { claim } else { format!("/execute/permits{signature}") };
        let call = client.post(harness.url(&path)).header("content-type", "application/json").body(text.clone());
        let response = call.send().await?;
        let (status, shown) = (response.status().as_u16(), String::from_utf8_lossy(&text).into_owned());
        let answer: Value = response.json().await?;
        if status == 200 {
            ensure!(of_claim, "{path} took {shown}");
            continue;
        }
        ensure!((400..500).contains(&status), "{path} {status} {answer} for {shown}");
        ensure!(answer["message"].is_string() && answer["errorCode"].is_string(), "{path} {answer} for {shown}");
    }
    ensure!(listed(&harness, by.address).await?.is_empty());
    ensure!(balance(&harness, by.address).await?["availableBalanceUsd"] == 5.0);
    service.stop().await
}
