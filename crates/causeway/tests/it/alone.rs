//! What users do alone on one chain: found there by itself, whoever says so or not.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::stand::{Engine, Stand, amount, ask, blocks_pass, execute, new_account, request_id, transactions};

const BASE: u64 = 8453;

fn ether(thousandths: u64) -> U256 {
    U256::from(thousandths) * U256::from(10u64.pow(15))
}

async fn swap_wrap_and_send(engine: Engine) -> Result<()> {
    let stand = Stand::new(engine).await?;
    let service = stand.serve().await?;
    let base = stand.chain("base");
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
        let quote = stand.quote(&ask(user.address, recipient, (BASE, from), (BASE, to), value)).await?;
        ensure!(quote["details"]["operation"] == operation, "{quote}");
        ensure!(quote.get("protocol").is_none(), "nothing is deposited");
        ensure!(stand.status(request_id(&quote)).await?["status"] == "waiting");
        let hash = execute(base, &quote, &user).await?;
        let status = stand.wait_for(request_id(&quote), "success").await?;
        ensure!(status["inTxHashes"] == json!([hash]) && status["txHashes"] == json!([hash]), "{status}");
        ensure!(base.balance(to, recipient).await? >= amount(&quote["details"]["currencyOut"]["minimumAmount"]));
    }
    // Unwrapping one's own is done by the token itself.
    let user = base.fresh_user().await?;
    base.send(user.private_key, weth, ether(50), alloy::primitives::hex!("d0e30db0").into()).await?;
    let quote = stand.quote(&ask(user.address, user.address, (BASE, weth), (BASE, native), ether(50))).await?;
    ensure!(quote["details"]["operation"] == "unwrap" && transactions(&quote)?.len() == 1, "{quote}");
    execute(base, &quote, &user).await?;
    stand.wait_for(request_id(&quote), "success").await?;
    ensure!(base.balance(weth, user.address).await?.is_zero());
    service.stop().await
}

#[tokio::test]
async fn what_a_user_does_alone_is_found_on_sqlite() -> Result<()> {
    swap_wrap_and_send(Engine::Sqlite).await
}

#[tokio::test]
async fn what_a_user_does_alone_is_found_on_postgres() -> Result<()> {
    swap_wrap_and_send(Engine::Postgres).await
}

/// The user's own revert is a failure; a stranger's, or a transaction that only carries the id, is nothing.
#[tokio::test]
async fn only_the_quoted_transaction_counts() -> Result<()> {
    let stand = Stand::new(Engine::Sqlite).await?;
    let service = stand.serve().await?;
    let base = stand.chain("base");
    let usdc = base.token("USDC").address;
    let (user, stranger) = (base.fresh_user().await?, base.fresh_user().await?);
    let body = ask(user.address, user.address, (BASE, usdc), (BASE, Address::ZERO), U256::from(30_000_000u64));
    let quote = stand.quote(&body).await?;
    let (id, swap) = (request_id(&quote), transactions(&quote)?.pop().expect("a step"));

    // Without the approval before it, it reverts: for the stranger first.
    let send = async |key| base.submit_with(key, swap.to, swap.value, swap.data.clone(), 600_000).await;
    send(stranger.private_key).await?;
    // Another amount under the same id, which succeeds.
    let mut other = body.clone();
    other["amount"] = json!("1000000");
    let other: Value = stand.quote(&other).await?;
    let mut forged = transactions(&other)?.pop().expect("a step").data.to_vec();
    let theirs = request_id(&other).parse::<alloy::primitives::B256>()?;
    let ours = id.parse::<alloy::primitives::B256>()?;
    let at = forged.windows(32).position(|window| window == theirs.as_slice()).expect("the id is in it");
    forged[at..at + 32].copy_from_slice(ours.as_slice());
    let approve = transactions(&other)?.remove(0);
    base.send(stranger.private_key, approve.to, approve.value, approve.data).await?;
    base.send(stranger.private_key, swap.to, swap.value, forged.into()).await?;
    blocks_pass(base, 5).await?;
    ensure!(stand.status(id).await?["status"] == "waiting");

    let hash = send(user.private_key).await?;
    let status = stand.wait_for(id, "failure").await?;
    ensure!(status["failReason"] == "TRANSACTION_REVERTED" && status["inTxHashes"] == json!([hash]), "{status}");
    service.stop().await
}
