//! A chain is paused and resumed: nothing new begins there, what was promised waits, and a restart changes nothing.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::local::OPERATOR_TOKEN;
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, ask, eventually, execute, new_account, operator, request_id};
use crate::process::causeway;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

async fn pause(harness: &Harness) -> Result<String> {
    let toml = harness.folder.path().join("dev.toml");
    let words = ["pause", "optimism", "--reason", "its bridge is down", "--by", "alice", "--config"];
    let run = move || causeway().args(words).arg(toml).output();
    let output = tokio::task::spawn_blocking(run).await??;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn is_disabled(harness: &Harness, body: &Value) -> Result<bool> {
    let (code, answer) = harness.post("/quote/v2", body).await?;
    Ok(code == 400 && answer["errorCode"] == "CHAIN_DISABLED")
}

/// The alarms of a chain, by name.
async fn alarms(harness: &Harness, chain: u64) -> Result<Vec<String>> {
    let (_, lives) = harness.get("/lives").await?;
    let wrong = lives["report"]["wrong"].as_array().cloned().unwrap_or_default();
    let here = wrong.iter().filter(|it| it["chainId"] == chain);
    Ok(here.map(|it| format!("{}: {}", it["name"].as_str().unwrap(), it["message"].as_str().unwrap())).collect())
}

#[tokio::test]
async fn a_paused_chain_takes_nothing_new_until_it_is_resumed() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let (here, there) = ((BASE, Address::ZERO), (OPTIMISM, Address::ZERO));
    let body = ask(user.address, recipient, here, there, U256::from(10_000_000_000_000_000u64));
    let quote = harness.quote(&body).await?;
    ensure!(pause(&harness).await?.contains("optimism is paused by alice: its bridge is down"));
    // The command wrote to the database alone: the service learns of it by itself.
    eventually("optimism is not quoted", || is_disabled(&harness, &body)).await?;
    let back = ask(user.address, recipient, there, here, U256::from(10_000_000_000_000_000u64));
    ensure!(is_disabled(&harness, &back).await?, "it is neither destination nor origin");
    let (_, chains) = harness.get("/chains").await?;
    let listed = chains["chains"].as_array().into_iter().flatten().find(|it| it["id"] == OPTIMISM).cloned();
    ensure!(listed.is_some_and(|it| it["disabled"] == true), "{chains}");
    ensure!(pause(&harness).await?.contains("optimism was paused by alice"), "a second pause changes nothing");

    execute(base, &quote, &user).await?;
    let trace = format!("/requests/{}/trace", request_id(&quote));
    let waits = || async {
        let (_, trace) = operator(&harness, &trace).await?;
        let reason = trace["due"][0]["reason"].as_str().unwrap_or_default().to_owned();
        Ok(trace["due"][0]["purpose"] == "fill" && reason.contains("paused by alice: its bridge is down"))
    };
    eventually("the fill waits for the pause to end", waits).await?;
    service.stop().await?;
    let service = harness.serve().await?;
    ensure!(is_disabled(&harness, &body).await?, "the pause outlives the process, from the first call on");
    let said = "chain-paused: paused by alice: its bridge is down".to_owned();
    ensure!(alarms(&harness, OPTIMISM).await?.contains(&said), "{:?}", alarms(&harness, OPTIMISM).await?);
    eventually("the fill still waits", waits).await?;
    ensure!(optimism.balance(Address::ZERO, recipient).await?.is_zero());

    let resumed = json!({ "chainId": OPTIMISM, "paused": false, "by": "bob", "reason": "it is up again" });
    ensure!(harness.post("/operator/pauses", &resumed).await?.0 == 401, "everybody may resume a chain");
    let send = async |body: Value| -> Result<(u16, Value)> {
        let call = harness.client.post(harness.url("/operator/pauses")).bearer_auth(OPERATOR_TOKEN).json(&body);
        let answer = call.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    };
    for (member, wrong) in [("reason", json!(" ")), ("by", json!("")), ("chainId", json!(77))] {
        let mut body = resumed.clone();
        body[member] = wrong;
        let (code, answer) = send(body).await?;
        ensure!(code == 400 && answer["message"].as_str().is_some_and(|said| said.contains(member)), "{answer}");
    }
    ensure!(send(resumed).await? == (200, json!({ "chainId": OPTIMISM, "pause": null })));
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(!alarms(&harness, OPTIMISM).await?.contains(&said));
    harness.quote(&body).await?;
    service.stop().await
}
