//! Transfers into the account that pay for no order: each goes back, for its own reason.

use alloy::primitives::B256;
use anyhow::{Result, ensure};
use domain::venue::{AccountIndex, Asset, Route, TxStatus};
use serde_json::Value;
use venue::Transfer;

use super::{FEE, Stage};
use crate::fast_fill::count;
use crate::harness::{Engine, eventually, new_account, request_id};

/// The child of a request that was returned for this reason.
async fn child(stage: &Stage, request: &str, reason: &str) -> Result<()> {
    eventually(&format!("a transfer goes back for {reason}"), || async {
        let status = stage.harness.status(request).await?;
        let returns = status["returns"].as_array().cloned().unwrap_or_default();
        Ok(returns.iter().any(|it: &Value| it["failReason"] == reason && it["status"] == "refund"))
    })
    .await
}

#[tokio::test]
async fn transfers_that_pay_for_no_order_go_back() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let had = stage.balance(&stage.user)?;
    // An unknown memo, a remark, and no memo at all: orphans.
    for memo in [B256::repeat_byte(0xab), B256::right_padding_from(b"thanks"), B256::ZERO] {
        stage.send(stage.transfer(5_000_000, memo)?).await?;
    }
    stage.user_has(had - 3 * FEE).await?;
    let orphans = "select count(*) from deposit where chain_id = 3586256 and refused = 'ORPHANED_DEPOSIT_REFUND'";
    ensure!(count(&service, orphans).await? == 3);
    let ours = stage.balance(&stage.solver)?;

    // The order's own transfer, and a second one under the same memo.
    let quote = stage.harness.quote(&stage.withdrawal(30_000_000, &new_account().address.to_string())).await?;
    stage.withdraw(&quote).await?;
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.withdraw(&quote).await?;
    child(&stage, request_id(&quote), "DOUBLE_SPEND").await?;
    ensure!(stage.balance(&stage.solver)? == ours + 30_000_000);
    stage.user_has(had - 5 * FEE - 30_000_000).await?;

    // Less than anybody would send stays: our account is free of fees, and it would go to and fro for ever.
    let ours = stage.balance(&stage.solver)?;
    stage.send(stage.transfer(99_999, B256::ZERO)?).await?;
    stage.send(stage.transfer(100_000, B256::ZERO)?).await?;
    stage.user_has(had - 7 * FEE - 30_000_000 - 99_999).await?;
    ensure!(stage.balance(&stage.solver)? == ours + 99_999);
    service.stop().await
}

/// The venue shows a transfer, and does not show it any more when it is to become final: it is not sent back, and a
/// person is told.
#[tokio::test]
async fn a_transfer_that_the_venue_no_longer_shows_does_not_become_final() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            // Time enough to forget it, on a slow machine too.
            venue.finality_secs = 15;
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let quote = stage.harness.quote(&stage.withdrawal(30_000_000, &new_account().address.to_string())).await?;
    stage.withdraw(&quote).await?;
    stage.harness.wait_for(request_id(&quote), "success").await?;
    stage.withdraw(&quote).await?;
    eventually("the second transfer is recorded", || async {
        let status = stage.harness.status(request_id(&quote)).await?;
        Ok(status["returns"].as_array().is_some_and(|returns| returns.len() == 1))
    })
    .await?;
    let (theirs, ours) = (stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    stage.simulator.faults.update(|fault| fault.forget = true);
    eventually("somebody is told", || async {
        let (_, lives) = stage.harness.get("/lives").await?;
        let wrong = lives["report"]["wrong"].as_array().cloned().unwrap_or_default();
        Ok(wrong.iter().any(|it| it["name"] == "deposit-doubtful"))
    })
    .await?;
    stage.rounds_pass().await?;
    ensure!((stage.balance(&stage.user)?, stage.balance(&stage.solver)?) == (theirs, ours), "it was sent back");
    stage.simulator.faults.clear();
    service.stop().await
}

/// The venue rejects a return again and again: it is made once the venue takes it, and only once.
#[tokio::test]
async fn a_return_that_the_venue_rejects_is_tried_again() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let had = stage.balance(&stage.user)?;
    // The first start finds the place in the list from which transfers are read.
    let service = stage.harness.serve().await?;
    eventually("the venue is walked", || async { Ok(stage.rounds_pass().await.is_ok()) }).await?;
    service.stop().await?;
    let stray = stage.send(stage.transfer(5_000_000, B256::ZERO)?).await?;
    let executed = || async { Ok(stage.simulator.status(stray)? == Some(TxStatus::Executed)) };
    eventually("the transfer is executed", executed).await?;
    stage.simulator.faults.update(|fault| fault.fail_sends = true);
    let service = stage.harness.serve().await?;
    let ours = AccountIndex::new(stage.solver.index)?;
    eventually("the venue has rejected two returns", || async {
        Ok(stage.simulator.transfers()?.iter().filter(|it| it.transfer.from == ours).count() >= 2)
    })
    .await?;
    stage.simulator.faults.clear();
    stage.user_has(had - FEE).await?;
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.user)? == had - FEE, "it went back twice");
    service.stop().await
}

#[tokio::test]
async fn a_transfer_short_of_the_amount_goes_back() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let had = stage.balance(&stage.user)?;
    let quote = stage.harness.quote(&stage.withdrawal(30_000_000, &new_account().address.to_string())).await?;
    stage.send(stage.transfer(15_000_000, request_id(&quote).parse()?)?).await?;
    let status = stage.harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "{status}");
    stage.user_has(had - FEE).await?;
    service.stop().await
}

#[tokio::test]
async fn another_asset_or_route_goes_back_as_it_came() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let service = stage.harness.serve().await?;
    let user = AccountIndex::new(stage.user.index)?;
    stage.simulator.fund(user, Asset::ETH, Route::Spot, 500_000_000)?;
    stage.simulator.fund(user, Asset::USDC, Route::Spot, 9_000_000)?;
    let spot = |asset| stage.simulator.balance(user, asset, Route::Spot);
    let quote = stage.harness.quote(&stage.withdrawal(30_000_000, &new_account().address.to_string())).await?;
    let memo: B256 = request_id(&quote).parse()?;
    let on_spot = |asset, amount| -> Result<Transfer> {
        let transfer = stage.transfer(amount, memo)?;
        Ok(Transfer { asset, from_route: Route::Spot, to_route: Route::Spot, ..transfer })
    };
    stage.send(on_spot(Asset::USDC, 9_000_000)?).await?;
    child(&stage, request_id(&quote), "INCORRECT_DEPOSIT_CURRENCY").await?;
    eventually("USDC of the spot balance is back", || async { Ok(spot(Asset::USDC)? == 9_000_000) }).await?;
    stage.send(on_spot(Asset::ETH, 500_000_000)?).await?;
    eventually("ether is on its way", || async { Ok(spot(Asset::ETH)? == 0) }).await?;
    eventually("ether of the spot balance is back", || async { Ok(spot(Asset::ETH)? == 500_000_000) }).await?;
    // The order itself goes on without them.
    ensure!(stage.harness.status(request_id(&quote)).await?["status"] == "waiting");
    service.stop().await
}

/// The operator funds the account from one that is configured: such a transfer is nobody's deposit.
#[tokio::test]
async fn a_transfer_of_the_operator_stays() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            venue.sources = vec![super::USER];
        }
    })
    .await?;
    let service = stage.harness.serve().await?;
    let ours = stage.balance(&stage.solver)?;
    stage.send(stage.transfer(5_000_000, B256::ZERO)?).await?;
    stage.rounds_pass().await?;
    stage.rounds_pass().await?;
    ensure!(stage.balance(&stage.solver)? == ours + 5_000_000);
    service.stop().await
}
