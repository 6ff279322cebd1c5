//! Refunds of orders that are not for our own funds: they go out of the depository, once, to whom the order names.

use std::path::Path;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use causeway::service::Service;
use devnet::Account;
use evm::contracts::{Call, CallRequest, Depository, Erc20};
use serde_json::{Value, json};
use store::payouts::{self, State};
use store::{StoreError, Tx};

use crate::audit::agrees;
use crate::harness::{Engine, Harness, ask, creeping, eventually, execute, new_account, operator, request_id};
use crate::process::recover;
use crate::repayment::{self, all_payouts};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const VALUE: u64 = 60_000_000;

/// A transfer that asks to be refunded, deposited; and who gets the money back.
async fn deposited(harness: &Harness, user: &Account) -> Result<(Value, Address)> {
    let (quote, refund_to) = quoted(harness, user).await?;
    execute(harness.chain("base"), &quote, user).await?;
    Ok((quote, refund_to))
}

async fn quoted(harness: &Harness, user: &Account) -> Result<(Value, Address)> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let refund_to = new_account().address;
    let mut body = ask(user.address, new_account().address, (BASE, here), (OPTIMISM, there), U256::from(VALUE));
    body["referrer"] = json!("debug-force-refund");
    body["refundTo"] = json!(refund_to);
    Ok((harness.quote(&body).await?, refund_to))
}

/// The depository is empty once everything has gone back, and the treasury has the part that was kept for gas.
async fn nothing_stays(harness: &Harness, quote: &Value, refund_to: Address, had: U256) -> Result<()> {
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let back = base.balance(usdc, refund_to).await?;
    let value = U256::from(VALUE);
    ensure!(back < value && back > value - U256::from(1_000_000u64), "{back}");
    // A node that is just mining may answer the second question from the block before.
    eventually("what was kept for gas is repaid", || async {
        Ok(base.balance(usdc, harness.depository).await?.is_zero()
            && base.balance(usdc, harness.treasury.address).await? == had + value - back)
    })
    .await?;
    // Whatever would pay a second time has had every chance to.
    harness.let_pass(base, 10).await?;
    ensure!(base.balance(usdc, refund_to).await? == back, "refunded twice");
    let status = harness.status(request_id(quote)).await?;
    ensure!(status["status"] == "refund" && status["failReason"] == "MANUAL_ADMIN_REFUND", "{status}");
    ensure!(status["txHashes"].as_array().is_some_and(|hashes| hashes.len() == 1), "{status}");
    agrees(harness).await.map(drop)
}

/// The refund is not for our own funds because of what `change` makes of the configuration.
async fn goes_out_of_the_depository(engine: Engine, change: impl FnOnce(&mut Config), why: &str) -> Result<()> {
    let harness = repayment::harness(engine, change).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let had = base.balance(usdc, harness.treasury.address).await?;
    let (quote, refund_to) = deposited(&harness, &user).await?;
    let trace = format!("/requests/{}/trace", request_id(&quote));
    eventually("it is left to the depository", || async {
        let (_, trace) = operator(&harness, &trace).await?;
        let reason = trace["due"][0]["reason"].as_str().unwrap_or_default().to_owned();
        // It may be on its way already.
        Ok((reason.contains(why) && reason.contains("out of the depository")) || came_from_it(&trace))
    })
    .await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    let (_, trace) = operator(&harness, &trace).await?;
    ensure!(came_from_it(&trace), "{trace}");
    let payments = trace["payments"].as_array().cloned().unwrap_or_default();
    ensure!(payments.iter().all(|payment| payment["purpose"] == "payout"), "{trace}");
    nothing_stays(&harness, &quote, refund_to, had).await?;
    service.stop().await
}

fn came_from_it(trace: &Value) -> bool {
    trace["events"].as_array().is_some_and(|all| all.iter().any(|it| it["rule"] == "refund-from-depository"))
}

#[tokio::test]
async fn a_refund_above_the_limit_goes_out_of_the_depository() -> Result<()> {
    let change =
        |config: &mut Config| config.chains.iter_mut().for_each(|chain| chain.risk.refund_usd = "10".to_owned());
    goes_out_of_the_depository(Engine::Postgres, change, "too large").await
}

#[tokio::test]
async fn a_refund_beyond_the_risk_budget_goes_out_of_the_depository() -> Result<()> {
    let change = |config: &mut Config| config.chains.iter_mut().for_each(|chain| chain.risk.open_usd = "10".to_owned());
    goes_out_of_the_depository(Engine::Sqlite, change, "not final").await
}

/// The list grows after the refund was left to the depository and before its deposit is final.
#[tokio::test]
async fn the_allocator_refunds_nothing_for_a_wallet_that_is_blocked_since() -> Result<()> {
    let harness = Harness::isolated(|config| {
        repayment::repaid(config);
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
        // The deposit's chain stands still while the list is changed.
        config.limits.market_max_age_secs = 600;
        for chain in &mut config.chains {
            chain.risk.refund_usd = "10".to_owned();
            chain.finality_blocks = 60;
        }
    })
    .await?;
    repayment::name_allocator(&harness).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (usdc, user) = (base.token("USDC").address, base.fresh_user().await?);
    let (quote, refund_to) = deposited(&harness, &user).await?;
    let trace = format!("/requests/{}/trace", request_id(&quote));
    let is_left = || async {
        let (_, trace) = operator(&harness, &trace).await?;
        Ok(trace["due"][0]["reason"].as_str().is_some_and(|reason| reason.contains("out of the depository")))
    };
    creeping(base, eventually("it is left to the depository", is_left)).await?;
    let recipient: Address = quote["details"]["recipient"].as_str().context("recipient")?.parse()?;
    std::fs::write(harness.folder.path().join("blocked.txt"), format!("{recipient} # a thief\n"))?;
    let body = ask(recipient, recipient, (OPTIMISM, Address::ZERO), (BASE, Address::ZERO), U256::from(10u64.pow(16)));
    let is_listed =
        || async { Ok(harness.post("/quote/v2", &body).await?.1["errorCode"] == "SANCTIONED_WALLET_ADDRESS") };
    eventually("the list is read", is_listed).await?;
    harness.finalise(base).await?;
    base.resume_mining().await;
    eventually("a person is told", || async {
        let (_, lives) = harness.get("/lives").await?;
        let wrong = lives["report"]["wrong"].as_array().cloned().unwrap_or_default();
        Ok(wrong.iter().any(|it| it["name"] == "deposit-not-proven" && it["chainId"] == BASE))
    })
    .await?;
    harness.let_pass(base, 10).await?;
    ensure!(all_payouts(&service).await?.is_empty() && base.balance(usdc, refund_to).await?.is_zero());
    service.stop().await
}

/// The calldata that brings the only payout to the depository, in anybody's hands.
async fn signed(service: &Service, usdc: Address) -> Result<Bytes> {
    let stored = all_payouts(service).await?.into_iter().next().context("a payout")?;
    let id = stored.id;
    let read = move |tx: &mut Tx<'_>| payouts::live(tx, id);
    let signature = service.solver.store.read::<_, StoreError>(read).await?.context("a signature")?;
    let transfer = Erc20::transferCall { to: stored.payout.recipient, amount: stored.payout.amount.units() };
    let call = Call { to: usdc, data: transfer.abi_encode().into(), value: U256::ZERO, allowFailure: false };
    let request = CallRequest {
        calls: vec![call],
        nonce: U256::from_be_bytes(stored.payout.nonce.0.0),
        expiration: U256::from(signature.expiration),
    };
    let bytes = signature.bytes.context("bytes")?;
    Ok(Depository::executeCall { request, signature: bytes.into() }.abi_encode().into())
}

/// Our wallets have no gas: the refund is signed for and cannot be sent. Whoever has the signature may, and the request
/// ends all the same.
#[tokio::test]
async fn a_refund_that_somebody_else_brings_to_the_depository_ends_the_request() -> Result<()> {
    let harness = repayment::harness(Engine::Sqlite, |_| ()).await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let had = base.balance(usdc, harness.treasury.address).await?;
    for filler in &harness.fillers {
        base.set_balance(filler.address, U256::ZERO).await?;
    }
    let service = harness.serve().await?;
    let (quote, refund_to) = deposited(&harness, &user).await?;
    eventually("it is signed for", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.state == State::Signed))
    })
    .await?;
    ensure!(base.balance(usdc, refund_to).await?.is_zero());
    let data = signed(&service, usdc).await?;
    let stranger = base.fresh_user().await?;
    let sent = base.send(stranger.private_key, harness.depository, U256::ZERO, data).await?;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["txHashes"][0] == sent.transaction_hash.to_string(), "{status}");
    // With gas again, what is left is repaid, and nothing more is refunded.
    for filler in &harness.fillers {
        base.set_balance(filler.address, U256::from(10u64).pow(U256::from(19))).await?;
    }
    nothing_stays(&harness, &quote, refund_to, had).await?;
    service.stop().await
}

/// Ours is on its way, and somebody else's with the same signature is mined before it, in the same block. That is the
/// refund: nothing is signed again, and a backup from before the deposit learns of it from ours, which failed.
#[tokio::test]
async fn a_refund_that_somebody_else_was_faster_with_is_not_signed_again() -> Result<()> {
    let harness = Harness::isolated(repayment::repaid).await?;
    repayment::name_allocator(&harness).await?;
    let (base, folder) = (harness.chain("base"), harness.folder.path());
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let had = base.balance(usdc, harness.treasury.address).await?;
    let service = harness.serve().await?;
    let (quote, refund_to) = quoted(&harness, &user).await?;
    service.stop().await?;
    std::fs::copy(folder.join("causeway.db"), folder.join("backup.db"))?;
    // Without gas nothing is sent, until mining is in the test's hands.
    for filler in &harness.fillers {
        base.set_balance(filler.address, U256::ZERO).await?;
    }
    let service = harness.serve().await?;
    execute(base, &quote, &user).await?;
    eventually("it is signed for", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.state == State::Signed))
    })
    .await?;
    let data = signed(&service, usdc).await?;
    base.pause_mining().await;
    for filler in &harness.fillers {
        base.set_balance(filler.address, U256::from(10u64).pow(U256::from(19))).await?;
    }
    base.mine(1).await?;
    let ours = || async {
        let pool: Value = base.rpc("txpool_content", ()).await?;
        let waiting = pool["pending"].as_object().into_iter().flatten();
        let mut waiting = waiting.flat_map(|(_, by_nonce)| by_nonce.as_object().into_iter().flatten());
        let to = json!(harness.depository).to_string().to_lowercase();
        anyhow::Ok(waiting.any(|(_, tx)| tx["to"].to_string().to_lowercase() == to))
    };
    eventually("ours is sent", ours).await?;
    let stranger = base.fresh_user().await?;
    base.rpc::<Value>("anvil_impersonateAccount", [stranger.address]).await?;
    let price = U256::from(200_000_000_000u64);
    let tx =
        json!({"from": stranger.address, "to": harness.depository, "data": data, "gasPrice": price, "gas": "0x0f4240"});
    let theirs: B256 = base.rpc("eth_sendTransaction", [tx]).await?;
    base.mine(1).await?;
    base.resume_mining().await;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["txHashes"] == json!([theirs]), "{status}");
    let trace = harness.trace(request_id(&quote)).await?;
    ensure!(trace["payments"].as_array().is_some_and(|all| all.len() == 1), "ours was sent, and nothing more: {trace}");
    nothing_stays(&harness, &quote, refund_to, had).await?;
    let refund = all_payouts(&service).await?.into_iter().find(|it| it.payout.recipient == refund_to);
    let refund = refund.context("the refund")?;
    let signatures = service.solver.store.read(move |tx| payouts::signatures(tx, refund.id)).await?;
    ensure!(refund.state == State::Executed && signatures == 1, "{refund:?} {signatures}");
    service.stop().await?;

    restore(folder)?;
    base.set_token_balance(usdc, harness.depository, U256::from(10 * VALUE)).await?;
    not_paid_again(&harness, &quote, refund_to).await?.stop().await
}

/// The database is the backup's again.
fn restore(folder: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(folder.join("backup.db"), folder.join("causeway.db"))?;
    Ok(())
}

/// After a restored backup: the chain says that the order was refunded, and it is neither filled nor refunded again.
async fn not_paid_again(harness: &Harness, quote: &Value, refund_to: Address) -> Result<Service> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let usdc = base.token("USDC").address;
    let back = base.balance(usdc, refund_to).await?;
    let recovered = recover(&harness.folder.path().join("dev.toml")).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let service = harness.serve().await?;
    ensure!(harness.status(request_id(quote)).await?["status"] == "refund");
    harness.let_pass(base, 15).await?;
    ensure!(base.balance(usdc, refund_to).await? == back, "refunded twice");
    let recipient: Address = quote["details"]["recipient"].as_str().context("a recipient")?.parse()?;
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await?.is_zero(), "filled as well");
    Ok(service)
}

/// A backup from before the deposit: that its order was refunded out of the depository is read from the chain, and it
/// is neither filled nor refunded again.
#[tokio::test]
async fn a_restored_backup_does_not_refund_again() -> Result<()> {
    let change = |config: &mut Config| {
        config.chains.iter_mut().for_each(|chain| chain.risk.refund_usd = "10".to_owned());
    };
    let harness = repayment::harness(Engine::Sqlite, change).await?;
    let (base, folder) = (harness.chain("base"), harness.folder.path());
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let service = harness.serve().await?;
    let (quote, refund_to) = quoted(&harness, &user).await?;
    service.stop().await?;
    std::fs::copy(folder.join("causeway.db"), folder.join("backup.db"))?;

    let service = harness.serve().await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    service.stop().await?;
    restore(folder)?;
    // Money that is not owed, so that a second payout would have something to take.
    base.set_token_balance(usdc, harness.depository, U256::from(10 * VALUE)).await?;
    let service = not_paid_again(&harness, &quote, refund_to).await?;
    eventually("the book knows", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.state == State::Executed))
    })
    .await?;
    service.stop().await
}
