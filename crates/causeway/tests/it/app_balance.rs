//! An app balance from its funding to its withdrawal, to the unit, with every charge and credit in between.

use std::path::Path;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::Account;
use evm::calldata;
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::claims;
use crate::fast_fill::{Integrator, USDC, integrator};
use crate::funding::{balance, credited};
use crate::harness::{Harness, amount, ask, creeping, eventually, execute, new_account, request_id, transactions};
use crate::process::recover;
use crate::sponsorship::{charged, micros, still_gas};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The balance, and the part held for fast fills, in millionths.
async fn books(harness: &Harness, wallet: Address) -> Result<(i64, i64)> {
    let body = balance(harness, wallet).await?;
    let held = body["outstandingFastFillBalanceUsd"].to_string();
    let (whole, fraction) = held.split_once('.').context("a number of dollars")?;
    Ok((body["amount"].as_str().context("amount")?.parse()?, format!("{whole}{fraction:0<6}").parse()?))
}

async fn settle_at(harness: &Harness, wallet: Address, expected: (i64, i64)) -> Result<()> {
    let waited = eventually("the books", || async { Ok(books(harness, wallet).await? == expected) }).await;
    let found = books(harness, wallet).await?;
    waited.with_context(|| format!("{found:?} and not {expected:?}"))
}

/// USDC from base to optimism.
fn transfer(harness: &Harness, user: Address, recipient: Address, dollars: u64) -> Value {
    let (from, to) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("USDC").address);
    ask(user, recipient, (BASE, from), (OPTIMISM, to), U256::from(dollars * USDC))
}

async fn quote(harness: &Harness, by: &Integrator, body: &Value) -> Result<Value> {
    let (code, quote) = by.post(harness, "/quote/v2", body).await?;
    ensure!(code == 200, "{quote}");
    Ok(quote)
}

/// Quotes see a balance a moment after it is credited.
async fn sponsored(harness: &Harness, by: &Integrator, body: &Value) -> Result<Value> {
    let is_so = || async { Ok(quote(harness, by, body).await?["fees"]["subsidized"]["amount"] != "0") };
    eventually("quotes know of the balance", is_so).await?;
    quote(harness, by, body).await
}

async fn fast_fill(harness: &Harness, by: &Integrator, quote: &Value) -> Result<()> {
    let (code, answer) = by.fast_fill(harness, request_id(quote)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(quote), "success").await.map(drop)
}

/// Fast fills that end soon, and prices that do not.
fn short(config: &mut Config) {
    config.fast_fill.window_secs = 600;
    for chain in &mut config.chains {
        for feed in chain.tokens.iter_mut().filter_map(|token| token.feed.as_mut()) {
            feed.max_age_secs = 100_000;
        }
        chain.native.feed.max_age_secs = 100_000;
    }
}

#[tokio::test]
async fn from_funding_to_withdrawal_to_the_unit() -> Result<()> {
    let harness = Harness::isolated(short).await?;
    let service = harness.serve().await?;
    still_gas(&harness).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, usdt, there) = (base.token("USDC").address, base.token("USDT").address, optimism.token("USDC").address);
    // Funded by the calldata of a transfer, linked by a signature.
    let by = integrator(&harness, 300).await?;
    let (wallet, user) = (by.wallet.address, base.fresh_user().await?);
    let mut expected = 300_000_000i64;

    // A transfer whose fees it pays.
    let mut body = transfer(&harness, user.address, new_account().address, 100);
    body["subsidizeFees"] = json!(true);
    let free = sponsored(&harness, &by, &body).await?;
    ensure!(free["details"]["currencyOut"]["amount"] == "100000000", "{free}");
    execute(base, &free, &user).await?;
    harness.wait_for(request_id(&free), "success").await?;
    expected -= micros(&free["fees"]["subsidized"]["amountUsd"])?;
    settle_at(&harness, wallet, (expected, 0)).await?;

    // A fixed rate at three prices of the input: it loses, breaks even and earns.
    body["originCurrency"] = json!(usdt);
    body["fixedRate"] = json!("1:0.9996");
    for (answer, sign) in [(99_940_000, -1), (99_960_000, 0), (100_000_000, 1)] {
        harness.set_price(base, "USDT", answer).await?;
        let recipient = new_account().address;
        body["recipient"] = json!(recipient);
        let fixed = quote(&harness, &by, &body).await?;
        let drift = micros(&fixed["details"]["fixedRateFee"]["usd"])?;
        ensure!(drift.signum() == sign, "{answer}: {}", fixed["details"]);
        execute(base, &fixed, &user).await?;
        harness.wait_for(request_id(&fixed), "success").await?;
        ensure!(optimism.balance(there, recipient).await? == U256::from(99_960_000u64));
        expected += drift - charged(&fixed, answer)?;
        settle_at(&harness, wallet, (expected, 0)).await?;
    }

    // A fast fill is paid ahead of a deposit that is sent and not mined; the deposit frees its hold.
    let recipient = new_account().address;
    let ahead = quote(&harness, &by, &transfer(&harness, user.address, recipient, 100)).await?;
    let never = quote(&harness, &by, &transfer(&harness, user.address, recipient, 50)).await?;
    let mut steps = transactions(&ahead)?;
    let deposit = steps.pop().context("a deposit")?;
    for step in steps {
        base.send(user.private_key, step.to, step.value, step.data).await?;
    }
    base.pause_mining().await;
    let height = base.block_number().await?;
    let hash: B256 = base.submit_with(user.private_key, deposit.to, deposit.value, deposit.data, 500_000).await?;
    fast_fill(&harness, &by, &ahead).await?;
    ensure!(base.block_number().await? == height, "the origin went on");
    let promised = amount(&ahead["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(there, recipient).await? == promised);
    ensure!(books(&harness, wallet).await? == (expected, 100_000_000));
    base.resume_mining().await;
    base.receipt(hash).await?;
    settle_at(&harness, wallet, (expected, 0)).await?;

    // A fast fill whose deposit does not come is lost when its window has ended for good.
    fast_fill(&harness, &by, &never).await?;
    ensure!(books(&harness, wallet).await? == (expected, 50_000_000));
    base.advance_time(Duration::from_secs(1_000)).await?;
    harness.finalise(base).await?;
    expected -= 50_000_000;
    settle_at(&harness, wallet, (expected, 0)).await?;
    ensure!(optimism.balance(there, recipient).await? == promised + amount(&never["details"]["currencyOut"]["amount"]));

    // The rest is withdrawn.
    let owner = new_account().address;
    claims::claim(&harness, &by.wallet, owner, None).await?;
    claims::becomes(&harness, wallet, "success").await?;
    ensure!(base.balance(usdc, owner).await? == U256::from(expected.unsigned_abs()));
    ensure!(books(&harness, wallet).await? == (0, 0));
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The fees of a transfer are booked when its deposit is final as well, and not when only its fill is.
#[tokio::test]
async fn nothing_is_earned_or_charged_before_the_deposit_is_final() -> Result<()> {
    let harness = Harness::isolated(|config| {
        for chain in config.chains.iter_mut().filter(|chain| chain.name == "base") {
            chain.finality_blocks = 60;
        }
        // The deposit's chain stands still for as long as the fill takes.
        config.limits.market_max_age_secs = 600;
    })
    .await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let by = integrator(&harness, 20).await?;
    let (wallet, user, app) = (by.wallet.address, base.fresh_user().await?, new_account().address);
    let mut body = transfer(&harness, user.address, new_account().address, 100);
    body["subsidizeFees"] = json!(true);
    body["appFees"] = json!([{ "recipient": app, "fee": "10" }]);
    let quote = sponsored(&harness, &by, &body).await?;
    execute(base, &quote, &user).await?;
    creeping(base, harness.wait_for(request_id(&quote), "success")).await?;
    eventually("the fill is final", || async {
        let trace = harness.trace(request_id(&quote)).await?;
        Ok(trace["payments"][0]["state"] == "final")
    })
    .await?;
    harness.let_pass(optimism, 3).await?;
    let (before, earned) = (books(&harness, wallet).await?, balance(&harness, app).await?);
    let available = balance(&harness, wallet).await?["availableBalanceUsd"].as_f64().context("available")?;
    let trace = harness.trace(request_id(&quote)).await?;
    ensure!(trace["deposits"][0]["state"] == "confirmed", "this shows nothing: {}", trace["deposits"]);
    ensure!(before == (20_000_000, 0) && earned["amount"] == "0", "{before:?} {earned}");
    ensure!(available < 20.0, "it is set aside meanwhile");
    agrees(&harness).await?;
    harness.finalise(base).await?;
    base.resume_mining().await;
    credited(&harness, app, "100000").await?;
    // The amount that left the balance is the one in the request's trace.
    let left = books(&harness, wallet).await?.0;
    let story = harness.trace(request_id(&quote)).await?["feeSponsorship"].take();
    ensure!(story["quoted"] == quote["feeSponsorship"]["quoted"], "{story}");
    let payment = &story["actual"]["sponsorPayment"];
    ensure!(payment["amount"] == json!((20_000_000 - left).to_string()) && payment["chainId"] == BASE, "{story}");
    ensure!(story["actual"]["components"]["app"]["sponsored"]["amount"] == "100000", "{story}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// A fill that a restored database finds on the chain is charged to its sponsor and credited to its apps all the same.
#[tokio::test]
async fn a_sponsor_is_charged_for_a_fill_that_was_recovered() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let toml = harness.folder.path().join("dev.toml");
    let (database, backup) = (harness.folder.path().join("causeway.db"), harness.folder.path().join("backup.db"));
    let service = harness.serve().await?;
    still_gas(&harness).await?;
    let by = integrator(&harness, 20).await?;
    let (wallet, app) = (by.wallet.address, new_account().address);
    let user = harness.chain("base").fresh_user().await?;
    let mut body = transfer(&harness, user.address, new_account().address, 100);
    body["subsidizeFees"] = json!(true);
    body["appFees"] = json!([{ "recipient": app, "fee": "10" }]);
    let quote = sponsored(&harness, &by, &body).await?;
    let left = 20_000_000 - micros(&quote["fees"]["subsidized"]["amountUsd"])?;
    service.stop().await?;
    std::fs::copy(&database, &backup)?;

    let service = harness.serve().await?;
    execute(harness.chain("base"), &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    settle_at(&harness, wallet, (left, 0)).await?;
    service.stop().await?;
    restore(&harness, &backup)?;
    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let service = harness.serve().await?;
    settle_at(&harness, wallet, (left, 0)).await?;
    credited(&harness, app, "100000").await?;
    ensure!(
        balance(&harness, wallet).await?["availableBalanceUsd"] == balance(&harness, wallet).await?["totalBalanceUsd"]
    );
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

fn restore(harness: &Harness, backup: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(harness.folder.path().join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(backup, harness.folder.path().join("causeway.db"))?;
    Ok(())
}

/// A sponsor whose balance stands for a fast fill pays a fee to an app: the app has it, and can claim it once the fast
/// fill's deposit is there.
#[tokio::test]
async fn a_fee_that_was_a_fast_fills_dollar_cannot_be_claimed() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let by = integrator(&harness, 105).await?;
    let (user, app) = (base.fresh_user().await?, base.fresh_user().await?);
    let ahead = quote(&harness, &by, &transfer(&harness, user.address, new_account().address, 100)).await?;
    fast_fill(&harness, &by, &ahead).await?;
    let mut body = transfer(&harness, user.address, new_account().address, 100);
    body["subsidizeFees"] = json!(true);
    body["appFees"] = json!([{ "recipient": app.address, "fee": "100" }]);
    let paid = sponsored(&harness, &by, &body).await?;
    execute(base, &paid, &user).await?;
    harness.wait_for(request_id(&paid), "success").await?;
    credited(&harness, app.address, "1000000").await?;
    ensure!(balance(&harness, app.address).await?["availableBalanceUsd"] == 0.0);
    let path = format!("/app-fees/{:#x}/claim", app.address);
    let all = json!({ "chainId": BASE, "currency": base.token("USDC").address, "recipient": app.address });
    let (code, refused) = harness.post(&path, &all).await?;
    ensure!(code == 400, "{refused}");
    execute(base, &ahead, &user).await?;
    eventually("the fee is free", || async { Ok(balance(&harness, app.address).await?["availableBalanceUsd"] == 1.0) })
        .await?;
    claims::claim(&harness, &app, app.address, None).await?;
    claims::becomes(&harness, app.address, "success").await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Pays so much under the order of a quote.
async fn pay_in(harness: &Harness, quote: &Value, user: &Account, units: u64) -> Result<()> {
    let order = quote["protocol"]["v2"]["orderId"].as_str().context("orderId")?.parse()?;
    let base = harness.chain("base");
    let data = calldata::implicit_deposit(harness.depository, U256::from(units), order);
    base.send(user.private_key, base.token("USDC").address, U256::ZERO, data).await.map(drop)
}

/// A fast fill that reverts frees its hold and decides nothing; one whose deposit is short costs the difference; and a
/// deposit of less than nine tenths is not its deposit.
#[tokio::test]
async fn a_fast_fill_that_reverts_or_is_short() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let by = integrator(&harness, 500).await?;
    let (wallet, user) = (by.wallet.address, base.fresh_user().await?);

    // The treasury is emptied under the fill.
    let recipient = new_account().address;
    let reverted = quote(&harness, &by, &transfer(&harness, user.address, recipient, 100)).await?;
    let inventory = optimism.balance(there, harness.treasury.address).await?;
    optimism.pause_mining().await;
    let (code, answer) = by.fast_fill(&harness, request_id(&reverted)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&reverted), "submitted").await?;
    optimism.set_token_balance(there, harness.treasury.address, U256::ZERO).await?;
    optimism.resume_mining().await;
    harness.wait_for(request_id(&reverted), "waiting").await?;
    settle_at(&harness, wallet, (500_000_000, 0)).await?;
    ensure!(optimism.balance(there, recipient).await?.is_zero());
    // The deposit pays for an ordinary fill.
    optimism.set_token_balance(there, harness.treasury.address, inventory).await?;
    harness.knows_holdings(optimism, "USDC").await?;
    execute(base, &reverted, &user).await?;
    harness.wait_for(request_id(&reverted), "success").await?;
    ensure!(optimism.balance(there, recipient).await? == amount(&reverted["details"]["currencyOut"]["amount"]));
    ensure!(books(&harness, wallet).await? == (500_000_000, 0));

    // The deposit is five dollars less than the fast fill counted on.
    let recipient = new_account().address;
    let short = quote(&harness, &by, &transfer(&harness, user.address, recipient, 100)).await?;
    fast_fill(&harness, &by, &short).await?;
    // Too small a deposit is not the order's: it goes back, and the hold stays.
    let had = base.balance(usdc, user.address).await?;
    pay_in(&harness, &short, &user, 89_999_999).await?;
    eventually("too little goes back", || async {
        let back = base.balance(usdc, user.address).await?;
        Ok(back < had && back > had - U256::from(10_000_000u64))
    })
    .await?;
    ensure!(books(&harness, wallet).await? == (500_000_000, 100_000_000));
    pay_in(&harness, &short, &user, 95_000_000).await?;
    settle_at(&harness, wallet, (495_000_000, 0)).await?;
    harness.let_pass(optimism, 3).await?;
    ensure!(optimism.balance(there, recipient).await? == amount(&short["details"]["currencyOut"]["amount"]));
    let trace = harness.trace(request_id(&short)).await?;
    ensure!(trace["children"].as_array().is_some_and(|children| children.len() == 1), "{trace}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}
