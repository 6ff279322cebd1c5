//! A database older than the chain does not pay, says so, and is brought up to date by `recover`.

use std::path::Path;

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use serde_json::json;

use crate::harness::{Engine, Harness, amount, ask, blocks_pass, eventually, execute, new_account, request_id};
use crate::process::{causeway, serve};

/// What ether costs on new chains, with eight decimals.
const ETHER_USD: i64 = 300_000_000_000;
const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

#[tokio::test]
async fn a_restored_backup_refuses_to_pay_until_it_has_recovered() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let toml = harness.folder.path().join("dev.toml");
    let database = harness.folder.path().join("causeway.db");
    let backup = harness.folder.path().join("backup.db");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(30_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);

    // Fills that are more than a transfer: bought in a pool, and with gas beside the tokens.
    let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let tail = optimism.token("TAIL").address;
    let buyer = new_account().address;
    let swapped = ask(user.address, buyer, (BASE, Address::ZERO), (OPTIMISM, tail), value);
    let mut topped = ask(user.address, buyer, (BASE, here), (OPTIMISM, there), U256::from(40_000_000u64));
    topped["topupGas"] = json!(true);

    // The backup holds the quotes and nothing of what follows.
    let service = harness.serve().await?;
    let quote = harness.quote(&body).await?;
    let mut more = vec![harness.quote(&swapped).await?, harness.quote(&topped).await?];
    service.stop().await?;
    std::fs::copy(&database, &backup)?;
    let service = harness.serve().await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    // And the same of which the backup will not even know the quotes.
    more.push(harness.quote(&swapped).await?);
    more.push(harness.quote(&topped).await?);
    for quote in &more {
        execute(base, quote, &user).await?;
        harness.wait_for(request_id(quote), "success").await?;
    }
    // Two more of which the backup will not even know the quotes: to a contract through the router, and by plain transfer.
    let contract = new_account().address;
    optimism.set_code(contract, vec![0x00].into()).await?;
    let lost = ask(user.address, contract, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    harness.quote(&lost).await?;
    let known = || service.solver.recipient_code.is_contract(domain::ids::ChainId(OPTIMISM), contract);
    eventually("the recipient is known to be a contract", || async { Ok(known()) }).await?;
    let routed = harness.quote(&lost).await?;
    execute(base, &routed, &user).await?;
    let mut plain = ask(user.address, contract, (BASE, here), (OPTIMISM, there), U256::from(50_000_000u64));
    plain["explicitDeposit"] = json!(false);
    let plain = harness.quote(&plain).await?;
    execute(base, &plain, &user).await?;
    for quote in [&routed, &plain] {
        harness.wait_for(request_id(quote), "success").await?;
    }
    service.stop().await?;
    let arrived = || async {
        let mut balances = Vec::new();
        for who in [contract, buyer] {
            for currency in [Address::ZERO, there, tail] {
                balances.push(optimism.balance(currency, who).await?);
            }
        }
        anyhow::Ok(balances)
    };
    let left = || async {
        anyhow::Ok((base.balance(Address::ZERO, user.address).await?, base.balance(here, user.address).await?))
    };
    let (paid, spent) = (arrived().await?, left().await?);
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised);

    restore(&harness, &backup)?;
    let served = serve(&toml, None)?;
    is_refused(&harness, OPTIMISM).await?;
    // It sees the old deposit again, and pays nothing for it.
    harness.wait_for(request_id(&quote), "pending").await?;
    let (code, refused) = harness.post("/quote/v2", &body).await?;
    ensure!((code, &refused["errorCode"]) == (400, &json!("CHAIN_DISABLED")), "{code} {refused}");
    // Long enough for everything to become final, and for deposits nobody knows to be returned if that were done.
    blocks_pass(base, 20).await?;
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised, "paid twice from an old database");
    ensure!(arrived().await? == paid && left().await? == spent, "returned what was filled, from an old database");
    let doctor = causeway().args(["doctor", "--config"]).arg(&toml).output()?;
    ensure!(!doctor.status.success(), "the doctor finds nothing wrong");
    ensure!(String::from_utf8_lossy(&doctor.stdout).contains("causeway recover"));
    ensure!(served.terminate().await?.success());

    let recovered = causeway().args(["recover", "--config"]).arg(&toml).output()?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    ensure!(String::from_utf8_lossy(&recovered.stdout).contains("imported 7 payments"));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    harness.wait_for(request_id(&quote), "success").await?;
    blocks_pass(base, 20).await?;
    blocks_pass(optimism, 6).await?;
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised, "paid twice after recovery");
    ensure!(arrived().await? == paid && left().await? == spent, "paid or returned again after recovery");
    // And it works again.
    let another = new_account().address;
    let quote =
        harness.quote(&ask(user.address, another, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value)).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(served.terminate().await?.success());
    Ok(())
}

/// The chain that refuses is not the one that would pay: what was refunded there is not filled here.
#[tokio::test]
async fn a_restored_backup_does_not_fill_what_was_refunded_on_the_other_chain() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let toml = harness.folder.path().join("dev.toml");
    let backup = harness.folder.path().join("backup.db");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let usdc = optimism.token("USDC").address;
    let value = U256::from(30_000_000_000_000_000u64);
    let service = harness.serve().await?;
    let quote = harness.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, usdc), value)).await?;
    service.stop().await?;

    // The backup holds the deposit, and a fill that waits for gas to become cheaper.
    let mut stingy = harness.config.clone();
    for chain in &mut stingy.chains {
        chain.max_fee_gwei = "0".to_owned();
    }
    let service = Service::start(&stingy, system_env()).await?;
    harness.wait_until_served().await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "pending").await?;
    service.stop().await?;
    std::fs::copy(harness.folder.path().join("causeway.db"), &backup)?;

    // By then the price is another one, and the deposit goes back.
    base.set_price("ETH", ETHER_USD / 2).await?;
    let service = harness.serve().await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    service.stop().await?;
    let refunded = base.balance(Address::ZERO, user.address).await?;
    base.set_price("ETH", ETHER_USD).await?;

    restore(&harness, &backup)?;
    let served = serve(&toml, None)?;
    is_refused(&harness, BASE).await?;
    eventually("the fill waits for the other chain", || async {
        let trace = harness.trace(request_id(&quote)).await?;
        Ok(trace["due"][0]["reason"].as_str().is_some_and(|why| why.contains("causeway recover")))
    })
    .await?;
    blocks_pass(optimism, 20).await?;
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled what was refunded");
    ensure!(served.terminate().await?.success());

    let recovered = causeway().args(["recover", "--config"]).arg(&toml).output()?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    blocks_pass(optimism, 20).await?;
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled what was refunded, after recovery");
    ensure!(base.balance(Address::ZERO, user.address).await? == refunded, "refunded again after recovery");
    ensure!(served.terminate().await?.success());
    Ok(())
}

/// Puts a backup in the place of the database. Nothing may be running on it.
fn restore(harness: &Harness, backup: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(harness.folder.path().join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(backup, harness.folder.path().join("causeway.db"))?;
    Ok(())
}

async fn is_refused(harness: &Harness, id: u64) -> Result<()> {
    eventually("the chain is refused with a remedy", || async {
        let Ok((_, lives)) = harness.get("/lives").await else { return Ok(false) };
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        Ok(chains.iter().any(|chain| {
            chain["id"] == json!(id) && chain["refusing"].as_str().is_some_and(|why| why.contains("causeway recover"))
        }))
    })
    .await
}
