//! Quotes with the venue at one end: refusals that name their member, and the venue's entries in lists.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Stage, VENUE};
use crate::harness::{Engine, new_account};

#[tokio::test]
async fn bad_asks_are_refused_by_name() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let usdc = stage.harness.chain("base").token("USDC").address.to_string();
    let wallet = new_account().address.to_string();
    let deposit = || stage.deposit(&wallet, &usdc, "50000000");
    let withdrawal = || stage.withdrawal(50_000_000, &wallet);
    let cases: Vec<(Value, &str, Value, &str, &str)> = vec![
        (deposit(), "recipient", Value::Null, "INVALID_ADDRESS", "recipient"),
        (deposit(), "recipient", json!("abc"), "INVALID_ADDRESS", "recipient"),
        (deposit(), "recipient", json!("007"), "INVALID_ADDRESS", "recipient"),
        (deposit(), "recipient", json!(wallet), "INVALID_ADDRESS", "recipient"),
        (deposit(), "recipient", json!("999999"), "INVALID_RECIPIENT", "recipient"),
        (deposit(), "recipient", json!("722011"), "INVALID_RECIPIENT", "recipient"),
        (deposit(), "amount", json!("900000"), "AMOUNT_TOO_LOW", "amount"),
        (deposit(), "destinationCurrency", json!("3"), "INVALID_OUTPUT_CURRENCY", "destinationCurrency"),
        (deposit(), "txs", json!([{"to": wallet, "data": "0x"}]), "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (withdrawal(), "user", json!(wallet), "INVALID_ADDRESS", "user"),
        (withdrawal(), "user", json!("999999"), "INVALID_RECIPIENT", "user"),
        (withdrawal(), "refundTo", json!(wallet), "INVALID_ADDRESS", "refundTo"),
        (withdrawal(), "recipient", Value::Null, "INVALID_ADDRESS", "recipient"),
        (withdrawal(), "recipient", json!("100001"), "INVALID_ADDRESS", "recipient"),
        (withdrawal(), "amount", json!("100000"), "AMOUNT_TOO_LOW", "amount"),
        (withdrawal(), "useDepositAddress", json!(true), "UNSUPPORTED_EXECUTION_TYPE", "useDepositAddress"),
    ];
    for (mut body, member, value, code, named) in cases {
        body[member] = value.clone();
        let (status, answer) = stage.harness.post("/quote/v2", &body).await?;
        let said = answer["message"].as_str().unwrap_or_default();
        ensure!(status == 400 && answer["errorCode"] == code && said.contains(named), "{member} {value}: {answer}");
    }
    let mut gas = deposit();
    gas["topupGas"] = json!(true);
    let (status, answer) = stage.harness.post("/quote/v2", &gas).await?;
    let said = answer["message"].as_str().unwrap_or_default();
    ensure!(status == 400 && said.contains("topupGas"), "{answer}");
    service.stop().await
}

#[tokio::test]
async fn the_venue_is_listed_as_a_chain() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let (_, chains) = stage.harness.get("/chains").await?;
    let chains = chains["chains"].as_array().cloned().unwrap_or_default();
    let Some(venue) = chains.iter().find(|chain| chain["id"] == VENUE) else { anyhow::bail!("not listed") };
    ensure!(venue["vmType"] == "lvm" && venue["currency"]["symbol"] == "USDC (Perp)", "{venue}");
    ensure!(venue["solverCurrencies"][0]["address"] == "0" && venue["protocol"]["v2"]["depository"] == "722011");
    ensure!(venue["disabled"] == false && venue["depositEnabled"] == true, "{venue}");
    let body = json!({"chainIds": [VENUE]});
    let (status, currencies) = stage.harness.post("/currencies/v2", &body).await?;
    ensure!(status == 200 && currencies.to_string().contains("USDC (Perp)"), "{currencies}");
    service.stop().await
}
