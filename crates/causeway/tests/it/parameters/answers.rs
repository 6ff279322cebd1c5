//! Whole answers, on chains nobody else trades on, without the values that differ from run to run.

use alloy::primitives::Address;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Fixture, units, with};
use crate::harness::{Harness, without_balance};

/// The answer with ids, times and this service's own addresses replaced by names.
fn shown(fixture: &Fixture, answer: &Value) -> Value {
    let depository = fixture.harness.depository.to_string().to_lowercase();
    let mut answer = without_balance(answer);
    hide(&mut answer, &depository);
    answer
}

fn hide(value: &mut Value, depository: &str) {
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| match name.as_str() {
            "requestId" => *value = json!("[request id]"),
            "orderId" => *value = json!("[order id]"),
            "orderSignature" => *value = json!("[signature]"),
            "salt" => *value = json!("[salt]"),
            "solver" => *value = json!("[solver]"),
            "deadline" => *value = json!("[in seven days]"),
            "endpoint" => *value = json!("[status of the request]"),
            // The selector says which call it is; the rest has ids in it.
            "data" if value.is_string() => {
                *value = json!(format!("{}…", value.as_str().unwrap_or_default().chars().take(10).collect::<String>()));
            }
            _ => hide(value, depository),
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, depository)),
        Value::String(text) if text.to_lowercase() == depository => *value = json!("[depository]"),
        _ => {}
    }
}

/// The members and their kinds, without the values; of the steps the last, because an allowance is learnt by the first
/// quote and may spare the next an approval.
fn form(quote: &Value) -> Value {
    let mut quote = without_balance(quote);
    if let Some(last) = quote["steps"].as_array_mut().and_then(Vec::pop) {
        quote["steps"] = last;
    }
    shape(&quote)
}

fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        other => other.clone(),
    }
}

#[tokio::test]
async fn answers_are_whole() -> Result<()> {
    let mut fixture = Fixture::on(Harness::isolated(|_| ()).await?).await?;
    fixture.user = Address::repeat_byte(0x11);
    let recipient = json!({ "recipient": Address::repeat_byte(0x22) });
    let ask = |from: &str, to: &str, amount: &str| with(&fixture.ask(from, to, amount), recipient.clone());
    let here = |from: &str, to: &str, amount: &str| with(&fixture.ask_here(from, to, amount), recipient.clone());
    let wrap = json!([{ "to": fixture.currency("WETH"), "value": units(1, 16), "data": "0xd0e30db0" }]);
    let fees = json!([{ "recipient": Address::repeat_byte(0x33), "fee": "25" }]);
    let plain = ask("USDC", "USDC", "250000000");
    let exact = json!({ "tradeType": "EXACT_OUTPUT" });
    let with_calls = with(&with(&ask("USDC", "ETH", &units(1, 16)), exact.clone()), json!({ "txs": wrap }));
    for (name, body) in [
        ("native_bridge", ask("ETH", "ETH", &units(1, 17))),
        ("stable_swap", ask("USDT", "USDC", "250000000")),
        ("origin_swap", ask("TAIL", "USDC", &units(5_000, 18))),
        ("destination_swap", ask("USDC", "TAIL", "100000000")),
        ("both_swaps", ask("TAIL", "TAIL", &units(5_000, 18))),
        ("same_chain_swap", here("USDC", "ETH", "250000000")),
        ("wrap", here("ETH", "WETH", &units(1, 17))),
        ("unwrap", here("WETH", "ETH", &units(1, 17))),
        ("send", here("USDC", "USDC", "250000000")),
        ("topup_gas", with(&plain, json!({ "topupGas": true }))),
        ("calls", with_calls),
        ("app_fees", with(&plain, json!({ "appFees": fees }))),
        ("exact_output", with(&plain, exact.clone())),
        ("exact_output_of_a_pool", with(&ask("USDC", "TAIL", &units(5_000, 18)), exact)),
        ("protocol_data", with(&plain, json!({ "includeProtocolData": true }))),
    ] {
        let quote = fixture.quote(&body).await?;
        // Calls are tried: the zero bytes of the order's id are in their gas, and so in every figure.
        let whole = if name == "calls" { shape(&without_balance(&quote)) } else { shown(&fixture, &quote) };
        insta::assert_json_snapshot!(name, whole);
        // The old name says the same; a price says the same without the promise.
        let (code, older) = fixture.served("/quote", &body).await?;
        ensure!(code == 200 && form(&older) == form(&quote), "{name}: {older}");
        let (code, price) = fixture.served("/price", &body).await?;
        ensure!(
            code == 200 && price.as_object().is_some_and(|it| it.keys().eq(["details", "fees"])),
            "{name}: {price}"
        );
        let (price, quote) = (without_balance(&price), without_balance(&quote));
        let same = |part: &str| match name {
            "calls" => shape(&price[part]) == shape(&quote[part]),
            _ => price[part] == quote[part],
        };
        ensure!(same("details") && same("fees"), "{name}: {price}");
    }
    let (_, price) = fixture.served("/price", &plain).await?;
    insta::assert_json_snapshot!("price", shown(&fixture, &price));
    for path in ["/swap-sources", "/swap-sources?chainId=8453"] {
        ensure!(fixture.harness.get(path).await? == (200, json!({ "sources": ["uniswap-v3"] })), "{path}");
    }
    fixture.close().await
}
