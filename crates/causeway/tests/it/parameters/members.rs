//! The default of each member, and the effect of a good value.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{BASE, Fixture, NATIVE, micros, step_ids, units, with};
use crate::harness::{amount, new_account};

#[tokio::test]
async fn an_omitted_member_has_its_default() -> Result<()> {
    let fixture = Fixture::open().await?;
    let mut body = fixture.plain();
    body.as_object_mut().unwrap().remove("tradeType");
    let quote = fixture.quote(&body).await?;
    let (details, user) = (&quote["details"], json!(fixture.user.to_string().to_lowercase()));
    let same = |said: &Value| said.as_str().is_some_and(|said| json!(said.to_lowercase()) == user);
    ensure!(same(&details["sender"]) && same(&details["recipient"]), "{details}");
    // The input is fixed.
    ensure!(details["currencyIn"]["amount"] == "250000000" && details["currencyIn"]["minimumAmount"] == "250000000");
    ensure!(amount(&details["currencyOut"]["amount"]) < amount(&details["currencyIn"]["amount"]));
    ensure!(details["slippageTolerance"]["total"] == "50", "{details}");
    ensure!(details["isFixedRate"] == false && details["fixedRateFee"].is_null());
    ensure!(details["currencyGasTopup"].is_null());
    ensure!(step_ids(&quote) == ["approve", "deposit"]);
    ensure!(quote["feeSponsorship"].is_null() && quote["fees"]["subsidized"]["amount"] == "0");
    ensure!(quote["fees"]["app"]["amount"] == "0");
    let order = &quote["protocol"]["v2"];
    ensure!(order["orderSignature"].is_null() && order["orderData"]["output"]["calls"] == json!([]));
    ensure!(same(&order["orderData"]["output"]["payments"][0]["recipient"]));
    ensure!(order["orderData"]["inputs"][0]["refunds"].as_array().unwrap().iter().all(|it| same(&it["recipient"])));
    // Another pair has a wider tolerance.
    let other = fixture.quote(&fixture.ask("ETH", "USDC", &units(1, 18))).await?;
    ensure!(other["details"]["slippageTolerance"]["total"] == "200");
    // Null is the same as leaving an optional member out.
    let optional = [
        "recipient",
        "tradeType",
        "txs",
        "txsGasLimit",
        "refundTo",
        "slippageTolerance",
        "latePaymentSlippageTolerance",
        "referrer",
        "referrerAddress",
        "explicitDeposit",
        "ttl",
        "includeProtocolData",
        "appFees",
        "topupGas",
        "topupGasAmount",
        "enableTrueExactOutput",
        "overridePriceImpact",
        "disableOriginSwaps",
        "forceSolverExecution",
        "originGasOverhead",
        "subsidizeFees",
        "sponsoredFeeComponents",
        "maxSubsidizationAmount",
        "fixedRate",
        "authorizationList",
        "useDepositAddress",
        "strict",
        "recoveryAddress",
        "usePermit",
        "permitExpiry",
    ];
    for member in optional {
        body[member] = Value::Null;
    }
    let (nulls, again) = (fixture.figures(&body).await?, fixture.figures(&fixture.plain()).await?);
    ensure!(nulls["details"] == again["details"] && nulls["fees"] == again["fees"], "{nulls}");
    fixture.close().await
}

#[tokio::test]
async fn the_recipient_is_paid_and_refund_to_is_refunded() -> Result<()> {
    let fixture = Fixture::open().await?;
    let [recipient, refund] = [(); 2].map(|()| json!(new_account().address.to_string().to_lowercase()));
    let body =
        with(&fixture.plain(), json!({ "recipient": recipient, "refundTo": refund, "referrer": "r".repeat(128) }));
    let quote = fixture.quote(&with(&body, json!({ "referrerAddress": recipient, "ttl": 60 }))).await?;
    let order = &quote["protocol"]["v2"]["orderData"];
    ensure!(quote["details"]["recipient"] == recipient && order["output"]["payments"][0]["recipient"] == recipient);
    let refunds = order["inputs"][0]["refunds"].as_array().unwrap();
    ensure!(refunds.len() == 2 && refunds.iter().all(|to| to["recipient"] == refund), "{order}");
    // An address is returned as it came, and read in either case.
    let checksummed = json!(new_account().address);
    let quote = fixture.quote(&with(&body, json!({ "recipient": checksummed }))).await?;
    ensure!(quote["details"]["recipient"] == checksummed);
    fixture.close().await
}

#[tokio::test]
async fn the_trade_type_says_which_side_is_fixed() -> Result<()> {
    let fixture = Fixture::open().await?;
    for (from, to, fixed) in
        [("USDC", "USDC", "250000000".to_owned()), ("TAIL", "USDC", units(10, 6)), ("USDC", "TAIL", units(900, 18))]
    {
        for trade in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
            let quote = fixture.quote(&with(&fixture.ask(from, to, &fixed), json!({ "tradeType": trade }))).await?;
            let (details, out) = (&quote["details"], &quote["details"]["currencyOut"]);
            let (arrives, least) = (amount(&out["amount"]), amount(&out["minimumAmount"]));
            let wanted: U256 = fixed.parse()?;
            ensure!(details["currencyIn"]["amount"] == details["currencyIn"]["minimumAmount"]);
            ensure!(micros(&details["currencyIn"]["amountUsd"])? > micros(&out["amountUsd"])?, "{details}");
            if trade == "EXACT_OUTPUT" {
                ensure!(arrives == wanted && least == arrives, "{details}");
                // The tolerance is for pools to move before the output is bought: nothing of the output may be lost.
                let spare = if from == to { "0" } else { "50" };
                ensure!(details["slippageTolerance"]["total"] == spare, "{details}");
                ensure!(details["slippageTolerance"]["destination"]["value"] == "0", "{details}");
                let asked = json!({ "tradeType": trade, "slippageTolerance": "120" });
                let told = fixture.quote(&with(&fixture.ask(from, to, &fixed), asked)).await?;
                let told = &told["details"]["slippageTolerance"];
                ensure!(told["total"] == "120" && told["destination"]["percent"] == "0.00", "{told}");
            } else {
                ensure!(arrives >= wanted && least < arrives, "{details}");
            }
        }
    }
    // The owner of the headroom that an exact output leaves over is decided at the fill.
    let body = with(&fixture.ask("USDC", "TAIL", &units(900, 18)), json!({ "tradeType": "EXACT_OUTPUT" }));
    let kept = fixture.quote(&with(&body, json!({ "enableTrueExactOutput": true }))).await?;
    ensure!(kept["details"]["currencyOut"]["amount"] == units(900, 18));
    fixture.close().await
}

#[tokio::test]
async fn slippage_is_taken_off_the_minimum() -> Result<()> {
    let fixture = Fixture::open().await?;
    for (given, bps) in [(json!("0"), 0u32), (json!("100"), 100), (json!("125"), 125), (json!("10000"), 10_000)] {
        let body = with(&fixture.plain(), json!({ "slippageTolerance": given, "latePaymentSlippageTolerance": given }));
        let details = fixture.quote(&body).await?["details"].clone();
        let (out, least) =
            (amount(&details["currencyOut"]["amount"]), amount(&details["currencyOut"]["minimumAmount"]));
        ensure!(least == out * U256::from(10_000 - bps) / U256::from(10_000));
        let told = &details["slippageTolerance"];
        ensure!(
            amount(&told["total"]) == U256::from(bps) && amount(&told["destination"]["value"]) == out - least,
            "{told}"
        );
        ensure!(told["destination"]["percent"] == format!("{}.{:02}", bps / 100, bps % 100), "{told}");
        ensure!(told["origin"]["value"] == "0");
    }
    fixture.close().await
}

#[tokio::test]
async fn a_plain_transfer_names_its_order_behind_the_arguments() -> Result<()> {
    let fixture = Fixture::open().await?;
    let quote = fixture.quote(&with(&fixture.plain(), json!({ "explicitDeposit": false }))).await?;
    ensure!(step_ids(&quote) == ["deposit"]);
    let (data, order) = (&quote["steps"][0]["items"][0]["data"], &quote["protocol"]["v2"]["orderId"]);
    ensure!(data["to"] == fixture.currency("USDC") && data["data"].as_str().unwrap().starts_with("0xa9059cbb"));
    ensure!(data["data"].as_str().unwrap().ends_with(order.as_str().unwrap().trim_start_matches("0x")));
    // A native deposit is the same either way.
    for explicit in [true, false] {
        let body = with(&fixture.ask("ETH", "ETH", &units(1, 17)), json!({ "explicitDeposit": explicit }));
        let data = fixture.quote(&body).await?["steps"][0]["items"][0]["data"].clone();
        ensure!(data["data"].as_str().unwrap().starts_with("0x49290c1c"), "{data}");
    }
    let signed = fixture.quote(&with(&fixture.plain(), json!({ "includeProtocolData": true }))).await?;
    ensure!(signed["protocol"]["v2"]["orderSignature"].as_str().is_some_and(|text| text.len() == 132));
    fixture.close().await
}

#[tokio::test]
async fn gas_is_delivered_beside_the_output() -> Result<()> {
    let fixture = Fixture::open().await?;
    let plain = fixture.figures(&fixture.plain()).await?;
    for (changes, worth) in [
        (json!({ "topupGas": true }), 2_000_000),
        (json!({ "topupGas": true, "topupGasAmount": "500000" }), 500_000),
        (json!({ "topupGas": true, "topupGasAmount": "750000" }), 750_000),
    ] {
        let quote = fixture.quote(&with(&fixture.plain(), changes)).await?;
        let topped = &quote["details"]["currencyGasTopup"];
        ensure!(topped["currency"]["address"] == NATIVE && (worth - micros(&topped["amountUsd"])?).abs() <= 1);
        let payments = quote["protocol"]["v2"]["orderData"]["output"]["payments"].as_array().unwrap();
        ensure!(payments.len() == 2 && payments[1]["currency"] == NATIVE, "{payments:?}");
        ensure!(payments[1]["minimumAmount"] == topped["amount"]);
        // It is destination gas, and the user pays for it.
        let gas = micros(&quote["fees"]["relayerGas"]["amountUsd"])?;
        ensure!(gas >= worth + micros(&plain["fees"]["relayerGas"]["amountUsd"])?, "{quote}");
    }
    // Without `topupGas` the amount has nothing to act on.
    for changes in [json!({ "topupGasAmount": "500000" }), json!({ "topupGas": false, "topupGasAmount": "x" })] {
        let quote = fixture.figures(&with(&fixture.plain(), changes)).await?;
        ensure!(quote["details"] == plain["details"], "{quote}");
    }
    fixture.close().await
}

#[tokio::test]
async fn a_member_without_effect_is_ignored_with_any_value() -> Result<()> {
    let fixture = Fixture::open().await?;
    let plain = fixture.figures(&fixture.plain()).await?;
    let members = [
        "additionalData",
        "useExternalLiquidity",
        "useFallbacks",
        "gasLimitForDepositSpecifiedTxs",
        "subsidizeRent",
        "includedSwapSources",
        "excludedSwapSources",
        "includedOriginSwapSources",
        "includedDestinationSwapSources",
        "depositFeePayer",
        "maxRouteLength",
        "useSharedAccounts",
        "includeComputeUnitLimit",
        "disableSwapProviderPreference",
        "refundOnOrigin",
        "protocolVersion",
        "source",
        "neverHeardOf",
    ];
    for value in [json!(true), json!(false), json!(7), json!("x"), json!(["x"]), json!({ "userPublicKey": "x" })] {
        let all = members.iter().fold(fixture.plain(), |body, member| with(&body, json!({ *member: value })));
        let quote = fixture.figures(&all).await?;
        ensure!(quote["details"] == plain["details"] && quote["fees"] == plain["fees"], "{value}: {quote}");
    }
    // Known, checked, and without effect where nobody but the user submits.
    for changes in [
        json!({ "originGasOverhead": 0 }),
        json!({ "forceSolverExecution": true }),
        json!({ "overridePriceImpact": true, "disableOriginSwaps": true, "enableTrueExactOutput": true }),
        json!({ "ttl": 1, "referrerAddress": fixture.user }),
    ] {
        let quote = fixture.figures(&with(&fixture.plain(), changes.clone())).await?;
        ensure!(quote["details"] == plain["details"], "{changes}: {quote}");
    }
    // Gas that a relayer of ours is to pay is in the fees.
    for overhead in [json!(300_000), json!("80000")] {
        let quote = fixture.figures(&with(&fixture.plain(), json!({ "originGasOverhead": overhead }))).await?;
        let gas = |quote: &Value| amount(&quote["fees"]["relayerGas"]["amount"]);
        ensure!(gas(&quote) > gas(&plain), "{quote}");
    }
    fixture.close().await
}

/// A member that is not offered is refused where it asks for something; declined or left empty, it is ignored.
#[tokio::test]
async fn a_member_that_is_not_offered_is_refused() -> Result<()> {
    let fixture = Fixture::open().await?;
    let authorization =
        json!([{ "chainId": BASE, "address": fixture.user, "nonce": 0, "yParity": 0, "r": "0x1", "s": "0x1" }]);
    let member = "authorizationList";
    let body = |value: &Value| with(&fixture.plain(), json!({ member: value }));
    fixture.refused(&body(&authorization), 400, "UNSUPPORTED_EXECUTION_TYPE", member).await?;
    fixture.quote(&body(&json!([]))).await?;
    let mut null = fixture.plain();
    null[member] = Value::Null;
    fixture.quote(&null).await?;
    let native = with(&fixture.ask_here("ETH", "USDC", &units(1, 17)), json!({ "usePermit": true }));
    fixture.refused(&native, 400, "UNSUPPORTED_EXECUTION_TYPE", "usePermit").await?;
    fixture
        .refused(&with(&fixture.plain(), json!({ "permitExpiry": 600 })), 400, "INVALID_PARAMETERS", "permitExpiry")
        .await?;
    let forced = with(&fixture.ask_here("ETH", "USDC", &units(1, 17)), json!({ "forceSolverExecution": true }));
    fixture.refused(&forced, 400, "UNSUPPORTED_EXECUTION_TYPE", "forceSolverExecution").await?;
    fixture.quote(&with(&forced, json!({ "forceSolverExecution": false }))).await?;
    fixture.close().await
}
