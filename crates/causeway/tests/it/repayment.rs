//! The solver is repaid out of the depositories: exactly, once, and only for what the chains prove.

use std::time::Duration;

use allocator::identity;
use alloy::primitives::{Address, B256, U256, hex};
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

use crate::harness::{Engine, Harness, amount, ask, blocks_pass, eventually, execute, new_account, request_id};
use crate::process::causeway;

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

async fn all_payouts(service: &Service) -> Result<Vec<payouts::PayoutRow>> {
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
    ensure!(base.balance(Address::ZERO, treasury).await? == had.0 + sum);
    ensure!(base.balance(usdc, treasury).await? == had.1 + U256::from(70_000_000u64));
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
    ensure!(base.balance(usdc, harness.treasury.address).await? == had + users);
    service.stop().await
}

/// A deposit that is more than our own funds may return goes back out of the depository.
#[tokio::test]
async fn a_large_stray_deposit_goes_back_out_of_the_depository() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    // Our wallets hold fifty each, and a return may take a tenth of what one can pay.
    let value = U256::from(20u64) * U256::from(ETHER);
    let data = calldata::deposit_native(user.address, domain::ids::OrderId(B256::repeat_byte(0xdd)));
    base.send(user.private_key, harness.depository, value, data).await?;
    let had = base.balance(Address::ZERO, user.address).await?;
    let treasury = base.balance(Address::ZERO, harness.treasury.address).await?;
    eventually("it is back", || async { Ok(base.balance(Address::ZERO, user.address).await? > had) }).await?;
    let back = base.balance(Address::ZERO, user.address).await? - had;
    ensure!(back < value && back > value - U256::from(ETHER / 1_000), "{back}");
    // What was kept for gas is repaid to us, and nothing stays.
    eventually("the rest is repaid", || async { Ok(held(&harness, Address::ZERO).await?.is_zero()) }).await?;
    ensure!(base.balance(Address::ZERO, harness.treasury.address).await? == treasury + value - back);
    service.stop().await
}

/// A second deposit under a filled order, too large for our own funds: a request of its own, refunded by the depository.
#[tokio::test]
async fn a_large_second_deposit_is_refunded_out_of_the_depository() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    let quote = transfer(&harness, &user, "ETH", ETHER / 50).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let value = U256::from(20u64) * U256::from(ETHER);
    base.send(user.private_key, harness.depository, value, calldata::deposit_native(user.address, order)).await?;
    let had = base.balance(Address::ZERO, user.address).await?;
    eventually("it is back", || async { Ok(base.balance(Address::ZERO, user.address).await? > had) }).await?;
    let child = |tx: &mut Tx<'_>| {
        let row = tx.row("select state from request where parent_id is not null", &[])?;
        row.map(|row| row.text(0).map(str::to_owned)).transpose()
    };
    eventually("its request says so", || async {
        let state: Option<String> = service.solver.store.read::<_, StoreError>(child).await?;
        Ok(state.as_deref() == Some("refunded"))
    })
    .await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "success");
    eventually("nothing stays", || async { Ok(held(&harness, Address::ZERO).await?.is_zero()) }).await?;
    service.stop().await
}

/// Fills that trade, call or bring gas are proven by other logs than plain ones; deposits that were traded for, by theirs.
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
    let toml = harness.folder.path().join("dev.toml");
    let audit = causeway().args(["audit", "--config"]).arg(&toml).output()?;
    ensure!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    Ok(())
}

/// Three lies in the solver's tables and one in the allocator's own: none is signed for.
#[tokio::test]
async fn forged_rows_are_refused() -> Result<()> {
    // Filled while nobody repays, so that there is time to lie.
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let mut unpaid = harness.config.clone();
    unpaid.allocator = None;
    let service = Service::start(&unpaid, system_env()).await?;
    harness.wait_until_served().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    let mut orders = Vec::new();
    for _ in 0..4 {
        let quote = transfer(&harness, &user, "ETH", ETHER / 100).await?;
        orders.push(quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse::<B256>()?);
    }
    blocks_pass(harness.chain("optimism"), 10).await?;
    let at = orders.clone();
    let forge = move |tx: &mut Tx<'_>| {
        // A fill that never was; one that was another order's; a quote that promises less.
        let hash = "update payment set tx_hash = $2 where order_id = $1";
        tx.execute(hash, &[at[0].into(), B256::repeat_byte(0xaa).into()])?;
        let other = tx.row("select tx_hash from payment where order_id = $1", &[at[3].into()])?.unwrap().b256(0)?;
        tx.execute(hash, &[at[1].into(), other.into()])?;
        let quote = tx.row("select quote from request where order_id = $1", &[at[2].into()])?.unwrap();
        let mut quote: Value = serde_json::from_str(quote.text(0)?).unwrap();
        quote["figures"]["minimum"] = "1".into();
        tx.execute("update request set quote = $2 where order_id = $1", &[at[2].into(), quote.to_string().into()])?;
        // A deposit that never was, under a filled order.
        let copied = tx.execute(
            "insert into deposit (chain_id, tx_hash, ordinal, log_index, block_number, block_hash, block_time, order_id,
             depositor, payer, sender, currency, amount, state, seen_at, claim)
             select chain_id, $2, ordinal, log_index, block_number, block_hash, block_time, order_id, depositor, payer,
             sender, currency, '1000000000000000000', state, seen_at, claim from deposit where order_id = $1",
            &[at[3].into(), B256::repeat_byte(0xbb).into()],
        )?;
        assert_eq!(copied, 1);
        Ok::<_, StoreError>(())
    };
    service.solver.store.write(forge).await?;
    service.stop().await?;

    let treasury = base.balance(Address::ZERO, harness.treasury.address).await?;
    let service = harness.serve().await?;
    eventually("the honest one is repaid", || async {
        Ok(base.balance(Address::ZERO, harness.treasury.address).await? > treasury)
    })
    .await?;
    let reasons = |tx: &mut Tx<'_>| {
        let rows = tx.rows("select refusal from depository_deposit where settled = 2 order by block_number", &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<Vec<_>, StoreError>>()
    };
    eventually("the others are refused", || async { Ok(service.solver.store.read(reasons).await?.len() == 3) }).await?;
    let expected = [
        "the transaction that settled it is not on the chain",
        "the transaction that settled it names another order",
        "the stored quote is not the one of the order",
    ];
    ensure!(service.solver.store.read(reasons).await? == expected);
    // A payout to somebody else, as if the allocator itself had decided on it.
    let thief = new_account().address;
    let steal = move |tx: &mut Tx<'_>| {
        let key =
            tx.row("select deposit_key from depository_deposit where settled = 2 limit 1", &[])?.unwrap().b256(0)?;
        let held = depository_ledger::lock(tx, key)?.unwrap();
        depository_ledger::promise(tx, &held, held.deposit.amount, Amount::ZERO)?;
        let payout = forged(&held, thief);
        payouts::insert(tx, &payout, &[(key, payout.amount)], State::Intended, outside_now())?;
        Ok::<_, StoreError>(())
    };
    service.solver.store.write(steal).await?;
    eventually("it says why not", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.payout.recipient == thief && payout.note.is_some()))
    })
    .await?;
    blocks_pass(base, 10).await?;
    ensure!(base.balance(Address::ZERO, thief).await?.is_zero());
    ensure!(base.balance(Address::ZERO, harness.treasury.address).await? == treasury + U256::from(ETHER / 100));
    ensure!(held(&harness, Address::ZERO).await? == U256::from(3 * (ETHER / 100)));
    service.stop().await
}

fn outside_now() -> domain::time::Timestamp {
    (system_env().clock)()
}

fn forged(held: &depository_ledger::Held, thief: Address) -> Payout {
    let subject = identity::batch_key(&[held.deposit.key]);
    Payout {
        nonce: identity::nonce(Kind::Batch, subject),
        kind: Kind::Batch,
        subject,
        chain: ChainId(BASE),
        currency: Address::ZERO,
        recipient: thief,
        amount: held.deposit.amount,
    }
}

/// More than came in cannot be promised, whoever asks.
#[tokio::test]
async fn the_database_itself_refuses_to_promise_too_much() -> Result<()> {
    let harness = harness(Engine::Sqlite, |config| {
        if let Some(allocator) = &mut config.allocator {
            allocator.batch_age_secs = 100_000;
        }
    })
    .await?;
    let service = harness.serve().await?;
    let user = harness.chain("base").fresh_user().await?;
    transfer(&harness, &user, "ETH", ETHER / 100).await?;
    eventually("it is booked as settled", || async {
        let held = service
            .solver
            .store
            .read(|tx| depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10))
            .await?;
        Ok(held.len() == 1)
    })
    .await?;
    let promise = |tx: &mut Tx<'_>| {
        let held = depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10)?.remove(0);
        let more = Amount::new(held.deposit.amount.units() + U256::from(1));
        depository_ledger::promise(tx, &held, more, Amount::ZERO)
    };
    ensure!(service.solver.store.write(promise).await.is_err());
    // Nor is what may be promised paid to anybody but the treasury, whatever the row says.
    let thief = new_account().address;
    let steal = move |tx: &mut Tx<'_>| {
        let held = depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10)?.remove(0);
        depository_ledger::promise(tx, &held, held.deposit.amount, Amount::ZERO)?;
        let payout = forged(&held, thief);
        let id = payouts::insert(tx, &payout, &[(held.deposit.key, payout.amount)], State::Intended, outside_now())?;
        // Not even if it looks as if that had been decided before a crash.
        let (issued, expiration, struct_hash) = (4_000_000_000, 4_000_000_900, B256::repeat_byte(7));
        let decided = payouts::Signature { ordinal: 1, issued, expiration, struct_hash, bytes: None };
        payouts::decide(tx, id.expect("it is new"), &decided, outside_now())?;
        Ok::<_, StoreError>(())
    };
    service.solver.store.write(steal).await?;
    let refused =
        |payout: &payouts::PayoutRow| payout.note.as_ref().is_some_and(|note| note.contains("the treasury only"));
    eventually("it says why not", || async { Ok(all_payouts(&service).await?.iter().any(refused)) }).await?;
    service.stop().await
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
    blocks_pass(base, 15).await?;
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

/// With one of two nodes on a fork of its own, or blind, nothing is signed; once it is honest again, everything is.
#[tokio::test]
async fn nodes_that_disagree_get_no_signature() -> Result<()> {
    let harness = Harness::isolated(repaid).await?;
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
        eventually("it is repaid", || async { Ok(held(&harness, Address::ZERO).await?.is_zero()) }).await?;
        ensure!(base.balance(Address::ZERO, harness.treasury.address).await? == treasury + U256::from(ETHER / 100));
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
    blocks_pass(base, 15).await?;
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
    blocks_pass(base, 10).await?;
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

    let recovered = causeway().args(["recover", "--config"]).arg(&toml).output()?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let service = harness.serve().await?;
    transfer(&harness, &user, "ETH", ETHER / 200).await?;
    eventually("the new one is repaid", || async { Ok(treasury().await? >= repaid + U256::from(ETHER / 200)) }).await?;
    blocks_pass(base, 20).await?;
    ensure!(treasury().await? == repaid + U256::from(ETHER / 200), "repaid twice");
    ensure!(all_payouts(&service).await?.len() == 2);
    service.stop().await
}
