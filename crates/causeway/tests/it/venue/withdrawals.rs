//! Withdrawals from the venue: a transfer with the order in its memo becomes a fill on a chain, or goes back.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use devnet::{Devnet, NewAccount};
use domain::venue::{AccountIndex, TxStatus};
use serde_json::json;

use super::{FEE, OPTIMISM, Stage, USER, VENUE};
use crate::harness::{Engine, amount, eventually, new_account, request_id};
use crate::lying_nodes::{configured, endpoint};

#[tokio::test]
async fn a_withdrawal_arrives_to_the_unit() -> Result<()> {
    withdrawal(Engine::Sqlite).await
}

#[tokio::test]
async fn a_withdrawal_arrives_to_the_unit_on_postgres() -> Result<()> {
    withdrawal(Engine::Postgres).await
}

async fn withdrawal(engine: Engine) -> Result<()> {
    let stage = Stage::new(engine).await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let quote = stage.harness.quote(&stage.withdrawal(75_000_000, &recipient.to_string())).await?;
    let parameters = &quote["steps"][0]["items"][0]["data"]["action"]["parameters"];
    let expected = json!({
        "toAccountIndex": 722_011, "assetIndex": 3, "fromRouteType": 0, "toRouteType": 0, "amount": 75_000_000,
        "usdcFee": FEE, "memo": request_id(&quote),
    });
    ensure!(*parameters == expected, "{parameters}");
    let protocol = &quote["protocol"]["v2"];
    ensure!(protocol["orderId"] == request_id(&quote), "one id for everything: {protocol}");
    ensure!(protocol["paymentDetails"]["depository"] == "722011", "{}", protocol["paymentDetails"]);
    ensure!(protocol["orderData"]["inputs"][0]["refunds"].as_array().map(Vec::len) == Some(1), "{protocol}");
    ensure!(quote["fees"]["gas"]["amount"] == "3000000", "{}", quote["fees"]["gas"]);
    ensure!(quote["steps"][0]["depositAddress"] == "" && quote["steps"][0]["items"][0]["check"].is_object());

    let digest = stage.withdraw(&quote).await?;
    let hint = json!({"chainId": VENUE.to_string(), "txHash": digest.to_string(), "requestId": request_id(&quote)});
    ensure!(stage.harness.post("/transactions/index", &hint).await?.0 == 200);
    let status = stage.harness.wait_for(request_id(&quote), "success").await?;
    ensure!(status["inTxHashes"] == json!([digest.to_string()]), "{status}");
    let trace = stage.harness.trace(request_id(&quote)).await?;
    ensure!(trace["deposits"][0]["txHash"] == digest.to_string() && trace["deposits"][0]["currency"] == "0", "{trace}");
    ensure!(trace["payments"][0]["txHash"] == status["txHashes"][0], "{trace}");
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(stage.balance(&stage.user)? == theirs - 75_000_000 - FEE);
    ensure!(stage.balance(&stage.solver)? == ours + 75_000_000);
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]), "twice");
    service.stop().await
}

/// Lists that repeat every line and run in disorder show the same transfers.
#[tokio::test]
async fn a_transfer_that_is_listed_twice_is_taken_in_once() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    stage.simulator.faults.update(|fault| (fault.duplicate, fault.reorder) = (true, true));
    let quote = stage.harness.quote(&stage.withdrawal(20_000_000, &recipient.to_string())).await?;
    stage.withdraw(&quote).await?;
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// The venue lists nothing, however long one waits: the hash that the client named is enough.
#[tokio::test]
async fn a_transfer_that_is_not_listed_is_found_by_its_hash() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    stage.simulator.faults.update(|fault| fault.unlisted = true);
    let quote = stage.harness.quote(&stage.withdrawal(20_000_000, &recipient.to_string())).await?;
    let digest = stage.withdraw(&quote).await?;
    let hint = json!({"chainId": VENUE.to_string(), "txHash": digest.to_string(), "requestId": request_id(&quote)});
    ensure!(stage.harness.post("/transactions/index", &hint).await?.0 == 200);
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.simulator.faults.clear();
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// The venue keeps a transfer queued for longer than the walk reads back, and then lists it under the time of its
/// queueing, where the walk has long been: the slow walk finds it, though nobody named its hash.
#[tokio::test]
async fn a_transfer_that_is_listed_behind_the_walk_is_found() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            (venue.overlap_secs, venue.rescan_secs) = (1, 1);
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    stage.simulator.faults.update(|fault| fault.stuck = true);
    let quote = stage.harness.quote(&stage.withdrawal(20_000_000, &recipient.to_string())).await?;
    stage.withdraw(&quote).await?;
    // More seconds than the walk reads back.
    stage.rounds_pass().await?;
    ensure!(stage.harness.status(request_id(&quote)).await?["status"] == "waiting");
    stage.simulator.faults.clear();
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]), "twice");
    service.stop().await
}

/// The venue shows a transfer as executed, then not at all, then as failed: nothing is paid for it until two looks
/// agree.
#[tokio::test]
async fn a_transfer_whose_status_flickers_waits_until_it_stands() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    let quote = stage.harness.quote(&stage.withdrawal(20_000_000, &recipient.to_string())).await?;
    stage.simulator.faults.update(|fault| fault.flicker = true);
    let (theirs, digest) = (stage.balance(&stage.user)?, stage.withdraw(&quote).await?);
    let executed = || async { Ok(stage.simulator.status(digest)? == Some(TxStatus::Executed)) };
    eventually("the transfer is executed", executed).await?;
    let looked = stage.simulator.looks(digest);
    eventually("it is looked at again and again", || async { Ok(stage.simulator.looks(digest) > looked + 6) }).await?;
    ensure!(stage.harness.status(request_id(&quote)).await?["status"] == "waiting");
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled on a word that changes");
    stage.simulator.faults.clear();
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]), "twice");
    ensure!(stage.balance(&stage.user)? == theirs - 20_000_000 - FEE, "sent back as well");
    service.stop().await
}

/// A withdrawal that cannot be filled goes back on the venue, less the venue's fee for sending it.
#[tokio::test]
async fn a_withdrawal_is_refunded_on_the_venue_less_the_fee() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, true, |_| ()).await?;
    let service = stage.harness.serve().await?;
    let theirs = stage.balance(&stage.user)?;
    let mut body = stage.withdrawal(20_000_000, &new_account().address.to_string());
    body["referrer"] = json!("debug-force-refund");
    let quote = stage.harness.quote(&body).await?;
    stage.withdraw(&quote).await?;
    let status = stage.harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["txHashes"][0].as_str().is_some_and(|hash| hash.len() == 80), "{status}");
    stage.user_has(theirs - 2 * FEE).await?;

    // Another account of the venue, if the quote names one.
    let index = AccountIndex::new(USER + 1)?;
    let other = NewAccount { index, wallet: new_account(), pays_fees: true, collateral: 0 };
    let other = stage.simulator.open(other)?;
    body["refundTo"] = json!(other.index.to_string());
    let quote = stage.harness.quote(&body).await?;
    stage.withdraw(&quote).await?;
    stage.harness.wait_for(request_id(&quote), "refund").await?;
    eventually("the other account has it", || async { Ok(stage.balance(&other)? == 20_000_000 - FEE) }).await?;
    ensure!(stage.balance(&stage.user)? == theirs - 3 * FEE - 20_000_000);
    service.stop().await
}

/// No node of the destination answers, and that stays so until the quote's time is over.
#[tokio::test]
async fn a_withdrawal_goes_back_on_the_venue_when_its_destination_stays_down() -> Result<()> {
    let optimism = Devnet::shared().await.chain("optimism");
    let nodes = [endpoint(optimism).await?, endpoint(optimism).await?];
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        config.limits.market_max_age_secs = 5;
        for chain in config.chains.iter_mut().filter(|chain| chain.id == OPTIMISM) {
            chain.endpoints = nodes.iter().map(configured).collect();
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let mut body = stage.withdrawal(20_000_000, &recipient.to_string());
    body["ttl"] = json!(10);
    let quote = stage.harness.quote(&body).await?;
    for node in &nodes {
        node.faults.update(|fault| fault.stall = true);
    }
    eventually("the destination is not quoted any more", || async {
        Ok(stage.harness.post("/quote/v2", &body).await?.0 != 200)
    })
    .await?;
    stage.withdraw(&quote).await?;
    let status = stage.harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "TTL_EXPIRED", "{status}");
    stage.user_has(theirs - FEE).await?;
    ensure!(stage.balance(&stage.solver)? == ours);
    for node in &nodes {
        node.faults.clear();
    }
    stage.harness.walked(optimism).await?;
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled as well");
    service.stop().await
}

#[tokio::test]
async fn a_refund_smaller_than_the_fee_is_none() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, true, |_| ()).await?;
    let service = stage.harness.serve().await?;
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let mut body = stage.withdrawal(2_500_000, &new_account().address.to_string());
    body["referrer"] = json!("debug-force-refund");
    let quote = stage.harness.quote(&body).await?;
    stage.withdraw(&quote).await?;
    let status = stage.harness.wait_for(request_id(&quote), "failure").await?;
    ensure!(status["refundFailReason"] == "AMOUNT_TOO_LOW_TO_REFUND", "{status}");
    ensure!(stage.balance(&stage.user)? == theirs - 2_500_000 - FEE);
    ensure!(stage.balance(&stage.solver)? == ours + 2_500_000);
    service.stop().await
}

/// The venue's word costs no more than its cap until a transfer is final: the withdrawal beyond it waits, and says why.
#[tokio::test]
async fn the_word_of_the_venue_has_a_cap() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            (venue.finality_secs, venue.risk.open_usd) = (3_600, "30".to_owned());
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
    let body = stage.withdrawal(20_000_000, &recipient.to_string());
    let [first, second] = [stage.harness.quote(&body).await?, stage.harness.quote(&body).await?];
    stage.withdraw(&first).await?;
    stage.harness.wait_for(request_id(&first), "success").await?;
    stage.withdraw(&second).await?;
    eventually("the second waits for the cap", || async {
        let trace = stage.harness.trace(request_id(&second)).await?;
        Ok(trace["due"][0]["reason"].as_str().is_some_and(|reason| reason.contains("not final")))
    })
    .await?;
    stage.rounds_pass().await?;
    ensure!(optimism.balance(usdc, recipient).await? == amount(&first["details"]["currencyOut"]["amount"]));
    service.stop().await
}

/// A withdrawal goes to any currency of a chain: ether is exchanged.
#[tokio::test]
async fn a_withdrawal_may_arrive_as_ether() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let optimism = stage.harness.chain("optimism");
    let recipient = new_account().address;
    let mut body = stage.withdrawal(40_000_000, &recipient.to_string());
    body["destinationCurrency"] = json!("0x0000000000000000000000000000000000000000");
    let quote = stage.harness.quote(&body).await?;
    stage.withdraw(&quote).await?;
    stage.harness.wait_for(request_id(&quote), "success").await?;
    let arrived = optimism.balance(alloy::primitives::Address::ZERO, recipient).await?;
    ensure!(arrived == amount(&quote["details"]["currencyOut"]["amount"]) && arrived > U256::ZERO);
    service.stop().await
}
