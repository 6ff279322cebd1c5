//! The solver is repaid out of the depositories: exactly, once, and only for what the chains prove.

mod forged;
mod large;

use std::time::Duration;

use allocator::identity;
use alloy::primitives::{Address, B256, Bytes, U256, hex};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use causeway::config::{AllocatorConfig, CapConfig, Config, Source};
use causeway::env::system_env;
use causeway::service::Service;
use devnet::{Account, Chain, Fault};
use domain::ids::ChainId;
use domain::money::Amount;
use evm::calldata;
use evm::contracts::Erc20;
use serde_json::{Value, json};
use store::payouts::{self, Kind, Payout, State};
use store::{StoreError, Tx, depository_ledger};

use crate::audit::agrees;
use crate::harness::{
    Engine, Harness, amount, ask, balance_when, blocks_pass, eventually, execute, fee_of, new_account, request_id,
};
use crate::process::recover;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;
const ETHER: u64 = 1_000_000_000_000_000_000;

/// Pays every settled deposit back at once, unless the test has other ideas.
pub fn allocator(config: &Config) -> AllocatorConfig {
    let cap = |currency: &str| CapConfig {
        currency: currency.to_owned(),
        hour: "1000000".to_owned(),
        day: "1000000".to_owned(),
    };
    AllocatorConfig {
        address: None,
        key: Some(Source { env: None, file: Some(config.folder.join("keys/allocator")) }),
        quorum: 2,
        batch_usd: "1000000".to_owned(),
        batch_age_secs: 0,
        validity_secs: 900,
        caps: vec![cap("eth"), cap("usdc")],
    }
}

pub fn repaid(config: &mut Config) {
    config.allocator = Some(allocator(config));
    for chain in &mut config.chains {
        chain.finality_blocks = 5;
    }
}

/// A stand's depository is a copy of the code without its storage: it is told who its allocator is.
pub async fn name_allocator(harness: &Harness) -> Result<()> {
    for chain in &harness.devnet.chains {
        let who = harness.devnet.keys.allocator.address.into_word();
        let slot = B256::with_last_byte(2);
        let _: Value = chain.rpc("anvil_setStorageAt", (harness.depository, slot, who)).await?;
    }
    Ok(())
}

pub async fn harness(engine: Engine, change: impl FnOnce(&mut Config)) -> Result<Harness> {
    let harness = Harness::with(engine, |config| {
        repaid(config);
        change(config);
    })
    .await?;
    name_allocator(&harness).await?;
    Ok(harness)
}

/// A transfer from base to optimism that has arrived. Zero is the native currency.
async fn transfer(harness: &Harness, user: &Account, symbol: &str, value: u64) -> Result<Value> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let token = |chain: &Chain| if symbol == "ETH" { Address::ZERO } else { chain.token(symbol).address };
    let recipient = new_account().address;
    let body = ask(user.address, recipient, (BASE, token(base)), (OPTIMISM, token(optimism)), U256::from(value));
    let quote = harness.quote(&body).await?;
    execute(base, &quote, user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(
        optimism.balance(token(optimism), recipient).await?
            >= amount(&quote["details"]["currencyOut"]["minimumAmount"])
    );
    Ok(quote)
}

async fn held(harness: &Harness, currency: Address) -> Result<U256> {
    harness.chain("base").balance(currency, harness.depository).await
}

pub async fn all_payouts(service: &Service) -> Result<Vec<payouts::PayoutRow>> {
    Ok(service.solver.store.read(|tx| payouts::after(tx, payouts::PayoutId(0), 100)).await?)
}

#[tokio::test]
async fn settled_deposits_reach_the_treasury_exactly() -> Result<()> {
    let harness = harness(Engine::Postgres, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let treasury = harness.treasury.address;
    let had = (base.balance(Address::ZERO, treasury).await?, base.balance(usdc, treasury).await?);
    transfer(&harness, &user, "ETH", ETHER / 20).await?;
    transfer(&harness, &user, "USDC", 70_000_000).await?;
    transfer(&harness, &user, "ETH", ETHER / 50).await?;
    eventually("everything is repaid", || async {
        Ok(held(&harness, Address::ZERO).await?.is_zero() && held(&harness, usdc).await?.is_zero())
    })
    .await?;
    let sum = U256::from(ETHER / 20 + ETHER / 50);
    // A node that is just mining may answer the next question from the block before.
    eventually("the treasury has it", || async {
        Ok(base.balance(Address::ZERO, treasury).await? == had.0 + sum
            && base.balance(usdc, treasury).await? == had.1 + U256::from(70_000_000u64))
    })
    .await?;
    eventually("the book knows", || async {
        Ok(all_payouts(&service).await?.iter().all(|payout| payout.state == State::Executed))
    })
    .await?;
    service.stop().await
}

/// A refund and a return were paid from our own funds; both deposits come back whole.
#[tokio::test]
async fn refunds_and_returns_are_reimbursed_like_fills() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let had = base.balance(usdc, harness.treasury.address).await?;
    let there = harness.chain("optimism").token("USDC").address;
    let body = ask(user.address, recipient, (BASE, usdc), (OPTIMISM, there), U256::from(90_000_000u64));
    let quote = harness.quote(&body).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let short = calldata::implicit_deposit(harness.depository, U256::from(40_000_000u64), order);
    base.send(user.private_key, usdc, U256::ZERO, short).await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    let stray = calldata::implicit_deposit(
        harness.depository,
        U256::from(30_000_000u64),
        domain::ids::OrderId(B256::repeat_byte(0xee)),
    );
    base.send(user.private_key, usdc, U256::ZERO, stray).await?;
    let back = || async { base.balance(usdc, user.address).await };
    eventually("the stray deposit is returned", || async { Ok(back().await? > U256::from(9_990_000_000u64)) }).await?;
    eventually("both are reimbursed", || async { Ok(held(&harness, usdc).await?.is_zero()) }).await?;
    let users = U256::from(10_000_000_000u64) - back().await?;
    // All that the treasury has gained is what the users were charged for gas.
    let gained = || async { Ok(base.balance(usdc, harness.treasury.address).await? == had + users) };
    eventually("the treasury has what was charged", gained).await?;
    service.stop().await
}

/// Fills that trade, call or bring gas are proven by other logs than plain ones; deposits that were traded for, by
/// theirs.
#[tokio::test]
async fn fills_through_the_router_are_proven_too() -> Result<()> {
    let harness = Harness::isolated(|config| {
        repaid(config);
        let cap = |currency: &str| CapConfig {
            currency: currency.to_owned(),
            hour: "1000000".to_owned(),
            day: "1000000".to_owned(),
        };
        if let Some(allocator) = &mut config.allocator {
            allocator.caps.extend(["weth", "usdt", "dai"].map(cap));
        }
    })
    .await?;
    name_allocator(&harness).await?;
    let service = harness.serve().await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let user = base.fresh_user().await?;
    let (tail, usdc) = (base.token("TAIL").address, base.token("USDC").address);
    let there = |symbol: &str| arbitrum.token(symbol).address;
    let third = new_account().address;
    let value = U256::from(5_000_000u64);
    let transfer = Erc20::transferCall { to: third, amount: value }.abi_encode();
    let wrap = json!({ "to": there("WETH"), "value": "1000000000000000", "data": "0xd0e30db0" });
    let pay = json!({ "to": there("USDC"), "value": "0", "data": format!("0x{}", hex::encode(transfer)) });
    let dollars = U256::from(50_000_000u64);
    let ether = U256::from(ETHER / 50);
    let cases = [
        (usdc, there("TAIL"), dollars, json!({})),
        (usdc, there("USDC"), dollars, json!({ "topupGas": true })),
        (usdc, there("USDC"), dollars, json!({ "txs": [pay] })),
        (Address::ZERO, Address::ZERO, ether, json!({ "txs": [wrap] })),
        (tail, there("USDC"), U256::from(10u64).pow(U256::from(21)), json!({})),
    ];
    for (from, to, amount, more) in cases {
        let mut body = ask(user.address, new_account().address, (BASE, from), (ARBITRUM, to), amount);
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        // Pools are read after all else.
        let known = || async { Ok(harness.post("/quote/v2", &body).await?.0 == 200) };
        eventually("there is a quote", known).await.with_context(|| body.to_string())?;
        let quote = harness.quote(&body).await?;
        execute(base, &quote, &user).await?;
        harness.wait_for(request_id(&quote), "success").await?;
    }
    let currencies: Vec<_> = base.tokens.iter().map(|token| token.address).chain([Address::ZERO]).collect();
    let empty = || async {
        for currency in &currencies {
            if !held(&harness, *currency).await?.is_zero() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let repaid = eventually("everything is repaid", empty).await;
    let refused = |tx: &mut Tx<'_>| {
        let rows = tx.rows("select refusal from depository_deposit where refusal is not null", &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<Vec<_>, StoreError>>()
    };
    repaid.with_context(|| format!("{:?}", futures::executor::block_on(service.solver.store.read(refused))))?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// An hour's cap is for an hour: what does not fit waits.
#[tokio::test]
async fn caps_hold_back_what_is_too_much() -> Result<()> {
    let harness = harness(Engine::Sqlite, |config| {
        if let Some(allocator) = &mut config.allocator {
            for cap in &mut allocator.caps {
                cap.hour = "100".to_owned();
                cap.day = "120".to_owned();
            }
        }
    })
    .await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    for value in [60_000_000, 50_000_000, 30_000_000] {
        transfer(&harness, &user, "USDC", value).await?;
    }
    // Whichever go first, the one that would break the cap stays.
    eventually("what fits is repaid", || async {
        let held = held(&harness, usdc).await?;
        Ok([50_000_000u64, 60_000_000].map(U256::from).contains(&held))
    })
    .await?;
    harness.let_pass(base, 15).await?;
    ensure!(held(&harness, usdc).await? >= U256::from(50_000_000u64));
    let signed = all_payouts(&service).await?;
    let sum = signed.iter().fold(U256::ZERO, |sum, payout| sum + payout.payout.amount.units());
    ensure!(sum <= U256::from(100_000_000u64), "{sum}");
    // Nor does a stranger's deposit above all caps keep others from being repaid.
    let whale = base.fresh_user().await?;
    let much = U256::from(300u64) * U256::from(ETHER);
    base.set_balance(whale.address, much + U256::from(ETHER)).await?;
    let stray = calldata::deposit_native(whale.address, domain::ids::OrderId(B256::repeat_byte(0xdd)));
    base.send(whale.private_key, harness.depository, much, stray).await?;
    let refusals = || service.solver.store.read(|tx| depository_ledger::refusals(tx, ChainId(BASE)));
    eventually("it is left to a person", || async { Ok(refusals().await? == 1) }).await?;
    transfer(&harness, &user, "ETH", ETHER / 100).await?;
    eventually("the rest is repaid", || async { Ok(held(&harness, Address::ZERO).await? == much) }).await?;
    service.stop().await
}

/// With one of the allocator's two nodes on a fork of its own, or blind, nothing is signed; once it is honest again,
/// everything is. The solver has an honest node to itself: by both of them, the deposit would not even be filled.
#[tokio::test]
async fn nodes_that_disagree_get_no_signature() -> Result<()> {
    let harness = Harness::isolated(|config| {
        repaid(config);
        for chain in &mut config.chains {
            chain.allocator_endpoints = chain.endpoints.clone();
            chain.endpoints.truncate(1);
        }
    })
    .await?;
    name_allocator(&harness).await?;
    let base = harness.chain("base");
    let service = harness.serve().await?;
    let user = base.fresh_user().await?;
    for lie in [Fault { wrong_block_hash: true, ..Fault::default() }, Fault { hide_logs: true, ..Fault::default() }] {
        base.faults.set(lie);
        let treasury = base.balance(Address::ZERO, harness.treasury.address).await?;
        transfer(&harness, &user, "ETH", ETHER / 100).await?;
        blocks_pass(base, 20).await?;
        // The book stands still: that is what keeps anything from being signed.
        let book = service.solver.store.read(|tx| depository_ledger::cursor(tx, ChainId(BASE))).await?;
        let height = base.block_number().await?;
        ensure!(book.is_none_or(|book| book.number + 15 < height), "{book:?} at {height}");
        ensure!(held(&harness, Address::ZERO).await? == U256::from(ETHER / 100));
        ensure!(all_payouts(&service).await?.iter().all(|payout| payout.state == State::Executed));
        base.faults.clear();
        eventually("it is repaid", || async {
            Ok(held(&harness, Address::ZERO).await?.is_zero()
                && base.balance(Address::ZERO, harness.treasury.address).await? == treasury + U256::from(ETHER / 100))
        })
        .await?;
        eventually("the book knows", || async {
            Ok(all_payouts(&service).await?.iter().all(|payout| payout.state == State::Executed))
        })
        .await?;
    }
    service.stop().await
}

/// A signature that nobody could use in time is replaced, under the same nonce, and pays once.
#[tokio::test]
async fn an_expired_signature_is_replaced_under_the_same_nonce() -> Result<()> {
    let harness = Harness::isolated(repaid).await?;
    name_allocator(&harness).await?;
    let base = harness.chain("base");
    // Paused: what is signed cannot be executed. The flag shares the slot of the guardian.
    let slot = B256::with_last_byte(3);
    let paused = B256::from(U256::from(1) << 160);
    let _: Value = base.rpc("anvil_setStorageAt", (harness.depository, slot, paused)).await?;
    let service = harness.serve().await?;
    let user = base.fresh_user().await?;
    transfer(&harness, &user, "ETH", ETHER / 100).await?;
    eventually("it is signed", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.state == State::Signed))
    })
    .await?;
    let nonce = all_payouts(&service).await?[0].payout.nonce;
    let count = || async {
        let read = |tx: &mut Tx<'_>| payouts::signatures(tx, payouts::PayoutId(1));
        anyhow::Ok(service.solver.store.read(read).await?)
    };
    harness.let_pass(base, 15).await?;
    ensure!(count().await? == 1, "signed again before the first could expire");
    base.advance_time(Duration::from_secs(1_000)).await?;
    let _: Value = base.rpc("anvil_setStorageAt", (harness.depository, slot, B256::ZERO)).await?;
    eventually("it is paid", || async { Ok(held(&harness, Address::ZERO).await?.is_zero()) }).await?;
    ensure!(count().await? == 2);
    let payouts = all_payouts(&service).await?;
    ensure!(payouts.len() == 1 && payouts[0].payout.nonce == nonce, "{payouts:?}");
    service.stop().await
}

/// A backup from before the payout: what was repaid is found on the chain, and is not repaid again.
#[tokio::test]
async fn a_restored_backup_does_not_repay_what_was_repaid() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let (toml, folder) = (harness.folder.path().join("dev.toml"), harness.folder.path());
    let mut patient = harness.config.clone();
    if let Some(allocator) = &mut patient.allocator {
        allocator.batch_age_secs = 100_000;
    }
    let service = Service::start(&patient, system_env()).await?;
    harness.wait_until_served().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    let treasury = || base.balance(Address::ZERO, harness.treasury.address);
    let had = treasury().await?;
    transfer(&harness, &user, "ETH", ETHER / 100).await?;
    transfer(&harness, &user, "ETH", ETHER / 50).await?;
    // Both, so that one payout repays them.
    eventually("both are booked as settled", || async {
        let settled = |tx: &mut Tx<'_>| depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10);
        Ok(service.solver.store.read(settled).await?.len() == 2)
    })
    .await?;
    service.stop().await?;
    std::fs::copy(folder.join("causeway.db"), folder.join("backup.db"))?;

    let service = harness.serve().await?;
    let repaid = had + U256::from(ETHER / 100 + ETHER / 50);
    eventually("both are repaid", || async { Ok(treasury().await? == repaid) }).await?;
    service.stop().await?;
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(folder.join("backup.db"), folder.join("causeway.db"))?;
    // Money that is not owed, so that a second payout would have something to take.
    base.set_balance(harness.depository, U256::from(ETHER)).await?;

    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let service = harness.serve().await?;
    transfer(&harness, &user, "ETH", ETHER / 200).await?;
    eventually("the new one is repaid", || async { Ok(treasury().await? >= repaid + U256::from(ETHER / 200)) }).await?;
    harness.let_pass(base, 20).await?;
    ensure!(treasury().await? == repaid + U256::from(ETHER / 200), "repaid twice");
    ensure!(all_payouts(&service).await?.len() == 2);
    service.stop().await
}
