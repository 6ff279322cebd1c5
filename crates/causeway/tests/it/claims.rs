//! App balances are withdrawn by their wallets: signed for once, paid once under every failure, and booked when the
//! payment is final.

mod fuzz;
mod limits;
mod payment;
mod reorg;
mod restore;

use std::path::Path;

use alloy::primitives::{Address, B256, U256, eip191_hash_message};
use anyhow::{Context, Result, ensure};
use causeway::served::Served;
use devnet::Account;
use evm::LocalSigner;
use serde_json::{Value, json};

use crate::audit;
use crate::funding::{credited, tagged};
use crate::harness::{Harness, WAIT_TIMEOUT, eventually, new_account};
use crate::process::serve;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const USDC: u64 = 1_000_000;

fn usdc(harness: &Harness) -> Address {
    harness.chain("base").token("USDC").address
}

/// The body of a claim: a part of the balance, or all of it.
fn body(harness: &Harness, recipient: Address, amount: Option<u64>) -> Value {
    let mut body = json!({ "chainId": BASE, "currency": usdc(harness), "recipient": recipient });
    if let Some(amount) = amount {
        body["amount"] = json!(amount.to_string());
    }
    body
}

async fn asked(harness: &Harness, wallet: Address, body: &Value) -> Result<Value> {
    let (code, answer) = harness.post(&format!("/app-fees/{wallet:#x}/claim"), body).await?;
    ensure!(code == 200, "{answer}");
    Ok(answer)
}

/// Posts the signature of a step, as a client would.
async fn post(harness: &Harness, step: &Value, signature: &str) -> Result<(u16, Value)> {
    let post = &step["steps"][0]["items"][0]["data"]["post"];
    ensure!(post["method"] == "POST" && post["body"]["kind"] == "claim", "{step}");
    let endpoint = post["endpoint"].as_str().context("endpoint")?;
    harness.post(&format!("{endpoint}?signature={signature}"), &post["body"]).await
}

/// The wallet's signature over the 32 bytes of a claim's id.
fn sign(account: &Account, step: &Value) -> Result<String> {
    let sign = &step["steps"][0]["items"][0]["data"]["sign"];
    ensure!(sign["signatureKind"] == "eip191", "{sign}");
    let id: B256 = sign["message"].as_str().context("message")?.parse()?;
    let signer = LocalSigner::from_hex(&account.private_key.to_string()).unwrap();
    Ok(format!("0x{}", alloy::hex::encode(signer.sign_digest(eip191_hash_message(id)).as_bytes())))
}

/// Asks for a claim, signs it and posts the signature.
pub async fn claim(harness: &Harness, by: &Account, recipient: Address, amount: Option<u64>) -> Result<Value> {
    let step = asked(harness, by.address, &body(harness, recipient, amount)).await?;
    let (code, answer) = post(harness, &step, &sign(by, &step)?).await?;
    ensure!(code == 200 && answer["message"].is_string(), "{answer}");
    Ok(step)
}

async fn listed(harness: &Harness, wallet: Address) -> Result<Vec<Value>> {
    let (code, body) = harness.get(&format!("/app-fees/{wallet:#x}/claims")).await?;
    ensure!(code == 200, "{body}");
    Ok(body["claims"].as_array().context("claims")?.clone())
}

/// Waits until the newest claim of a wallet has this status.
pub async fn becomes(harness: &Harness, wallet: Address, status: &str) -> Result<Value> {
    let newest = || async { anyhow::Ok(listed(harness, wallet).await?.into_iter().next().unwrap_or_default()) };
    let waited = eventually("the claim's status", || async { anyhow::Ok(newest().await?["status"] == status) }).await;
    let last: Value = newest().await?;
    waited.with_context(|| last.to_string())?;
    Ok(last)
}

async fn arrived(harness: &Harness, recipient: Address) -> Result<u64> {
    Ok(harness.chain("base").balance(usdc(harness), recipient).await?.to())
}

/// A wallet with a balance and no key of ours.
async fn funded(harness: &Harness, micros: u64) -> Result<Account> {
    let base = harness.chain("base");
    let wallet = base.fresh_user().await?;
    base.send(wallet.private_key, usdc(harness), U256::ZERO, tagged(harness, micros, Address::ZERO)).await?;
    credited(harness, wallet.address, &micros.to_string()).await?;
    Ok(wallet)
}

async fn agrees(harness: &Harness) -> Result<()> {
    audit::agrees(harness).await.map(drop)
}

/// The crash test at the point where a claim is committed and nothing was sent.
pub async fn crash(harness: &Harness, mut first: Served, toml: &Path) -> Result<()> {
    harness.wait_until_served().await?;
    let by = funded(harness, 50 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    let step = asked(harness, wallet, &body(harness, recipient, Some(20 * USDC))).await?;
    // The process dies under the call.
    let signature = sign(&by, &step)?;
    ensure!(tokio::time::timeout(WAIT_TIMEOUT, post(harness, &step, &signature)).await?.is_err());
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success());
    let second = serve(toml, None)?;
    harness.wait_until_served().await?;
    becomes(harness, wallet, "success").await?;
    ensure!(post(harness, &step, &signature).await?.0 == 409, "signed for twice");
    harness.let_pass(harness.chain("base"), 6).await?;
    ensure!(arrived(harness, recipient).await? == 20 * USDC);
    credited(harness, wallet, "30000000").await?;
    ensure!(second.terminate().await?.success());
    agrees(harness).await
}
