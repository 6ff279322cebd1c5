//! A claim from the first call to the final payment, with every refusal on the way.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use devnet::Account;
use serde_json::{Value, json};
use store::Store;

use super::{BASE, USDC, agrees, arrived, asked, becomes, body, funded, listed, post, sign, usdc};
use crate::funding::{balance, credited, tagged};
use crate::harness::{Engine, Harness, new_account};

#[tokio::test]
async fn a_claim_is_paid_to_the_unit() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let by = funded(&harness, 100 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    ensure!(listed(&harness, wallet).await?.is_empty());

    let good = body(&harness, recipient, Some(30_000_001));
    bad_bodies_are_refused(&harness, wallet, recipient, &good).await?;
    let step = asked(&harness, wallet, &good).await?;
    it_is_one_signature_step_over_the_claims_id(&step)?;
    only_the_wallets_signature_over_this_id_counts(&harness, &by, &good, &step).await?;
    an_expired_claim_is_refused(&harness, &by, &good).await?;
    a_signed_claim_is_paid_once(&harness, &by, recipient, &step).await?;
    the_rest_goes_to_the_wallet_itself(&harness, &by).await?;
    ensure!(arrived(&harness, recipient).await? == 30_000_001, "paid twice");
    claims_are_listed_by_page(&harness, wallet, &step["steps"][0]["requestId"]).await?;
    service.stop().await?;
    agrees(&harness).await
}

async fn bad_bodies_are_refused(harness: &Harness, wallet: Address, recipient: Address, good: &Value) -> Result<()> {
    let path = format!("/app-fees/{wallet:#x}/claim");
    for (member, value, code) in [
        ("chainId", json!(10), "UNSUPPORTED_CHAIN"),
        ("chainId", json!(null), "INVALID_PARAMETERS"),
        ("currency", json!(Address::ZERO), "UNSUPPORTED_CURRENCY"),
        ("currency", json!("USDC"), "INVALID_ADDRESS"),
        ("recipient", json!("0x12"), "INVALID_ADDRESS"),
        ("recipient", json!(Address::ZERO), "INVALID_RECIPIENT"),
        ("recipient", json!(harness.treasury.address), "INVALID_RECIPIENT"),
        ("amount", json!("0"), "INVALID_PARAMETERS"),
        ("amount", json!("-1"), "INVALID_PARAMETERS"),
        ("amount", json!("1"), "AMOUNT_TOO_LOW"),
        ("amount", json!("100000001"), "INSUFFICIENT_FUNDS"),
        ("amount", json!(U256::MAX.to_string()), "INVALID_PARAMETERS"),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        let (status, answer) = harness.post(&path, &bad).await?;
        ensure!(status == 400 && answer["errorCode"] == code, "{bad}: {status} {answer}");
        ensure!(answer["message"].as_str().unwrap().starts_with(member), "{answer}");
    }
    ensure!(harness.post("/app-fees/0x12/claim", good).await?.0 == 400);
    let (status, nobody) =
        harness.post(&format!("/app-fees/{recipient:#x}/claim"), &body(harness, recipient, None)).await?;
    ensure!(status == 400 && nobody["errorCode"] == "INVALID_PARAMETERS", "{nobody}");
    Ok(())
}

fn it_is_one_signature_step_over_the_claims_id(step: &Value) -> Result<()> {
    let first = &step["steps"][0];
    ensure!(step["steps"].as_array().unwrap().len() == 1 && first["id"] == "authorize" && first["kind"] == "signature");
    ensure!(
        first["items"][0]["status"] == "incomplete"
            && first["items"][0]["data"]["sign"]["message"] == first["requestId"],
        "{first}"
    );
    ensure!(first["description"].as_str().unwrap().contains("30.000001 USDC"), "{first}");
    Ok(())
}

async fn only_the_wallets_signature_over_this_id_counts(
    harness: &Harness,
    by: &Account,
    good: &Value,
    step: &Value,
) -> Result<()> {
    let id = &step["steps"][0]["requestId"];
    let other = asked(harness, by.address, good).await?;
    let wrong = [sign(&new_account(), step)?, sign(by, &other)?, "0x".to_owned(), "0x12".to_owned(), "x".to_owned()];
    for signature in &wrong {
        let (status, answer) = post(harness, step, signature).await?;
        let codes = ["INVALID_SIGNATURE", "INVALID_PARAMETERS"].map(Value::from);
        ensure!(status == 400 && codes.contains(&answer["errorCode"]), "{signature}: {answer}");
    }
    for (changed, code) in [
        (json!({ "kind": "erc2612", "requestId": id }), "UNSUPPORTED_EXECUTION_TYPE"),
        (json!({ "kind": "permit2", "requestId": id }), "REQUEST_NOT_FOUND"),
        (json!({ "requestId": id }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim" }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim", "requestId": "0x12" }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim", "requestId": B256::repeat_byte(9) }), "REQUEST_NOT_FOUND"),
    ] {
        let path = format!("/execute/permits?signature={}", sign(by, step)?);
        let (status, answer) = harness.post(&path, &changed).await?;
        let expected = if code == "REQUEST_NOT_FOUND" { 404 } else { 400 };
        ensure!(status == expected && answer["errorCode"] == code, "{changed}: {answer}");
    }
    ensure!(balance(harness, by.address).await?["availableBalanceUsd"] == 100.0, "a refusal set something aside");
    Ok(())
}

async fn an_expired_claim_is_refused(harness: &Harness, by: &Account, good: &Value) -> Result<()> {
    let expired = asked(harness, by.address, good).await?;
    let store = Store::open(&causeway::assemble::database(&harness.config)?)?;
    let old: B256 = expired["steps"][0]["requestId"].as_str().unwrap().parse()?;
    store.write(move |tx| tx.execute("update claim set expires_at = 1 where claim_id = $1", &[old.into()])).await?;
    store.close().await;
    let (status, answer) = post(harness, &expired, &sign(by, &expired)?).await?;
    ensure!(status == 400 && answer["errorCode"] == "SIGNATURE_EXPIRED", "{answer}");
    Ok(())
}

/// A signed claim is set aside at once, paid, and booked when the payment is final. Once.
async fn a_signed_claim_is_paid_once(harness: &Harness, by: &Account, recipient: Address, step: &Value) -> Result<()> {
    let (wallet, id) = (by.address, &step["steps"][0]["requestId"]);
    let (code, answer) = post(harness, step, &sign(by, step)?).await?;
    ensure!(code == 200 && answer["steps"] == json!([]), "{answer}");
    let body_after = balance(harness, wallet).await?;
    ensure!(body_after["availableBalanceUsd"] == 69.999999, "{body_after}");
    let (status, again) = post(harness, step, &sign(by, step)?).await?;
    ensure!(status == 409 && again["errorCode"] == "ALREADY_PROCESSING", "{again}");
    let record = becomes(harness, wallet, "success").await?;
    ensure!(record["claimId"] == *id && record["recipient"] == json!(format!("{recipient:#x}")), "{record}");
    ensure!(
        record["currency"]["amount"] == "30000001" && record["currency"]["currency"]["symbol"] == "USDC",
        "{record}"
    );
    ensure!(record["wallet"] == json!(format!("{wallet:#x}")), "{record}");
    ensure!(record["createdAt"].as_str().is_some_and(|at| at.len() == 24 && at.ends_with('Z')), "{record}");
    ensure!(arrived(harness, recipient).await? == 30_000_001);
    let hash: B256 = record["txHash"].as_str().context("txHash")?.parse()?;
    ensure!(harness.chain("base").receipt(hash).await?.status());
    credited(harness, wallet, "69999999").await?;
    ensure!(post(harness, step, &sign(by, step)?).await?.0 == 409);
    Ok(())
}

/// A claim without an amount takes all that is left, and one without a recipient pays the wallet.
async fn the_rest_goes_to_the_wallet_itself(harness: &Harness, by: &Account) -> Result<()> {
    let wallet = by.address;
    let had = arrived(harness, wallet).await?;
    let whole = json!({ "chainId": BASE, "currency": usdc(harness) });
    let step = asked(harness, wallet, &whole).await?;
    ensure!(post(harness, &step, &sign(by, &step)?).await?.0 == 200);
    becomes(harness, wallet, "success").await?;
    ensure!(arrived(harness, wallet).await? == had + 69_999_999);
    let empty = balance(harness, wallet).await?;
    ensure!(empty["amount"] == "0" && empty["availableBalanceUsd"] == 0.0, "{empty}");
    let again = harness.post(&format!("/app-fees/{wallet:#x}/claim"), &whole).await?;
    ensure!(again.0 == 400, "there is nothing left");
    Ok(())
}

async fn claims_are_listed_by_page(harness: &Harness, wallet: Address, oldest: &Value) -> Result<()> {
    let first = format!("/app-fees/{wallet:#x}/claims?limit=1");
    let (code, one) = harness.get(&first).await?;
    ensure!(code == 200 && one["claims"][0]["currency"]["amount"] == "69999999", "{one}");
    let next = format!("{first}&continuation={}", one["continuation"].as_str().context("continuation")?);
    let (_, two) = harness.get(&next).await?;
    ensure!(two["claims"][0]["claimId"] == *oldest && two["continuation"] == Value::Null, "{two}");
    for bad in ["limit=0", "limit=51", "limit=x", "continuation=x", "continuation=-1"] {
        let (status, answer) = harness.get(&format!("/app-fees/{wallet:#x}/claims?{bad}")).await?;
        ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{bad}: {answer}");
    }
    Ok(())
}

/// A contract that owns a balance checks the signature itself, by EIP-1271, on the chain where balances live.
#[tokio::test]
async fn a_contract_checks_the_signature_of_its_claim() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let by = base.fresh_user().await?;
    // One contract accepts every signature, and one answers something else.
    for (code, accepted) in [("631626ba7e60e01b60005260206000f3", true), ("63deadbeef60e01b60005260206000f3", false)] {
        let (contract, recipient) = (new_account().address, new_account().address);
        base.set_code(contract, code.parse()?).await?;
        base.send(by.private_key, usdc(&harness), U256::ZERO, tagged(&harness, 5 * USDC, contract)).await?;
        credited(&harness, contract, "5000000").await?;
        let step = asked(&harness, contract, &body(&harness, recipient, None)).await?;
        let (status, answer) = post(&harness, &step, "0x01").await?;
        ensure!((status == 200) == accepted, "{answer}");
        if accepted {
            becomes(&harness, contract, "success").await?;
        }
        ensure!(arrived(&harness, recipient).await? == if accepted { 5 * USDC } else { 0 });
    }
    service.stop().await
}
