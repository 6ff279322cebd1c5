//! Same-chain transactions are found on the chain, with or without a hint from a client.

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::harness::{
    Engine, Harness, amount, ask, blocks_pass, eventually, execute, new_account, request_id, take_away, transactions,
};
use crate::sponsorship::micros;

const BASE: u64 = 8453;

fn ether(thousandths: u64) -> U256 {
    U256::from(thousandths) * U256::from(10u64.pow(15))
}

#[tokio::test]
async fn a_same_chain_transaction_is_found() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (usdc, weth) = (base.token("USDC").address, base.token("WETH").address);
    let native = Address::ZERO;
    for (from, to, value, operation) in [
        (usdc, native, U256::from(40_000_000u64), "swap"),
        (native, usdc, ether(20), "swap"),
        (native, weth, ether(30), "wrap"),
        (native, native, ether(40), "send"),
        (usdc, usdc, U256::from(5_000_000u64), "send"),
    ] {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let quote = harness.quote(&ask(user.address, recipient, (BASE, from), (BASE, to), value)).await?;
        ensure!(quote["details"]["operation"] == operation, "{quote}");
        ensure!(quote.get("protocol").is_none(), "nothing is deposited");
        ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting");
        let hash = execute(base, &quote, &user).await?;
        let status = harness.wait_for(request_id(&quote), "success").await?;
        ensure!(status["inTxHashes"] == json!([hash]) && status["txHashes"] == json!([hash]), "{status}");
        ensure!(base.balance(to, recipient).await? >= amount(&quote["details"]["currencyOut"]["minimumAmount"]));
    }
    // The token itself unwraps for its owner.
    let user = base.fresh_user().await?;
    base.send(user.private_key, weth, ether(50), alloy::primitives::hex!("d0e30db0").into()).await?;
    let quote = harness.quote(&ask(user.address, user.address, (BASE, weth), (BASE, native), ether(50))).await?;
    ensure!(quote["details"]["operation"] == "unwrap" && transactions(&quote)?.len() == 1, "{quote}");
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(base.balance(weth, user.address).await?.is_zero());
    service.stop().await
}

async fn balance_of(harness: &Harness, app: Address) -> Result<u64> {
    let (code, body) = harness.get(&format!("/app-fees/{app:#x}/balances")).await?;
    ensure!(code == 200, "{body}");
    Ok(body["amount"].as_str().unwrap_or_default().parse()?)
}

/// App fees go to the treasury, and are credited to the apps once they are final: each payment, once.
#[tokio::test]
async fn apps_earn_by_same_chain_transactions() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (usdc, weth, tail) = (base.token("USDC").address, base.token("WETH").address, base.token("TAIL").address);
    let native = Address::ZERO;
    let [first, second, third, fourth] = [(); 4].map(|()| new_account().address);
    let user = base.fresh_user().await?;
    let with = |from, to, value, fees: Value| {
        let mut body = ask(user.address, user.address, (BASE, from), (BASE, to), value);
        body["appFees"] = fees;
        body
    };

    let fees = json!([{"recipient": first, "fee": "50"}, {"recipient": second, "fee": "25"}]);
    let swap = harness.quote(&with(usdc, native, U256::from(40_000_000u64), fees)).await?;
    execute(base, &swap, &user).await?;
    harness.wait_for(request_id(&swap), "success").await?;
    eventually("the apps have their shares", || async {
        Ok((balance_of(&harness, first).await?, balance_of(&harness, second).await?) == (200_000, 100_000))
    })
    .await?;

    // A transaction sent twice pays twice.
    let wrap = harness.quote(&with(native, weth, ether(100), json!([{"recipient": third, "fee": "100"}]))).await?;
    execute(base, &wrap, &user).await?;
    execute(base, &wrap, &user).await?;
    let worth = u64::try_from(micros(&wrap["fees"]["app"]["amountUsd"])?)?;
    // The fee is credited as if it had been exchanged, which costs a little.
    let earns = |times: u64| worth * times * 99 / 100..worth * times;
    eventually("the app has both", || async { Ok(earns(2).contains(&balance_of(&harness, third).await?)) }).await?;

    // A token that only pools price carries no app fee.
    let sold = harness.quote(&with(tail, usdc, ether(100_000), json!([{"recipient": fourth, "fee": "100"}]))).await?;
    ensure!(amount(&sold["fees"]["app"]["amount"]).is_zero(), "{}", sold["fees"]["app"]);
    service.stop().await?;
    let findings = agrees(&harness).await?;
    let checks = findings["checks"].as_array().cloned().unwrap_or_default();
    let booked = checks.iter().find(|check| check["check"].as_str().is_some_and(|what| what.contains("same-chain")));
    ensure!(booked.is_some_and(|check| check["compared"] == 4), "{findings}");
    Ok(())
}

/// A fee that a reorg removed was not paid, and one that comes back was paid once.
#[tokio::test]
async fn apps_earn_nothing_by_a_transaction_that_a_reorg_removed() -> Result<()> {
    // Finality is far enough away for a reorg to remove the transaction before it, on a slow machine too.
    let harness =
        Harness::isolated(|config| config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 120)).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let [gone, back] = [(); 2].map(|()| new_account().address);
    let user = base.fresh_user().await?;
    blocks_pass(base, 2).await?;
    let mut taken = Vec::new();
    for app in [gone, back] {
        let weth = base.token("WETH").address;
        let mut body = ask(user.address, user.address, (BASE, Address::ZERO), (BASE, weth), ether(100));
        body["appFees"] = json!([{"recipient": app, "fee": "100"}]);
        let wrap = harness.quote(&body).await?;
        taken.push(execute(base, &wrap, &user).await?);
        harness.wait_for(request_id(&wrap), "success").await?;
    }
    let again: Bytes = base.rpc("eth_getRawTransactionByHash", [taken[1]]).await?;
    let first: Bytes = base.rpc("eth_getRawTransactionByHash", [taken[0]]).await?;
    take_away(base, taken[0]).await?;
    // Its nonce is used by another transaction, so that it can never come back.
    base.send(user.private_key, new_account().address, U256::from(1), Bytes::new()).await?;
    ensure!(base.rpc::<B256>("eth_sendRawTransaction", [first]).await.is_err(), "its nonce is used");
    base.receipt(base.rpc::<B256>("eth_sendRawTransaction", [again]).await?).await?;
    harness.finalise(base).await?;
    eventually("what came back is credited", || async { Ok(balance_of(&harness, back).await? > 0) }).await?;
    let credited = balance_of(&harness, back).await?;
    harness.let_pass(base, 10).await?;
    ensure!((balance_of(&harness, gone).await?, balance_of(&harness, back).await?) == (0, credited));
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The user's own revert is a failure; a stranger's, or a transaction that only carries the id, is nothing.
#[tokio::test]
async fn only_the_quoted_transaction_counts() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let (user, stranger) = (base.fresh_user().await?, base.fresh_user().await?);
    let body = ask(user.address, user.address, (BASE, usdc), (BASE, Address::ZERO), U256::from(30_000_000u64));
    let quote = harness.quote(&body).await?;
    let (id, swap) = (request_id(&quote), transactions(&quote)?.pop().expect("a step"));

    // Without the approval before it, the swap reverts: for the stranger first.
    let send = async |key| base.submit_with(key, swap.to, swap.value, swap.data.clone(), 600_000).await;
    send(stranger.private_key).await?;
    // Another amount under the same id, which succeeds.
    let mut other = body.clone();
    other["amount"] = json!("1000000");
    let other: Value = harness.quote(&other).await?;
    let mut forged = transactions(&other)?.pop().expect("a step").data.to_vec();
    let theirs = request_id(&other).parse::<alloy::primitives::B256>()?;
    let ours = id.parse::<alloy::primitives::B256>()?;
    let at = forged.windows(32).position(|window| window == theirs.as_slice()).expect("the id is in it");
    forged[at..at + 32].copy_from_slice(ours.as_slice());
    let approve = transactions(&other)?.remove(0);
    base.send(stranger.private_key, approve.to, approve.value, approve.data).await?;
    base.send(stranger.private_key, swap.to, swap.value, forged.into()).await?;
    harness.let_pass(base, 5).await?;
    ensure!(harness.status(id).await?["status"] == "waiting");

    let hash = send(user.private_key).await?;
    let status = harness.wait_for(id, "failure").await?;
    ensure!(status["failReason"] == "TRANSACTION_REVERTED" && status["inTxHashes"] == json!([hash]), "{status}");
    service.stop().await
}

/// The last word is the chain's: a swap that was sent too early and then again is a success, and one that reverts after
/// it changes nothing.
#[tokio::test]
async fn a_same_chain_swap_that_reverted_and_then_succeeded_is_a_success() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let body = ask(user.address, user.address, (BASE, usdc), (BASE, Address::ZERO), U256::from(30_000_000u64));
    let quote = harness.quote(&body).await?;
    let (id, steps) = (request_id(&quote), transactions(&quote)?);
    let [approve, swap] = &steps[..] else { anyhow::bail!("an approval and a swap: {quote}") };
    let send = async || base.submit_with(user.private_key, swap.to, swap.value, swap.data.clone(), 600_000).await;

    let reverted = send().await?;
    harness.wait_for(id, "failure").await?;
    eventually("the failure is explained", || async { Ok(!harness.status(id).await?["details"].is_null()) }).await?;

    base.send(user.private_key, approve.to, approve.value, approve.data.clone()).await?;
    let succeeded = send().await?;
    let status = harness.wait_for(id, "success").await?;
    ensure!(status["failReason"] == "N/A" && status["details"].is_null(), "{status}");
    let hashes = status["inTxHashes"].as_array().cloned().unwrap_or_default();
    ensure!(hashes.contains(&json!(succeeded)), "{status}");

    // The allowance is used up: a third one reverts, and takes nothing back.
    let again = send().await?;
    ensure!(again != reverted && base.receipt(again).await.is_err(), "the third one reverts");
    harness.let_pass(base, 3).await?;
    ensure!(harness.status(id).await?["status"] == "success");
    service.stop().await
}
