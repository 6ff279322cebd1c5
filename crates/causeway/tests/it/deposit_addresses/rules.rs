//! Rules for giving out an address, and the two routes that look one up, without a payment.

use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BASE, OPTIMISM, SENTINEL, address, body};
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, new_account, request_id};

/// The rules of the members of a quote, and the two routes, without a payment.
#[tokio::test]
async fn an_address_is_given_out_by_its_rules_and_looked_up() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 1).await?;
    let refund_to = new_account().address;
    refuses(&harness, refund_to).await?;
    // Any address may ask, the zero address too.
    let strict = json!({ "strict": true, "refundTo": refund_to, "tradeType": "EXACT_OUTPUT", "user": SENTINEL });
    let quote = harness.quote(&body(&harness, refund_to, strict)).await?;
    let at = address(&quote)?;
    let deadline = quote["protocol"]["v2"]["orderData"]["output"]["deadline"].as_u64().context("a deadline")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(deadline > now + 170 * 86_400, "{deadline}");
    let find = async |query: String, key: Option<&str>| {
        let call = harness.client.get(harness.url(&format!("/deposit-addresses/v1?{query}")));
        let call = key.into_iter().fold(call, |call, key| call.header("x-api-key", key));
        let response = call.send().await?;
        anyhow::Ok((response.status().as_u16(), response.json::<Value>().await?))
    };
    let key = Some(by.key.as_str());
    for query in [format!("address={at:#x}"), format!("requestId={}", request_id(&quote))] {
        let (code, found) = find(query, key).await?;
        ensure!(code == 200 && found["depositAddress"] == format!("{at:#x}"), "{found}");
        ensure!(found["type"] == "strict" && found["requestId"] == request_id(&quote) && found["chainId"] == BASE);
        ensure!(found["refundTo"] == format!("{refund_to:#x}") && !found["currency"].is_null(), "{found}");
    }
    for (query, key, code) in [
        (format!("address={at:#x}"), None, 401),
        (format!("address={:#x}", new_account().address), key, 404),
        ("address=0x12".to_owned(), key, 400),
        (String::new(), key, 400),
    ] {
        let (status, answer) = find(query.clone(), key).await?;
        ensure!(status == code, "{query}: {status} {answer}");
    }
    for (changes, code) in [
        (json!({ "depositAddress": new_account().address }), 404),
        (json!({ "chainId": OPTIMISM }), 404),
        (json!({ "chainId": 1 }), 400),
        (json!({ "targetChainId": 1 }), 400),
        (json!({ "currency": new_account().address }), 400),
        (json!({}), 200),
        (json!({}), 429),
    ] {
        let mut asked = json!({ "chainId": BASE, "depositAddress": at });
        for (name, value) in changes.as_object().into_iter().flatten() {
            asked[name] = value.clone();
        }
        let (status, answer) = harness.post("/transactions/deposit-address/reindex", &asked).await?;
        ensure!(status == code, "{changes}: {status} {answer}");
    }
    service.stop().await
}

/// Members that do not go together, and each is named.
async fn refuses(harness: &Harness, refund_to: Address) -> Result<()> {
    for (changes, code, error, said) in [
        (json!({ "strict": true }), 400, "INVALID_PARAMETERS", "refundTo"),
        (json!({ "tradeType": "EXACT_OUTPUT" }), 400, "INVALID_PARAMETERS", "tradeType"),
        (json!({ "txs": [{ "to": refund_to }] }), 400, "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (json!({ "sponsoredFeeComponents": ["execution"] }), 400, "INVALID_PARAMETERS", "sponsoredFeeComponents"),
        (json!({ "useDepositAddress": false, "strict": true }), 400, "INVALID_PARAMETERS", "strict"),
        (
            json!({ "useDepositAddress": false, "recoveryAddress": refund_to }),
            400,
            "INVALID_PARAMETERS",
            "recoveryAddress",
        ),
        (json!({ "recoveryAddress": SENTINEL }), 400, "INVALID_ADDRESS", "recoveryAddress"),
        (json!({ "destinationChainId": BASE }), 400, "UNSUPPORTED_EXECUTION_TYPE", "useDepositAddress"),
        // What is bought on the destination may not be had any more: then it has to go back to somebody.
        (
            json!({ "destinationCurrency": harness.chain("optimism").token("TAIL").address }),
            400,
            "INVALID_PARAMETERS",
            "refundTo",
        ),
        (
            json!({ "originCurrency": harness.chain("base").token("TAIL").address }),
            400,
            "INVALID_INPUT_CURRENCY",
            "originCurrency",
        ),
    ] {
        let asked = body(harness, refund_to, changes.clone());
        let (status, answer) = harness.served(harness.client.post(harness.url("/quote/v2")).json(&asked)).await?;
        ensure!(status == code && answer["errorCode"] == error, "{changes}: {status} {answer}");
        ensure!(answer["message"].as_str().is_some_and(|text| text.contains(said)), "{changes}: {answer}");
    }
    Ok(())
}
