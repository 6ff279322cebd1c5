//! Deposits into the venue: filled by a transfer whose memo is the order, once, whatever the venue does.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use domain::ids::OrderId;
use domain::venue::Memo;
use serde_json::json;
use venue::Digest;

use super::Stage;
use crate::harness::{Engine, amount, eventually, execute, request_id};

#[tokio::test]
async fn usdc_arrives_on_the_venue_to_the_unit() -> Result<()> {
    deposit(Engine::Sqlite).await
}

#[tokio::test]
async fn usdc_arrives_on_the_venue_to_the_unit_on_postgres() -> Result<()> {
    deposit(Engine::Postgres).await
}

async fn deposit(engine: Engine) -> Result<()> {
    let stage = Stage::new(engine).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "250000000");
    let quote = stage.harness.quote(&body).await?;
    // The flat fee is all of the execution: the venue's fee for our transfer is not the user's.
    ensure!(quote["fees"]["relayerGas"]["amount"] == "0", "{}", quote["fees"]);
    let (details, impact) = (&quote["details"], &quote["details"]["expandedPriceImpact"]);
    ensure!(impact["execution"]["usd"] == "-0.020000" && details["timeEstimate"] == 2, "{details}");
    ensure!(quote["details"]["currencyOut"]["currency"]["address"] == "0", "{}", quote["details"]["currencyOut"]);
    let order = &quote["protocol"]["v2"]["orderData"];
    ensure!(order["output"]["extraData"] == "0x" && order["output"]["payments"][0]["recipient"] == "100001", "{order}");
    let refund = &order["inputs"][0]["refunds"][1];
    ensure!(refund["recipient"] == "100001" && refund["currency"] == "0" && refund["extraData"] == "0x", "{refund}");

    let held = base.balance(usdc, stage.harness.depository).await?;
    execute(base, &quote, &user).await?;
    let status = stage.harness.wait_for(request_id(&quote), "success").await?;
    let promised: u64 = amount(&quote["details"]["currencyOut"]["amount"]).to();
    stage.user_has(theirs + promised).await?;
    ensure!(stage.balance(&stage.solver)? == ours - promised);
    ensure!(base.balance(usdc, stage.harness.depository).await? == held + U256::from(250_000_000u64));
    // The fill is the venue's own hash, and its memo is the order.
    let digest: Digest = status["txHashes"][0].as_str().unwrap_or_default().parse()?;
    let tx = stage.client.transaction(digest).await?;
    let order: OrderId = quote["protocol"]["v2"]["orderId"].as_str().unwrap_or_default().parse()?;
    ensure!(tx.and_then(|tx| tx.transfer).is_some_and(|signed| signed.transfer.memo == Memo::from(order)));
    // The trace names transaction, account and currency as the venue does.
    let trace = stage.harness.trace(request_id(&quote)).await?;
    let fill = &trace["payments"][0];
    ensure!(fill["txHash"] == status["txHashes"][0] && fill["wallet"] == "722011", "{trace}");
    ensure!(fill["currency"] == "0" && trace["deposits"][0]["txHash"] == status["inTxHashes"][0], "{trace}");
    eventually("the fill is listed", || async {
        let (_, listed) = stage.harness.get(&format!("/requests/v2?id={}", request_id(&quote))).await?;
        let out = &listed["requests"][0]["data"]["outTxs"][0];
        Ok(out["hash"] == status["txHashes"][0] && out["data"]["to"] == "100001")
    })
    .await?;
    service.stop().await
}

/// The venue's fee for our transfer is charged where our account pays one.
#[tokio::test]
async fn an_account_that_pays_fees_has_them_charged() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, true, |_| ()).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let theirs = stage.balance(&stage.user)?;
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    let quote = stage.harness.quote(&body).await?;
    ensure!(quote["fees"]["relayerGas"]["amount"] == "3000000", "{}", quote["fees"]);
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, theirs).await?;
    service.stop().await
}

/// A plain transfer to a deposit address reaches the venue too.
#[tokio::test]
async fn a_deposit_address_leads_into_the_venue() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let theirs = stage.balance(&stage.user)?;
    let mut body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    body["useDepositAddress"] = json!(true);
    body["refundTo"] = json!(user.address);
    let quote = stage.harness.quote(&body).await?;
    ensure!(quote["steps"][0]["depositAddress"].as_str().is_some_and(|at| at.len() == 42), "{}", quote["steps"]);
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, theirs).await?;
    service.stop().await
}

#[tokio::test]
async fn ether_is_exchanged_on_its_way_into_the_venue() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, theirs) = (base.fresh_user().await?, stage.balance(&stage.user)?);
    let zero = Address::ZERO.to_string();
    let quote = stage.harness.quote(&stage.deposit(&user.address.to_string(), &zero, "100000000000000000")).await?;
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, theirs).await?;
    service.stop().await
}

/// The venue takes the transfer and answers with an error: its nonce says that it was taken, and nothing is sent again.
#[tokio::test]
async fn a_transfer_of_unknown_outcome_is_looked_up_and_not_repeated() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let theirs = stage.balance(&stage.user)?;
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    let quote = stage.harness.quote(&body).await?;
    stage.simulator.faults.update(|fault| fault.error_after_send = true);
    execute(base, &quote, &user).await?;
    let promised = stage.is_filled(&quote, theirs).await?;
    stage.simulator.faults.clear();
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == theirs + promised, "paid twice");
    service.stop().await
}

/// Answered as taken, and lost: the nonce was not used, so the same transfer is sent again.
#[tokio::test]
async fn a_transfer_that_the_venue_lost_is_sent_again() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let theirs = stage.balance(&stage.user)?;
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    let quote = stage.harness.quote(&body).await?;
    stage.simulator.faults.update(|fault| fault.drop_sends = true);
    execute(base, &quote, &user).await?;
    stage.harness.wait_for(request_id(&quote), "submitted").await?;
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == theirs);
    stage.simulator.faults.clear();
    stage.is_filled(&quote, theirs).await?;
    service.stop().await
}

/// The venue is down when the deposit comes, and stays so until the quote's time is over.
#[tokio::test]
async fn a_deposit_goes_back_on_its_origin_when_the_venue_stays_down() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| config.limits.market_max_age_secs = 5).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let had = base.balance(usdc, user.address).await?;
    let mut body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    body["ttl"] = json!(8);
    let quote = stage.harness.quote(&body).await?;
    let theirs = stage.balance(&stage.user)?;
    stage.simulator.faults.update(|fault| fault.down = true);
    crate::harness::eventually("the venue is not quoted any more", || async {
        Ok(stage.harness.post("/quote/v2", &body).await?.0 != 200)
    })
    .await?;
    execute(base, &quote, &user).await?;
    let status = stage.harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "TTL_EXPIRED", "{status}");
    stage.simulator.faults.clear();
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == theirs, "filled as well");
    ensure!(base.balance(usdc, user.address).await? > had - U256::from(50_000_000u64), "nothing went back");
    service.stop().await
}

/// A transfer that fails on the venue pays nobody: the deposit goes back.
#[tokio::test]
async fn a_transfer_that_fails_on_the_venue_is_refunded_on_the_origin() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    let quote = stage.harness.quote(&body).await?;
    stage.simulator.faults.update(|fault| fault.fail_sends = true);
    execute(base, &quote, &user).await?;
    stage.harness.wait_for(request_id(&quote), "refund").await?;
    ensure!((stage.balance(&stage.user)?, stage.balance(&stage.solver)?) == (theirs, ours));
    // The recipient is promised nothing for a while, as on a chain.
    eventually("the recipient is remembered", || async {
        let (code, answer) = stage.harness.post("/quote/v2", &body).await?;
        Ok(code == 400 && answer["message"].as_str().is_some_and(|text| text.contains("recipient")))
    })
    .await?;
    service.stop().await
}

/// A venue that executes payments and shows them as failed would be paid for as often as there are deposits: its word
/// has a cap here too. The deposit beyond it stays with us until a person has looked.
#[tokio::test]
async fn the_word_that_payments_failed_has_a_cap() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            venue.risk.open_usd = "80".to_owned();
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    let [first, second] = [stage.harness.quote(&body).await?, stage.harness.quote(&body).await?];
    // Both are paid before either fails: after the first failure the recipient is promised nothing for a while.
    stage.simulator.faults.update(|fault| fault.stuck = true);
    execute(base, &first, &user).await?;
    execute(base, &second, &user).await?;
    eventually("both payments are decided", || async {
        let trace = stage.harness.trace(request_id(&second)).await?;
        Ok(trace["payments"].as_array().is_some_and(|payments| !payments.is_empty()))
    })
    .await?;
    stage.simulator.faults.update(|fault| (fault.stuck, fault.fail_sends) = (false, true));
    stage.harness.wait_for(request_id(&first), "refund").await?;
    eventually("somebody is told", || async {
        let (_, lives) = stage.harness.get("/lives").await?;
        let wrong = lives["report"]["wrong"].as_array().cloned().unwrap_or_default();
        Ok(wrong.iter().any(|it| it["name"] == "voids-capped"))
    })
    .await?;
    let had = base.balance(usdc, user.address).await?;
    stage.rounds_pass().await?;
    ensure!(stage.harness.status(request_id(&second)).await?["status"] != "refund");
    ensure!(base.balance(usdc, user.address).await? == had, "the second deposit went back as well");
    service.stop().await
}
