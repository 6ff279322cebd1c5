//! Rare options: app fees, calls on the destination, and same-chain swaps and transfers.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use serde_json::json;

use super::{Fixture, micros, step_ids, units, with};
use crate::harness::{amount, new_account};

#[tokio::test]
async fn app_fees_are_shares_of_the_input() -> Result<()> {
    let fixture = Fixture::open().await?;
    let plain = fixture.quote(&fixture.plain()).await?;
    let recipient = new_account().address;
    let fees = |list: &[&str]| list.iter().map(|fee| json!({ "recipient": recipient, "fee": fee })).collect::<Vec<_>>();
    for (list, expected) in [(vec!["100"], 2_500_000u64), (vec!["0"], 0), (vec!["30", "20"], 1_250_000)] {
        let quote = fixture.quote(&with(&fixture.plain(), json!({ "appFees": fees(&list) }))).await?;
        ensure!(amount(&quote["fees"]["app"]["amount"]) == U256::from(expected), "{}", quote["fees"]);
        let shown = micros(&quote["details"]["expandedPriceImpact"]["app"]["usd"])?;
        ensure!(shown == -i64::try_from(expected)?, "{shown}");
        let less =
            amount(&plain["details"]["currencyOut"]["amount"]) - amount(&quote["details"]["currencyOut"]["amount"]);
        ensure!(less == U256::from(expected), "{less}");
    }
    // App fees come on top of a fixed output.
    let exact = json!({ "tradeType": "EXACT_OUTPUT", "appFees": fees(&["100"]) });
    let quote = fixture.quote(&with(&fixture.plain(), exact)).await?;
    let (input, fee) = (amount(&quote["details"]["currencyIn"]["amount"]), amount(&quote["fees"]["app"]["amount"]));
    ensure!(fee == (input / U256::from(100)) || fee == (input / U256::from(100)) + U256::ONE, "{input} {fee}");
    for (list, field) in [
        (json!([{ "recipient": "0x12", "fee": "1" }]), "appFees.recipient"),
        (json!([{ "recipient": "900123", "fee": "1" }]), "appFees.recipient"),
    ] {
        fixture.refused(&with(&fixture.plain(), json!({ "appFees": list })), 400, "INVALID_ADDRESS", field).await?;
    }
    for (list, field) in [
        (json!([{ "recipient": recipient, "fee": "10001" }]), "appFees.fee"),
        (json!([{ "recipient": recipient, "fee": "-1" }]), "appFees.fee"),
        (json!([{ "recipient": recipient, "fee": "1.5" }]), "appFees.fee"),
        (json!([{ "recipient": recipient, "fee": true }]), "appFees[0].fee"),
        (json!([{ "recipient": recipient }]), "fee"),
        (json!([{ "fee": "1" }]), "recipient"),
        (json!("100"), "appFees"),
        (json!(fees(&["1"; 9])), "appFees"),
        (json!(fees(&["10000"])), "appFees"),
        (json!(fees(&["5000", "5000"])), "appFees"),
    ] {
        fixture.refused(&with(&fixture.plain(), json!({ "appFees": list })), 400, "INVALID_PARAMETERS", field).await?;
    }
    fixture.close().await
}

/// A call that wraps the output: the router calls `deposit()` of the wrapped currency.
#[tokio::test]
async fn calls_are_tried_before_they_are_promised() -> Result<()> {
    let fixture = Fixture::open().await?;
    let (wrapped, ether) = (fixture.currency("WETH"), units(1, 16));
    let call = json!({ "to": wrapped, "value": ether, "data": "0xd0e30db0", "originalTxValue": ether });
    let body = with(&fixture.ask("USDC", "ETH", &ether), json!({ "tradeType": "EXACT_OUTPUT", "txs": [call] }));
    let quote = fixture.quote(&body).await?;
    let output = &quote["protocol"]["v2"]["orderData"]["output"];
    let router = fixture.harness.chain("optimism").contracts.router.to_string().to_lowercase();
    ensure!(output["payments"][0]["recipient"] == router && output["calls"].as_array().unwrap().len() == 1, "{output}");
    ensure!(output["payments"][0]["minimumAmount"] == ether);
    // A value may be hexadecimal, and is zero by default.
    for value in [json!("0x2386f26fc10000"), json!(null)] {
        let call = json!({ "to": wrapped, "value": value, "data": "0xd0e30db0" });
        fixture.quote(&with(&body, json!({ "txs": [call] }))).await?;
    }
    fixture.quote(&with(&body, json!({ "txsGasLimit": 1_000_000 }))).await?;

    // A call that reverts is refused with its revert reason.
    let stolen = format!("0x23b872dd{:0>64}{:0>64}{:064x}", "11".repeat(20), "22".repeat(20), 5);
    let call = json!({ "to": fixture.currency("USDC"), "data": stolen });
    let answer = fixture.refused(&with(&body, json!({ "txs": [call] })), 400, "DESTINATION_TX_FAILED", "txs").await?;
    ensure!(answer["errorData"].as_str().is_some_and(|data| data.starts_with("0x")), "{answer}");
    ensure!(["from", "to", "data", "value"].iter().all(|it| answer["failedCallData"][it].is_string()), "{answer}");
    let short = with(&body, json!({ "txsGasLimit": 1 }));
    fixture.refused(&short, 400, "DESTINATION_TX_FAILED", "txsGasLimit").await?;

    let call = |value: &str| json!([{ "to": wrapped, "value": value, "data": "0xd0e30db0" }]);
    for (changes, error, said) in [
        (json!({ "txs": call("10000000000000001") }), "INVALID_EXTRA_TXS", "txs"),
        (
            json!({ "destinationCurrency": fixture.currency("USDC"), "amount": "5000000", "txs": call("1") }),
            "INVALID_EXTRA_TXS",
            "txs",
        ),
        (json!({ "tradeType": "EXPECTED_OUTPUT" }), "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (json!({ "destinationChainId": super::BASE }), "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (json!({ "useDepositAddress": true }), "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (json!({ "txs": [{ "value": "1" }] }), "INVALID_PARAMETERS", "txs.to"),
        (json!({ "txs": [{ "to": "0x12" }] }), "INVALID_PARAMETERS", "txs.to"),
        (json!({ "txs": [{ "to": wrapped, "value": "-1" }] }), "INVALID_PARAMETERS", "txs.value"),
        (json!({ "txs": [{ "to": wrapped, "value": 1 }] }), "INVALID_PARAMETERS", "txs[0].value"),
        (json!({ "txs": [{ "to": wrapped, "data": "0xzz" }] }), "INVALID_PARAMETERS", "txs.data"),
        (
            json!({ "txs": [{ "to": wrapped, "data": format!("0x{}", "00".repeat(4_097)) }] }),
            "INVALID_PARAMETERS",
            "txs",
        ),
        (json!({ "txs": vec![json!({ "to": wrapped }); 17] }), "INVALID_PARAMETERS", "txs"),
        (json!({ "txs": { "to": wrapped } }), "INVALID_PARAMETERS", "txs"),
        (json!({ "txs": "0x" }), "INVALID_PARAMETERS", "txs"),
        (json!({ "txsGasLimit": 0 }), "INVALID_PARAMETERS", "txsGasLimit"),
        (json!({ "txsGasLimit": "many" }), "INVALID_PARAMETERS", "txsGasLimit"),
    ] {
        fixture.refused(&with(&body, changes), 400, error, said).await?;
    }
    fixture.close().await
}

#[tokio::test]
async fn same_chain_quotes_are_for_the_users_own_transaction() -> Result<()> {
    let fixture = Fixture::open().await?;
    let somebody = new_account().address;
    let fee = json!([{ "recipient": somebody, "fee": "100" }]);
    // Sending the same currency to another owner costs no fee, even where one is asked for.
    let send = with(&fixture.ask_here("USDC", "USDC", "1000000"), json!({ "recipient": somebody, "appFees": fee }));
    let quote = fixture.quote(&send).await?;
    ensure!(quote["details"]["operation"] == "send" && step_ids(&quote) == ["send"], "{quote}");
    ensure!(quote["details"]["currencyOut"]["amount"] == "1000000" && quote["fees"]["app"]["amount"] == "0");
    ensure!(quote["protocol"].is_null());
    // Wrapping is for any size, and collects the integrator's share only.
    for (from, to, operation) in [("ETH", "WETH", "wrap"), ("WETH", "ETH", "unwrap")] {
        let quote = fixture.quote(&fixture.ask_here(from, to, "1")).await?;
        ensure!(quote["details"]["operation"] == operation && quote["details"]["currencyOut"]["amount"] == "1");
        let quote = fixture.quote(&with(&fixture.ask_here(from, to, "10000"), json!({ "appFees": fee }))).await?;
        ensure!(quote["details"]["currencyOut"]["amount"] == "9900", "{quote}");
    }
    // A swap has the service's share, and a floor.
    for (from, to, enough, dust) in [
        ("ETH", "USDC", units(1, 17), units(1, 13)),
        ("ETH", "USDC", units(2, 13), "1".to_owned()),
        ("USDC", "USDT", "50001".to_owned(), "49999".to_owned()),
        ("USDC", "TAIL", "1000000".to_owned(), "1".to_owned()),
        ("TAIL", "USDC", units(100, 18), units(2, 18)),
        ("TAIL", "ETH", units(100, 18), "1".to_owned()),
    ] {
        let quote = fixture.quote(&fixture.ask_here(from, to, &enough)).await?;
        ensure!(quote["details"]["operation"] == "swap" && step_ids(&quote).last() == Some(&"swap"), "{quote}");
        ensure!(quote["details"]["route"]["origin"]["router"] == "uniswap-v3" && quote["protocol"].is_null());
        fixture.refused(&fixture.ask_here(from, to, &dust), 400, "AMOUNT_TOO_LOW", "").await?;
    }
    for trade in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
        let fixed = |amount: &str| with(&fixture.ask_here("ETH", "USDC", amount), json!({ "tradeType": trade }));
        ensure!(
            amount(&fixture.quote(&fixed("5000000")).await?["details"]["currencyOut"]["amount"])
                >= U256::from(5_000_000)
        );
        fixture.refused(&fixed("1"), 400, "AMOUNT_TOO_LOW", "").await?;
    }
    // Options that need a solver are refused on one chain.
    let swap = fixture.ask_here("ETH", "USDC", &units(1, 17));
    fixture.refused(&fixture.ask_here("USDC", "USDC", "1"), 400, "UNSUPPORTED_ROUTE", "").await?;
    fixture.refused(&with(&swap, json!({ "topupGas": true })), 400, "UNSUPPORTED_ROUTE", "topupGas").await?;
    fixture.close().await
}
