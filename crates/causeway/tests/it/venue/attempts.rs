//! A payment with several attempts under one nonce: the venue executes one of them, and all of them are one payment.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use domain::venue::TxStatus;
use serde_json::{Value, json};
use store::{StoreError, Tx};

use super::{SOLVER, Stage};
use crate::harness::{Engine, WAIT_TIMEOUT, amount, eventually, execute, request_id};
use crate::process::serve;

/// Seconds in which the fill has to be made.
const TTL_SECS: i64 = 20;

/// The venue keeps a fill back until it is given up, and then has both: the fill and what cancels it. Whichever comes
/// first is executed and the other one is shown as rejected, which says nothing about the payment.
#[tokio::test]
async fn a_payment_is_judged_by_all_its_attempts() -> Result<()> {
    tokio::try_join!(judged(false), judged(true)).map(drop)
}

async fn judged(last_first: bool) -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let (had, theirs, ours) =
        (base.balance(usdc, user.address).await?, stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let mut body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    body["ttl"] = json!(TTL_SECS);
    let quote = stage.harness.quote(&body).await?;
    stage.simulator.faults.update(|fault| (fault.hold_sends, fault.reorder) = (true, last_first));
    execute(base, &quote, &user).await?;
    eventually("the fill is kept back", || async { Ok(stage.simulator.held() == 1) }).await?;
    // The quote's time is over on the venue's clock.
    stage.simulator.faults.update(|fault| fault.clock_offset_millis = (TTL_SECS + 5) * 1_000);
    eventually("the fill is given up", || async { Ok(stage.simulator.held() == 2) }).await?;
    ensure!(stage.balance(&stage.user)? == theirs);
    stage.simulator.faults.update(|fault| fault.hold_sends = false);

    let status = stage.harness.wait_for(request_id(&quote), if last_first { "refund" } else { "success" }).await?;
    let sent = stage.simulator.transfers()?.into_iter().filter(|it| it.transfer.from.get() == SOLVER);
    let sent: Vec<_> = sent.map(|it| (it.transfer.to.get() == SOLVER, it.status)).collect();
    ensure!(sent == [(last_first, TxStatus::Executed), (!last_first, TxStatus::Rejected)], "{sent:?}");
    // Long enough for everything to become final.
    stage.rounds_pass().await?;
    let back = base.balance(usdc, user.address).await? + U256::from(50_000_000u64) - had;
    if last_first {
        ensure!(stage.balance(&stage.user)? == theirs, "refunded and filled: {status}");
        ensure!(back > U256::ZERO, "nothing went back: {status}");
        // One unit lies in another balance of ours.
        ensure!(stage.balance(&stage.solver)? == ours - 1);
    } else {
        let promised: u64 = amount(&quote["details"]["currencyOut"]["amount"]).to();
        stage.user_has(theirs + promised).await?;
        ensure!(back.is_zero(), "filled and refunded: {status}");
        ensure!(stage.balance(&stage.solver)? == ours - promised);
    }
    service.stop().await
}

/// Dies with a cancellation committed and not sent, while the venue keeps the fill back: the next process sends it, and
/// the order has one end.
#[tokio::test]
async fn dying_with_a_cancellation_committed_leaves_one_end() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let toml = stage.harness.folder.path().join("dev.toml");
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let (had, theirs) = (base.balance(usdc, user.address).await?, stage.balance(&stage.user)?);
    let mut first = serve(&toml, Some("cancel.committed"))?;
    stage.harness.wait_until_served().await?;
    let mut body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
    body["ttl"] = json!(TTL_SECS);
    let quote = stage.harness.quote(&body).await?;
    stage.simulator.faults.update(|fault| (fault.hold_sends, fault.reorder) = (true, true));
    execute(base, &quote, &user).await?;
    eventually("the fill is kept back", || async { Ok(stage.simulator.held() == 1) }).await?;
    stage.simulator.faults.update(|fault| fault.clock_offset_millis = (TTL_SECS + 5) * 1_000);
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "it ended in order");
    ensure!(stage.simulator.held() == 1, "it was sent before it was committed");

    let second = serve(&toml, None)?;
    stage.harness.wait_until_served().await?;
    eventually("the cancellation is sent", || async { Ok(stage.simulator.held() == 2) }).await?;
    stage.simulator.faults.update(|fault| fault.hold_sends = false);
    stage.harness.wait_for(request_id(&quote), "refund").await?;
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == theirs, "refunded and filled");
    ensure!(base.balance(usdc, user.address).await? + U256::from(50_000_000u64) > had, "nothing went back");
    ensure!(second.terminate().await?.success(), "the second one did not end in order");
    Ok(())
}

/// A restored database knows the payment and not the attempt that was executed. Its own attempt is unknown to the venue
/// and has expired: the account's history says that the payment was made.
#[tokio::test]
async fn an_attempt_that_a_restored_database_does_not_know_is_found() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let toml = stage.harness.folder.path().join("dev.toml");
    let base = stage.harness.chain("base");
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let (had, theirs) = (base.balance(usdc, user.address).await?, stage.balance(&stage.user)?);
    let mut first = serve(&toml, Some("payment.sent"))?;
    stage.harness.wait_until_served().await?;
    let quote = stage.harness.quote(&stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000")).await?;
    execute(base, &quote, &user).await?;
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "it ended in order");
    let promised: u64 = amount(&quote["details"]["currencyOut"]["amount"]).to();
    stage.user_has(theirs + promised).await?;
    let another_attempt = |tx: &mut Tx<'_>| {
        let sql = "update attempt set max_tip = max_tip - 3600000 where payment_id in
             (select payment_id from payment where chain_id = 3586256 and purpose = 'fill')";
        assert_eq!(tx.execute(sql, &[])?, 1, "one fill with one attempt");
        Ok::<_, StoreError>(())
    };
    let store = store::Store::open(&causeway::assemble::database(&stage.harness.config)?)?;
    store.write(another_attempt).await?;
    store.close().await;

    let second = serve(&toml, None)?;
    stage.harness.wait_until_served().await?;
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == theirs + promised, "paid twice");
    ensure!(base.balance(usdc, user.address).await? == had - U256::from(50_000_000u64), "refunded as well");
    let (_, lives) = stage.harness.get("/lives").await?;
    let wrong = lives["report"]["wrong"].as_array().cloned().unwrap_or_default();
    ensure!(wrong.iter().all(|it: &Value| it["name"] != "lane-quarantined"), "{lives}");
    ensure!(second.terminate().await?.success());
    Ok(())
}
