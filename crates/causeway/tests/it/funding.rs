//! App balances are funded by transfers that name an account.

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Context, Result, ensure};
use causeway::local::OPERATOR_TOKEN;
use evm::account_tag::tag;
use evm::calldata::erc20_fill;
use serde_json::Value;

use crate::harness::{Engine, Harness, blocks_pass, eventually, new_account};

const USDC: u64 = 25_000_000;

/// The calldata of a transfer to the treasury that names an account.
pub fn tagged(harness: &Harness, amount: u64, account: Address) -> Bytes {
    erc20_fill(harness.treasury.address, U256::from(amount), tag(account))
}

pub async fn balance(harness: &Harness, account: Address) -> Result<Value> {
    let (code, body) = harness.get(&format!("/app-fees/{account:#x}/balances")).await?;
    ensure!(code == 200, "{body}");
    Ok(body)
}

pub async fn credited(harness: &Harness, account: Address, amount: &str) -> Result<Value> {
    let is_so = || async { Ok(balance(harness, account).await?["amount"] == amount) };
    let waited = eventually("the balance is credited", is_so).await;
    let body = balance(harness, account).await?;
    waited.with_context(|| format!("{account} should have {amount} and has {}", body["amount"]))?;
    Ok(body)
}

/// The currency, the address and the end of the calldata by which an account is funded, as its balance names them.
async fn asked_for(harness: &Harness, account: Address) -> Result<(Address, Address, B256)> {
    let body = balance(harness, account).await?;
    let funding = &body["funding"];
    ensure!(funding["chainId"] == 8453 && funding["symbol"] == "USDC", "{body}");
    let text = |name: &'static str| funding[name].as_str().context(name);
    Ok((text("currency")?.parse()?, text("address")?.parse()?, text("calldataSuffix")?.parse()?))
}

#[tokio::test]
async fn every_form_is_credited_or_shown_to_the_operator() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let (named, native) = (new_account().address, new_account().address);
    let send = |to: Address, value: u64, data: Bytes| base.send(user.private_key, to, U256::from(value), data);
    ensure!(balance(&harness, named).await?["amount"] == "0", "an account nobody knows has nothing");
    let (currency, treasury, suffix) = asked_for(&harness, named).await?;
    send(currency, 0, erc20_fill(treasury, U256::from(USDC), suffix)).await?;
    send(usdc, 0, tagged(&harness, 7, Address::ZERO)).await?;
    let ether = 10u64.pow(16);
    let (_, treasury, suffix) = asked_for(&harness, native).await?;
    send(treasury, ether, suffix.to_vec().into()).await?;
    let plain = send(usdc, 0, tagged(&harness, 3, named)[..68].to_vec().into()).await?.transaction_hash;
    let elsewhere = harness.chain("arbitrum");
    elsewhere.fund(user.address).await?;
    let other = elsewhere.token("USDC").address;
    let other = elsewhere.send(user.private_key, other, U256::ZERO, tagged(&harness, 9, named)).await?.transaction_hash;

    let body = credited(&harness, named, "25000000").await?;
    ensure!(body["amountFormatted"] == "25.0" && body["amountUsd"] == "25.000000", "{body}");
    ensure!(body["currency"]["symbol"] == "USDC" && body["currency"]["chainId"] == 8453, "{body}");
    ensure!(body["balances"][0]["amount"] == "25000000" && body["balances"].as_array().unwrap().len() == 1, "{body}");
    ensure!(body["totalBalanceUsd"] == 25.0 && body["availableBalanceUsd"] == 25.0, "{body}");
    ensure!(body["outstandingFastFillBalanceUsd"] == 0.0, "{body}");
    credited(&harness, user.address, "7").await?;
    // A hundredth of an ether at three thousand dollars, as if it had been exchanged, which costs a little.
    eventually("the native transfer is credited", || async {
        let credited: u64 = balance(&harness, native).await?["amount"].as_str().unwrap_or_default().parse()?;
        ensure!(credited < 30_000_000, "{credited} is the bare price of the feed");
        Ok(credited > 29_700_000)
    })
    .await?;
    eventually("what is nobody's is shown", || async {
        let unattributed = receipts(&harness).await?;
        let reason = |hash: B256| unattributed.iter().find(|it| it["txHash"] == hash.to_string());
        let reason = |hash| reason(hash).map(|it| it["reason"].as_str().unwrap_or_default().to_owned());
        Ok(reason(plain).as_deref() == Some("form") && reason(other).as_deref() == Some("other-chain"))
    })
    .await?;
    ensure!(receipts(&harness).await?.len() == 2);
    ensure!(harness.get("/app-fees/0x12/balances").await?.0 == 400);
    ensure!(harness.get("/operator/receipts").await?.0 == 401);
    service.stop().await
}

async fn receipts(harness: &Harness) -> Result<Vec<Value>> {
    let request = harness.client.get(harness.url("/operator/receipts")).bearer_auth(OPERATOR_TOKEN);
    let body: Value = request.send().await?.json().await?;
    Ok(body["receipts"].as_array().cloned().unwrap_or_default())
}

/// A transfer is credited when its block is final and not before; one that a reorg removes never was.
#[tokio::test]
async fn nothing_is_credited_before_it_is_final() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let (user, account) = (base.fresh_user().await?, new_account().address);
    blocks_pass(base, 2).await?;
    // The chain moves by hand, so that nothing becomes final before it is looked at.
    base.pause_mining().await;
    let sent = async |units| {
        let hash = base.submit(user.private_key, usdc, U256::ZERO, tagged(&harness, units, account)).await?;
        base.mine(1).await?;
        base.receipt(hash).await?.block_number.context("a block")
    };
    let removed = sent(USDC).await?;
    harness.walked(base).await?;
    base.reorg(base.block_number().await? - removed + 1, &[]).await?;
    let kept = sent(1_000).await?;
    let finality = harness.config.chains.iter().find(|chain| chain.name == "base").unwrap().finality_blocks;
    let last = kept + finality - 1;
    base.mine(last - base.block_number().await?).await?;
    eventually("the last block before finality is applied", || async {
        let (_, lives) = harness.get("/lives").await?;
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        Ok(chains.iter().any(|chain| chain["id"] == 8453 && chain["block"] == last))
    })
    .await?;
    ensure!(balance(&harness, account).await?["amount"] == "0");
    base.resume_mining().await;
    credited(&harness, account, "1000").await?;
    harness.let_pass(base, finality + 2).await?;
    ensure!(balance(&harness, account).await?["amount"] == "1000", "and once");
    service.stop().await
}
