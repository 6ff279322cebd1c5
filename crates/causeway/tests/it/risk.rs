//! The risk of a reorg and its bounds: tiers of confirmations, the budget, deposits that stay away.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::config::{Config, TierConfig};
use serde_json::Value;

use crate::harness::{
    Engine, Harness, ask, blocks_pass, eventually, execute, new_account, operator, request_id, take_away,
};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;

fn usdc(dollars: u64) -> U256 {
    U256::from(dollars * 1_000_000)
}

/// The more a deposit is worth, the more blocks must stand on it.
#[tokio::test]
async fn a_large_deposit_waits_longer_than_a_small_one() -> Result<()> {
    let change = |config: &mut Config| {
        let tier = TierConfig { from_usd: "1000".to_owned(), confirmations: 8 };
        config.chains.iter_mut().for_each(|chain| chain.tiers = vec![tier.clone()]);
    };
    let harness = Harness::with(Engine::Sqlite, change).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let user = base.fresh_user().await?;
    let quote = |value| {
        let body = ask(user.address, new_account().address, (BASE, here), (OPTIMISM, there), value);
        let harness = &harness;
        async move { harness.quote(&body).await }
    };
    let (large, small) = (quote(usdc(2_000)).await?, quote(usdc(20)).await?);
    let estimate = |quote: &Value| quote["details"]["timeEstimate"].as_u64().unwrap_or_default();
    ensure!(estimate(&large) > estimate(&small), "the wait is part of the estimate");
    let deposited = base.receipt(execute(base, &large, &user).await?).await?.block_number.unwrap_or_default();
    execute(base, &small, &user).await?;
    harness.wait_for(request_id(&small), "success").await?;
    // The trace of a waiting deposit names its block.
    let (code, trace) = operator(&harness, &format!("/requests/{}/trace", request_id(&large))).await?;
    ensure!(code == 200 && trace["deposits"][0]["confirmedAt"] == deposited + 7, "{trace}");
    harness.wait_for(request_id(&large), "success").await?;
    ensure!(base.block_number().await? >= deposited + 7, "filled before its confirmations");
    service.stop().await
}

/// A payment that does not fit under the budget waits until earlier deposits are final, and its trace says so.
#[tokio::test]
async fn payments_against_young_deposits_are_bounded() -> Result<()> {
    let change = |config: &mut Config| {
        for chain in &mut config.chains {
            chain.risk.open_usd = "100".to_owned();
            // Half a minute: the first deposit is not final before the second is looked at, however slow the machine.
            chain.finality_blocks = 150;
        }
    };
    let harness = Harness::with(Engine::Postgres, change).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let user = base.fresh_user().await?;
    let mut quotes = Vec::new();
    for _ in 0..2 {
        let body = ask(user.address, new_account().address, (BASE, here), (OPTIMISM, there), usdc(60));
        let quote = harness.quote(&body).await?;
        execute(base, &quote, &user).await?;
        quotes.push(quote);
    }
    harness.wait_for(request_id(&quotes[0]), "success").await?;
    let trace = format!("/requests/{}/trace", request_id(&quotes[1]));
    eventually("the second waits for the budget", || async {
        let (_, trace) = operator(&harness, &trace).await?;
        Ok(trace["due"][0]["reason"].as_str().is_some_and(|reason| reason.contains("not final")))
    })
    .await?;
    let (_, risk) = operator(&harness, "/operator/risk").await?;
    let chain = risk["chains"].as_array().and_then(|chains| chains.iter().find(|chain| chain["chainId"] == BASE));
    ensure!(chain.is_some_and(|chain| chain["openUsd"] == "60.000000"), "{risk}");
    ensure!(harness.get("/operator/risk").await?.0 == 401, "not for everyone");
    // The first deposit becomes final, and the second fits.
    harness.wait_for(request_id(&quotes[1]), "success").await?;
    service.stop().await
}

/// A deposit that a reorg removes before it is filled, and that stays away, fails its request.
#[tokio::test]
async fn a_deposit_that_stays_away_fails_its_request() -> Result<()> {
    let change = |config: &mut Config| {
        for chain in &mut config.chains {
            // Long enough to be taken away before it counts: the chain stands still meanwhile.
            chain.confirmations = 40;
            chain.finality_blocks = 60;
            chain.risk.lost_after_secs = 1;
        }
    };
    let harness = Harness::isolated(change).await?;
    let service = harness.serve().await?;
    let arbitrum = harness.chain("arbitrum");
    let user = arbitrum.fresh_user().await?;
    blocks_pass(arbitrum, 2).await?;
    let body = ask(
        user.address,
        new_account().address,
        (ARBITRUM, Address::ZERO),
        (BASE, Address::ZERO),
        U256::from(10u64.pow(16)),
    );
    let quote = harness.quote(&body).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    arbitrum.pause_mining().await;
    let trace = format!("/requests/{}/trace", request_id(&quote));
    eventually("the deposit is seen", || async {
        Ok(operator(&harness, &trace).await?.1["deposits"][0]["state"] == "seen")
    })
    .await?;
    take_away(arbitrum, deposit).await?;
    let status = harness.wait_for(request_id(&quote), "failure").await?;
    ensure!(status["failReason"] == "DEPOSIT_REORGED", "{status}");
    service.stop().await
}

/// A fill that the chain does not take before its order ends is given up: its nonce is used for nothing, which is proof
/// that it will never pay, and the deposit goes back.
#[tokio::test]
async fn a_fill_that_is_not_mined_in_time_is_given_up() -> Result<()> {
    let change = |config: &mut Config| {
        config.fees.order_lifetime_secs = 660;
        for chain in &mut config.chains {
            chain.bump_after_millis = Some(600_000);
            chain.finality_blocks = 4;
        }
    };
    let harness = Harness::isolated(change).await?;
    let service = harness.serve().await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(10u64.pow(16));
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
    let quote = harness.quote(&body).await?;
    arbitrum.pause_mining().await;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "submitted").await?;
    let left = base.balance(Address::ZERO, user.address).await?;
    // From here on blocks are too dear for the fill's bid, and the order is about to end.
    arbitrum.set_base_fee(20_000_000_000);
    arbitrum.resume_mining().await;
    arbitrum.advance_time(std::time::Duration::from_secs(420)).await?;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "TRANSACTION_NOT_INCLUDED", "{status}");
    ensure!(base.balance(Address::ZERO, user.address).await? > left);
    ensure!(arbitrum.balance(Address::ZERO, recipient).await?.is_zero());
    service.stop().await
}

/// Test deployments refund a transfer on request, so that integrators can try a refund.
#[tokio::test]
async fn a_refund_can_be_asked_for() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let mut body = ask(user.address, recipient, (BASE, here), (OPTIMISM, there), usdc(20));
    body["referrer"] = serde_json::json!("debug-force-refund");
    let quote = harness.quote(&body).await?;
    let had = base.balance(here, user.address).await?;
    execute(base, &quote, &user).await?;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "MANUAL_ADMIN_REFUND", "{status}");
    ensure!(optimism.balance(there, recipient).await?.is_zero());
    let back = base.balance(here, user.address).await?;
    ensure!(back < had && back > had - usdc(1), "{back} of {had}");
    service.stop().await
}
