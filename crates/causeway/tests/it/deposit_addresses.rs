//! Deposit addresses: plain transfers to an address, which are swept into the depository and filled, or sent back. The
//! balances are right to the unit.

mod late;
mod open;
mod rules;
mod strict;

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::{Account, Chain};
use evm::calldata;
use serde_json::{Value, json};

use crate::fast_fill::USDC;
use crate::harness::{Harness, amount, ask, found, new_account};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const DOLLAR: u64 = 1_000_000;
/// The native currency, and as `refundTo` of a deposit address: whoever has paid.
const SENTINEL: &str = "0x0000000000000000000000000000000000000000";

/// Blocks are final soon, and too little is waited for only a moment.
fn quick(config: &mut Config) {
    config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 5);
    config.deposit_addresses.grace_secs = 2;
}

fn usdc(harness: &Harness) -> Address {
    harness.chain("base").token("USDC").address
}

/// The body of a quote of ten dollars at an address.
pub fn body(harness: &Harness, recipient: Address, changes: Value) -> Value {
    let there = harness.chain("optimism").token("USDC").address;
    let mut body =
        ask(new_account().address, recipient, (BASE, usdc(harness)), (OPTIMISM, there), U256::from(10 * USDC));
    body["useDepositAddress"] = json!(true);
    for (name, value) in changes.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

pub fn address(quote: &Value) -> Result<Address> {
    let step = &quote["steps"][0];
    ensure!(step["id"] == "deposit" && quote["steps"].as_array().is_some_and(|steps| steps.len() == 1), "{quote}");
    Ok(step["depositAddress"].as_str().context("a deposit address")?.parse()?)
}

/// Sends so many units of USDC to an address, as a wallet or an exchange would.
pub async fn pay(chain: &Chain, from: &Account, to: Address, units: u64) -> Result<B256> {
    pay_in("USDC", chain, from, to, units).await
}

async fn pay_in(symbol: &str, chain: &Chain, from: &Account, to: Address, units: u64) -> Result<B256> {
    let token = chain.token(symbol).address;
    let data = calldata::transfer(to, U256::from(units));
    Ok(chain.send(from.private_key, token, U256::ZERO, data).await?.transaction_hash)
}

/// The return of a deposit that paid for nothing, once its own request has its end.
async fn child(harness: &Harness, request: &str, reason: &str, status: &str) -> Result<Value> {
    found("the child has its end", || async {
        let answer = harness.status(request).await?;
        let mut returns = answer["returns"].as_array().into_iter().flatten();
        Ok(returns.find(|it| it["failReason"] == reason && it["status"] == status).cloned())
    })
    .await
}

/// The request under which a deposit went back.
fn under(child: &Value) -> Result<&str> {
    child["requestId"].as_str().context("a request of its own")
}

async fn listed(harness: &Harness, key: &str, query: &str) -> Result<Vec<Value>> {
    let call = harness.client.get(harness.url(&format!("/requests/v3?{query}"))).header("x-api-key", key);
    let answer: Value = call.send().await?.json().await?;
    Ok(answer["requests"].as_array().context("a listing")?.clone())
}

/// The sum of what an address has delivered by its records, once so many of its requests are filled. The recipient has
/// exactly that.
async fn delivered(harness: &Harness, key: &str, at: Address, fills: usize, recipient: Address) -> Result<U256> {
    let query = format!("depositAddress={at:#x}");
    let records = found("the requests of the address are filled", || async {
        let mut records = listed(harness, key, &query).await?;
        records.retain(|record| record["status"] == "success");
        Ok(Some(records).filter(|records| records.len() >= fills))
    })
    .await?;
    ensure!(records.len() == fills, "{records:?}");
    let output = |record: &Value| amount(&record["data"]["route"]["actual"]["destination"]["outputCurrency"]["amount"]);
    let sum = records.iter().map(output).fold(U256::ZERO, U256::saturating_add);
    let optimism = harness.chain("optimism");
    let has = optimism.balance(optimism.token("USDC").address, recipient).await?;
    ensure!(has == sum, "{has} arrived, and {sum} is told of: {records:?}");
    Ok(sum)
}

/// A refund to the unit: its record tells how much it is, somebody who had `without` has exactly that more, and it is
/// all that was sent, less gas.
async fn is_back(
    harness: &Harness,
    key: &str,
    request: &str,
    (currency, who): (Address, Address),
    without: U256,
    sent: U256,
) -> Result<()> {
    let query = format!("id={request}");
    let told = found("the refund is listed", || async {
        let records = listed(harness, key, &query).await?;
        let refunded = records.first().filter(|record| record["status"] == "refund");
        Ok(refunded.map(|record| amount(&record["data"]["refundCurrencyData"]["amount"])))
    })
    .await?;
    let has = harness.chain("base").balance(currency, who).await?;
    ensure!(has == without + told, "{has} is back, beside {without}, and {told} is told of");
    ensure!(told < sent && told > sent - sent / U256::from(5), "{told} of {sent}");
    Ok(())
}
