//! Refusals of quotes: the status, the code, and the member in the message.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Fixture, units, with};

#[tokio::test]
async fn a_missing_member_is_refused_by_name() -> Result<()> {
    let fixture = Fixture::open().await?;
    let required = ["user", "originChainId", "destinationChainId", "originCurrency", "destinationCurrency", "amount"];
    for member in required {
        let mut body = fixture.plain();
        body.as_object_mut().unwrap().remove(member);
        fixture.refused(&body, 400, "INVALID_PARAMETERS", member).await?;
        body[member] = Value::Null;
        fixture.refused(&body, 400, "INVALID_PARAMETERS", member).await?;
    }
    fixture.close().await
}

/// Refunds go to the user unless `refundTo` names another.
#[tokio::test]
async fn a_user_who_cannot_be_refunded_needs_refund_to() -> Result<()> {
    let fixture = Fixture::open().await?;
    for user in [json!(super::NATIVE), json!(fixture.currency("USDC")), json!(fixture.harness.treasury.address)] {
        let body = with(&fixture.plain(), json!({"user": user, "recipient": fixture.user}));
        fixture.refused(&body, 400, "INVALID_RECIPIENT", "user").await?;
        fixture.quote(&with(&body, json!({"refundTo": fixture.user}))).await?;
    }
    fixture.close().await
}

#[tokio::test]
async fn a_bad_value_is_refused_by_name() -> Result<()> {
    let fixture = Fixture::open().await?;
    let bad = "INVALID_PARAMETERS";
    let table: Vec<(&str, Value, &str)> = vec![
        ("user", json!("0x12"), "INVALID_ADDRESS"),
        ("user", json!("900123"), "INVALID_ADDRESS"),
        ("user", json!(7), bad),
        ("recipient", json!(""), "INVALID_ADDRESS"),
        ("recipient", json!({}), bad),
        ("recipient", json!(super::NATIVE), "INVALID_RECIPIENT"),
        ("recipient", json!(fixture.currency("TAIL")), "INVALID_RECIPIENT"),
        ("recipient", json!(fixture.harness.depository), "INVALID_RECIPIENT"),
        ("recipient", json!(fixture.harness.treasury.address), "INVALID_RECIPIENT"),
        ("originChainId", json!(1), "UNSUPPORTED_CHAIN"),
        ("originChainId", json!(8453.5), bad),
        ("destinationChainId", json!(1), "UNSUPPORTED_CHAIN"),
        ("destinationChainId", json!("10"), bad),
        ("originCurrency", json!("usdc"), "INVALID_INPUT_CURRENCY"),
        ("originCurrency", json!(fixture.user), "INVALID_INPUT_CURRENCY"),
        ("destinationCurrency", json!(""), "INVALID_OUTPUT_CURRENCY"),
        ("destinationCurrency", json!(fixture.user), "INVALID_OUTPUT_CURRENCY"),
        ("amount", json!("0"), bad),
        ("amount", json!("+5"), bad),
        ("amount", json!("0x5"), bad),
        ("amount", json!("٥"), bad),
        ("tradeType", json!("exact_input"), bad),
        ("tradeType", json!(1), bad),
        ("referrer", json!("r".repeat(129)), bad),
        ("referrer", json!(5), bad),
        ("referrerAddress", json!("0x12"), "INVALID_ADDRESS"),
        ("refundTo", json!("0x12"), "INVALID_ADDRESS"),
        ("refundTo", json!(fixture.currency("USDC")), "INVALID_RECIPIENT"),
        ("topupGas", json!("yes"), bad),
        ("enableTrueExactOutput", json!(1), bad),
        ("explicitDeposit", json!("false"), bad),
        ("includeProtocolData", json!("true"), bad),
        ("slippageTolerance", json!("10001"), "INVALID_SLIPPAGE_TOLERANCE"),
        ("slippageTolerance", json!("0.5"), "INVALID_SLIPPAGE_TOLERANCE"),
        ("slippageTolerance", json!(true), "INVALID_SLIPPAGE_TOLERANCE"),
        ("latePaymentSlippageTolerance", json!("-1"), "INVALID_SLIPPAGE_TOLERANCE"),
        ("originGasOverhead", json!("many"), bad),
        ("originGasOverhead", json!(-1), bad),
        ("forceSolverExecution", json!("no"), bad),
        ("overridePriceImpact", json!(0), bad),
        ("disableOriginSwaps", json!([]), bad),
        ("ttl", json!(0), bad),
        ("ttl", json!(-1), bad),
        ("ttl", json!(1.5), bad),
        ("ttl", json!("60"), bad),
        ("subsidizeFees", json!("true"), bad),
        ("sponsoredFeeComponents", json!(["execution"]), bad),
        ("sponsoredFeeComponents", json!("execution"), bad),
        ("maxSubsidizationAmount", json!("1000000"), bad),
        ("fixedRate", json!("1:1"), "INVALID_FIXED_RATE"),
        ("fixedRate", json!(1), bad),
        ("useDepositAddress", json!("false"), bad),
        ("authorizationList", json!({}), bad),
    ];
    for (member, value, error) in table {
        fixture.refused(&with(&fixture.plain(), json!({ member: value })), 400, error, member).await?;
    }
    // Too little or too much gas to deliver, and gas beside gas.
    let topped = with(&fixture.plain(), json!({ "topupGas": true }));
    for amount in [json!("0"), json!("-1"), json!("1.5"), json!("100000001"), json!(true)] {
        fixture.refused(&with(&topped, json!({ "topupGasAmount": amount })), 400, bad, "topupGasAmount").await?;
    }
    let gas = with(&fixture.ask("USDC", "ETH", "250000000"), json!({ "topupGas": true }));
    fixture.refused(&gas, 400, bad, "topupGas").await?;
    fixture.close().await
}

/// Nobody has a key yet, so nobody has a sponsor; a bad value is refused before that.
#[tokio::test]
async fn sponsorship_needs_a_key() -> Result<()> {
    let fixture = Fixture::open().await?;
    let ask = |changes: Value| with(&with(&fixture.plain(), json!({ "subsidizeFees": true })), changes);
    for changes in [
        json!({}),
        json!({ "sponsoredFeeComponents": ["relay", "execution", "rent"] }),
        json!({ "sponsoredFeeComponents": [] }),
        json!({ "maxSubsidizationAmount": "1000000" }),
        json!({ "maxSubsidizationAmount": "0" }),
        json!({ "fixedRate": "1:1" }),
        json!({ "fixedRate": "1:0.9996", "subsidizeRent": true }),
    ] {
        fixture.refused(&ask(changes), 401, "UNAUTHORIZED", "subsidizeFees").await?;
    }
    for (changes, error, said) in [
        (json!({ "sponsoredFeeComponents": ["gas"] }), "INVALID_PARAMETERS", "sponsoredFeeComponents"),
        (json!({ "sponsoredFeeComponents": [1] }), "INVALID_PARAMETERS", "sponsoredFeeComponents"),
        (json!({ "maxSubsidizationAmount": "-1" }), "INVALID_PARAMETERS", "maxSubsidizationAmount"),
        (json!({ "maxSubsidizationAmount": "$1" }), "INVALID_PARAMETERS", "maxSubsidizationAmount"),
        (json!({ "maxSubsidizationAmount": 1_000_000 }), "INVALID_PARAMETERS", "maxSubsidizationAmount"),
        (json!({ "fixedRate": "" }), "INVALID_FIXED_RATE", "fixedRate"),
        (json!({ "fixedRate": "1" }), "INVALID_FIXED_RATE", "fixedRate"),
        (json!({ "fixedRate": "0:1" }), "INVALID_FIXED_RATE", "fixedRate"),
        (json!({ "fixedRate": "1:-1" }), "INVALID_FIXED_RATE", "fixedRate"),
    ] {
        fixture.refused(&ask(changes), 400, error, said).await?;
    }
    // Without `subsidizeFees` its options have nothing to act on, which the caller should hear; empty ones are ignored.
    for (changes, error, said) in [
        (json!({ "sponsoredFeeComponents": ["swap"] }), "INVALID_PARAMETERS", "sponsoredFeeComponents"),
        (json!({ "maxSubsidizationAmount": "5" }), "INVALID_PARAMETERS", "maxSubsidizationAmount"),
        (json!({ "fixedRate": "1:1" }), "INVALID_FIXED_RATE", "fixedRate"),
    ] {
        fixture.refused(&with(&ask(changes), json!({ "subsidizeFees": false })), 400, error, said).await?;
    }
    let nothing = json!({ "subsidizeFees": false, "sponsoredFeeComponents": [] });
    ensure!(fixture.quote(&with(&fixture.plain(), nothing)).await?["feeSponsorship"].is_null());
    fixture.close().await
}

#[tokio::test]
async fn an_amount_beyond_the_market_is_refused() -> Result<()> {
    let fixture = Fixture::open().await?;
    // Below the cost of the transfer, through a pool or not.
    for (from, to, amount) in [
        ("USDC", "USDC", "1"),
        ("ETH", "ETH", "1"),
        ("USDC", "ETH", "20000"),
        ("TAIL", "USDC", "1"),
        ("TAIL", "USDC", "1000000000000000000"),
        ("USDC", "TAIL", "1"),
        ("TAIL", "TAIL", "1000"),
    ] {
        fixture.refused(&fixture.ask(from, to, amount), 400, "AMOUNT_TOO_LOW", "").await?;
    }
    // Above our inventory.
    for (from, to, amount) in [("USDC", "USDC", units(2_000_000, 6)), ("ETH", "ETH", units(2_000, 18))] {
        fixture.refused(&fixture.ask(from, to, &amount), 400, "INSUFFICIENT_LIQUIDITY", "").await?;
    }
    for trade in ["EXACT_OUTPUT", "EXPECTED_OUTPUT"] {
        let most = with(&fixture.ask("USDC", "TAIL", &"9".repeat(40)), json!({ "tradeType": trade }));
        fixture.refused(&most, 400, "INSUFFICIENT_LIQUIDITY", "").await?;
    }
    // A third of the pool, on either side or on one chain.
    let large = [
        fixture.ask("TAIL", "USDC", &units(4_000_000, 18)),
        fixture.ask("USDC", "TAIL", &units(80_000, 6)),
        fixture.ask_here("TAIL", "USDC", &units(4_000_000, 18)),
    ];
    for body in large {
        fixture.refused(&body, 400, "SWAP_IMPACT_TOO_HIGH", "overridePriceImpact").await?;
        let quote = fixture.quote(&with(&body, json!({ "overridePriceImpact": true }))).await?;
        let percent: f64 = quote["details"]["swapImpact"]["percent"].as_str().unwrap().parse()?;
        ensure!(percent < -10.0, "{quote}");
    }
    let swapped = fixture.ask("TAIL", "USDC", &units(1_000, 18));
    let never = with(&swapped, json!({ "disableOriginSwaps": true }));
    fixture.refused(&never, 400, "NO_SWAP_ROUTES_FOUND", "originCurrency").await?;
    fixture.quote(&with(&swapped, json!({ "disableOriginSwaps": false }))).await?;
    fixture.quote(&with(&fixture.ask("USDC", "TAIL", "25000000"), json!({ "disableOriginSwaps": true }))).await?;
    fixture.close().await
}
