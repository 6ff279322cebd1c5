//! Reorgs: deposits and fills that leave the chain, return to it, or stay away.

use std::time::Duration;

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::config::{Config, EndpointConfig, Text};
use devnet::FaultProxy;
use domain::ids::OrderId;
use evm::calldata;
use serde_json::Value;

use crate::audit::agrees;
use crate::harness::{
    Harness, amount, ask, blocks_pass, creeping, eventually, execute, in_order, new_account, operator, request_id,
    take_away,
};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;

/// Blocks that can be replaced for long enough to do so, however slow the machine.
fn late_finality(config: &mut Config) {
    config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 100);
}

/// The fill's block is replaced by one without it: the same payment goes out again, and only it.
#[tokio::test]
async fn a_fill_that_a_reorg_removes_is_sent_again() -> Result<()> {
    let harness = Harness::isolated(late_finality).await?;
    let service = harness.serve().await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(15_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value)).await?;
    execute(base, &quote, &user).await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    take_away(arbitrum, status["txHashes"][0].as_str().unwrap().parse()?).await?;
    eventually("the recipient is paid again", || async {
        Ok(arbitrum.balance(Address::ZERO, recipient).await? == promised)
    })
    .await?;
    harness.let_pass(arbitrum, 5).await?;
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == promised);
    ensure!(harness.status(request_id(&quote)).await?["status"] == "success");
    service.stop().await
}

/// The deposit's block is replaced after the fill: the request stays done, and the deposit that lands again is the same
/// one, not a second.
#[tokio::test]
async fn a_deposit_that_lands_again_after_its_fill_is_adopted() -> Result<()> {
    let harness = Harness::isolated(late_finality).await?;
    let service = harness.serve().await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    // A reorg takes back the funds given in the blocks it removes.
    blocks_pass(arbitrum, 2).await?;
    let value = U256::from(15_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value)).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    let raw: alloy::primitives::Bytes = arbitrum.rpc("eth_getRawTransactionByHash", [deposit]).await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    ensure!(status["inTxHashes"][0] == deposit.to_string());
    take_away(arbitrum, deposit).await?;
    let _: alloy::primitives::B256 = arbitrum.rpc("eth_sendRawTransaction", [raw]).await?;
    arbitrum.receipt(deposit).await?;
    eventually("the deposit is known again", || async {
        Ok(harness.status(request_id(&quote)).await?["inTxHashes"][0] == deposit.to_string())
    })
    .await?;
    harness.let_pass(base, 5).await?;
    ensure!(base.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(harness.status(request_id(&quote)).await?["status"] == "success");
    service.stop().await
}

/// A node that serves another chain, and is faster than the two honest ones, neither stops ours nor leads us onto its
/// own.
#[tokio::test]
async fn a_node_on_another_chain_does_not_stop_ours() -> Result<()> {
    let mut harness = Harness::isolated(|_| ()).await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let start = || FaultProxy::start(arbitrum.rpc_url.clone(), arbitrum.ws_url.clone());
    let honest = [start().await?, start().await?];
    let chain = harness.config.chains.iter_mut().find(|chain| chain.id == ARBITRUM).unwrap();
    let plain = |url: &url::Url| Text::Plain(url.to_string());
    let endpoint = |it: &FaultProxy| EndpointConfig { http: plain(&it.rpc_url), ws: Some(plain(&it.ws_url)) };
    chain.endpoints[0] = endpoint(&honest[0]);
    chain.endpoints.push(endpoint(&honest[1]));
    harness.serve().await?.stop().await?;
    // The faulty node answers first from now on.
    for node in &honest {
        node.faults.update(|fault| fault.delay = Duration::from_millis(50));
    }
    arbitrum.faults.update(|fault| fault.wrong_block_hash = true);
    let service = harness.serve().await?;
    blocks_pass(arbitrum, 6).await?;

    let value = U256::from(15_000_000_000_000_000u64);
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    let quote =
        harness.quote(&ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value)).await?;
    execute(arbitrum, &quote, &user).await?;
    // The chain stops, so that the service catches up on a slow machine too.
    arbitrum.pause_mining().await;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(base.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    let (_, lives) = harness.get("/lives").await?;
    let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
    ensure!(chains.iter().all(|chain| chain["refusing"].is_null()), "{lives}");
    service.stop().await
}

/// A chain that reorgs below its finality is not paid on until a person has looked.
#[tokio::test]
async fn a_reorg_deeper_than_finality_stops_the_chain() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let arbitrum = harness.chain("arbitrum");
    let finality = harness.config.chains.iter().find(|chain| chain.id == ARBITRUM).unwrap().finality_blocks;
    // Blocks that too few nodes had are no part of finality, and there may be eight of them.
    let depth = finality + 10;
    blocks_pass(arbitrum, depth + 1).await?;
    harness.reorg_walked(arbitrum, depth).await?;
    let refused = eventually("the chain is refused", || async {
        let (_, lives) = harness.get("/lives").await?;
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        let refused =
            |chain: &serde_json::Value| chain["refusing"].as_str().is_some_and(|why| why.contains("took back"));
        Ok(chains.iter().any(|chain| chain["id"] == ARBITRUM && refused(chain)))
    });
    if let Err(error) = refused.await {
        anyhow::bail!("{error}, at block {}: {}", arbitrum.block_number().await?, harness.get("/lives").await?.1);
    }
    let user = new_account().address;
    let body = ask(user, user, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), U256::from(10u64.pow(16)));
    let (code, answer) = harness.post("/quote/v2", &body).await?;
    ensure!(code == 400 && answer["errorCode"] == "CHAIN_DISABLED", "{code} {answer}");
    service.stop().await
}

/// Orders that end soon, on chains whose blocks can be replaced for long enough to take a deposit back after its fill:
/// the deposit's chain stands still meanwhile.
pub fn ends_before_it_is_final(config: &mut Config) {
    config.fees.order_lifetime_secs = 900;
    config.limits.market_max_age_secs = 600;
    for chain in &mut config.chains {
        chain.finality_blocks = 30;
    }
}

/// The deposit's block is replaced after the fill, and the deposit stays away until its order has ended for good: that
/// is a loss, and no longer a risk. Too small a deposit does not make it good; nine tenths of it, from anybody, do.
#[tokio::test]
async fn a_deposit_that_stays_away_after_its_fill_is_a_loss() -> Result<()> {
    let harness = Harness::isolated(ends_before_it_is_final).await?;
    let service = harness.serve().await?;
    let arbitrum = harness.chain("arbitrum");
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    blocks_pass(arbitrum, 2).await?;
    let value = U256::from(15_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value);
    let quote = harness.quote(&body).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    creeping(arbitrum, harness.wait_for(request_id(&quote), "success")).await?;
    take_away(arbitrum, deposit).await?;

    let harness = &harness;
    let loss = || async { anyhow::Ok(operator(harness, "/operator/losses").await?.1) };
    let is = |state: &'static str| async move {
        Ok(operator(harness, "/operator/losses").await?.1["losses"][0]["state"] == state)
    };
    let at_risk = || async {
        let (_, risk) = operator(harness, "/operator/risk").await?;
        let chains = risk["chains"].as_array().cloned().unwrap_or_default();
        let chain = chains.into_iter().find(|chain| chain["chainId"] == ARBITRUM).unwrap_or_default();
        anyhow::Ok(chain["openUsd"].as_str().unwrap_or_default().to_owned())
    };
    eventually("the deposit is missed", || is("missing")).await?;
    let missing = loss().await?;
    ensure!(missing["losses"][0]["amount"] == value.to_string() && missing["bookedUsd"] == "0.000000", "{missing}");
    ensure!(at_risk().await? == missing["missingUsd"].as_str().unwrap_or_default(), "{missing}");

    // A tenth too little is somebody's mistake, and goes back.
    let order: OrderId = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let part = |percent: u64| value * U256::from(percent) / U256::from(100);
    let (little, enough) = (part(89), part(91));
    let deposits = async |who: &devnet::Account, value| {
        arbitrum.send(who.private_key, harness.depository, value, calldata::deposit_native(who.address, order)).await
    };
    deposits(&user, little).await?;

    arbitrum.advance_time(std::time::Duration::from_secs(1_000)).await?;
    harness.finalise(arbitrum).await?;
    eventually("the loss is booked", || is("booked")).await?;
    let booked = loss().await?;
    ensure!(booked["missingUsd"] == "0.000000" && booked["bookedUsd"] == missing["missingUsd"], "{booked}");
    ensure!(at_risk().await? == "0.000000", "what is lost is no longer at risk");
    ensure!(harness.status(request_id(&quote)).await?["status"] == "success");
    let findings = agrees(harness).await?;
    ensure!(findings.to_string().contains("is a loss"), "{findings}");

    deposits(&arbitrum.fresh_user().await?, enough).await?;
    eventually("the loss is reversed", || is("recovered")).await?;
    ensure!(loss().await?["bookedUsd"] == "0.000000");
    let trace = harness.trace(request_id(&quote)).await?;
    ensure!(in_order(&trace, &["deposit-missing", "loss-booked", "loss-reversed"]), "{trace}");
    ensure!(trace["loss"]["state"] == "recovered", "{trace}");
    // The larger deposit is kept, and the smaller one is returned to the depositor it names.
    harness.finalise(arbitrum).await?;
    eventually("only the order's deposit stays", || async {
        let children = children(&harness.trace(request_id(&quote)).await?);
        Ok(arbitrum.balance(Address::ZERO, harness.depository).await? == enough + little
            && children.len() == 1
            && harness.status(&children[0]).await?["status"] == "refund")
    })
    .await?;
    service.stop().await
}

fn children(trace: &Value) -> Vec<String> {
    trace["children"].as_array().into_iter().flatten().filter_map(|id| Some(id.as_str()?.to_owned())).collect()
}
