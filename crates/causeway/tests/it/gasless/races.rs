//! Permits and what is faster than their relay: the user's own transactions, another permit of the account, and time.

use std::time::Duration;

use ::harness::sign_permit;
use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use devnet::Account;
use evm::calldata;
use serde_json::{Value, json};

use super::{DOLLAR, accepted, body, cancellation, post, quick, refused, step, user_of};
use crate::audit::agrees;
use crate::harness::{Harness, amount, eventually, new_account, request_id};

/// A permit of an account that has to wait, and why.
async fn waits(harness: &Harness, step: &Value, by: &Account, said: &str) -> Result<()> {
    let (status, answer) = post(harness, step, &sign_permit(by, step)?).await?;
    ensure!(status == 400 && answer["errorCode"] == "PERMIT_FAILED", "{status} {answer}");
    ensure!(answer["message"].as_str().is_some_and(|text| text.contains(said)), "{said}: {answer}");
    Ok(())
}

/// A user takes the money away while the relay is on its way, and another one the authorization: both relays fail,
/// their requests too, and nobody is paid. A third user's goes through beside them, and the next one of that account
/// after it.
#[tokio::test]
async fn a_relay_that_its_user_undercuts_fails_and_pays_nobody() -> Result<()> {
    let harness = Harness::isolated(|config| {
        quick(config);
        // Others are mined before us.
        config.chains.iter_mut().for_each(|chain| chain.tip_gwei = "0.0001".to_owned());
    })
    .await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let (mover, canceller, patient) = (base.fresh_user().await?, base.fresh_user().await?, base.fresh_user().await?);
    let (thief, nobody, recipient) = (new_account().address, new_account().address, new_account().address);
    let had = base.balance(usdc, mover.address).await?;
    let quoted = async |user: &Account, to| harness.quote(&body(&harness, user.address, to, "USDC", 20)).await;
    let (moved, again) = (quoted(&mover, nobody).await?, quoted(&mover, nobody).await?);
    let cancelled = quoted(&canceller, nobody).await?;
    let (first, second) = (quoted(&patient, recipient).await?, quoted(&patient, recipient).await?);
    base.pause_mining().await;
    for (quote, user) in [(&moved, &mover), (&cancelled, &canceller), (&first, &patient)] {
        accepted(&harness, step(quote, "authorize1")?, user).await?;
        ensure!(harness.status(request_id(quote)).await?["status"] == "depositing");
    }
    // A second permit of an account waits until the first is in a block.
    waits(&harness, step(&second, "authorize1")?, &patient, "on its way").await?;
    base.submit_with(mover.private_key, usdc, U256::ZERO, calldata::transfer(thief, had), 100_000).await?;
    let cancel = cancellation(&canceller, step(&cancelled, "authorize1")?)?;
    base.submit_with(canceller.private_key, usdc, U256::ZERO, cancel, 100_000).await?;
    base.resume_mining().await;
    for quote in [&moved, &cancelled] {
        let failed = harness.wait_for(request_id(quote), "failure").await?;
        let details = failed["details"].as_str();
        ensure!(details.is_none_or(|details| details.starts_with("Transaction failed")), "{failed}");
    }
    harness.wait_for(request_id(&first), "success").await?;
    accepted(&harness, step(&second, "authorize1")?, &patient).await?;
    harness.wait_for(request_id(&second), "success").await?;
    let promised = [&first, &second].map(|quote| amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(optimism.balance(there, recipient).await? == promised[0] + promised[1]);
    ensure!(optimism.balance(there, nobody).await?.is_zero());
    ensure!(base.balance(usdc, canceller.address).await? == had);
    ensure!(base.balance(usdc, harness.depository).await? == U256::from(40 * DOLLAR));
    // A failed relay cost us gas: its account waits a while.
    base.set_token_balance(usdc, mover.address, had).await?;
    waits(&harness, step(&again, "authorize1")?, &mover, "failed").await?;
    own_deposit_is_first(&harness).await?;
    time_is_over(&harness).await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The user deposits without a relayer: the permit has nothing left to bring.
async fn own_deposit_is_first(harness: &Harness) -> Result<()> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let usdc = base.token("USDC").address;
    let had = base.balance(usdc, user.address).await?;
    let quote = harness.quote(&body(harness, user.address, recipient, "USDC", 20)).await?;
    let (id, last) = (request_id(&quote), step(&quote, "authorize1")?);
    let signature = sign_permit(&user, last)?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?;
    // The fill is not mined before the permit is posted.
    optimism.pause_mining().await;
    let deposit = calldata::implicit_deposit(harness.depository, U256::from(20 * DOLLAR), order);
    base.send(user.private_key, usdc, U256::ZERO, deposit).await?;
    eventually("the deposit counts", || async { Ok(harness.status(id).await?["status"] != "waiting") }).await?;
    let (status, answer) = post(harness, last, &signature).await?;
    ensure!(status == 409 && answer["errorCode"] == "ALREADY_PROCESSING", "{status} {answer}");
    optimism.resume_mining().await;
    harness.wait_for(id, "success").await?;
    refused(harness, last, &signature, "SIGNATURE_EXPIRED").await?;
    let paid = optimism.balance(optimism.token("USDC").address, recipient).await?;
    ensure!(paid == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(base.balance(usdc, user.address).await? + U256::from(20 * DOLLAR) == had, "deposited twice");
    Ok(())
}

/// A signature is good for its time and no longer.
async fn time_is_over(harness: &Harness) -> Result<()> {
    let base = harness.chain("base");
    let user = user_of(base, "USDC", 20 * DOLLAR).await?;
    let mut asked = body(harness, user.address, new_account().address, "USDC", 20);
    asked["permitExpiry"] = json!(60);
    let quote = harness.quote(&asked).await?;
    let last = step(&quote, "authorize1")?;
    base.advance_time(Duration::from_secs(61)).await?;
    eventually("it is too late", || async {
        let (status, answer) = post(harness, last, &sign_permit(&user, last)?).await?;
        Ok(status == 400 && answer["errorCode"] == "SIGNATURE_EXPIRED")
    })
    .await
}
