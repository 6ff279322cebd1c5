//! Fast fills: paid once in every race, with a hold on the integrator's balance until the deposit comes.

use std::time::Duration;

use alloy::primitives::{Address, B256, U256, eip191_hash_message};
use anyhow::{Context, Result, ensure};
use causeway::service::Service;
use devnet::Account;
use domain::ledger::Account as Balance;
use evm::LocalSigner;
use evm::account_tag::tag;
use evm::calldata::erc20_fill;
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use store::{StoreError, Tx, ledger};

use crate::harness::{
    Engine, Harness, WAIT_TIMEOUT, amount, ask, eventually, execute, new_account, request_id, transactions,
};
use crate::keys::create;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
pub const USDC: u64 = 1_000_000;

/// An integrator: an API key and the wallet behind it.
pub struct Integrator {
    pub key: String,
    pub wallet: Account,
}

impl Integrator {
    pub async fn post(&self, harness: &Harness, path: &str, body: &Value) -> Result<(u16, Value)> {
        harness.served(harness.client.post(harness.url(path)).header("x-api-key", &self.key).json(body)).await
    }

    pub async fn fast_fill(&self, harness: &Harness, request: &str) -> Result<(u16, Value)> {
        self.post(harness, "/fast-fill", &json!({ "requestId": request })).await
    }
}

pub fn sign(account: &Account, message: &str) -> String {
    let signer = LocalSigner::from_hex(&account.private_key.to_string()).unwrap();
    format!("0x{}", alloy::hex::encode(signer.sign_digest(eip191_hash_message(message)).as_bytes()))
}

/// A key, linked to a wallet by the wallet's signature, with a balance that came by a transfer of USDC. The service
/// runs.
pub async fn integrator(harness: &Harness, dollars: u64) -> Result<Integrator> {
    let (_, key) = create(harness, &["--elevated"])?;
    let base = harness.chain("base");
    let integrator = Integrator { key, wallet: base.fresh_user().await? };
    let wallet = integrator.wallet.address;
    let (code, asked) = integrator.post(harness, "/keys/wallet", &json!({ "wallet": wallet })).await?;
    ensure!(code == 200, "{asked}");
    let signature = sign(&integrator.wallet, asked["message"].as_str().context("message")?);
    let body = json!({ "wallet": wallet, "signature": signature });
    let (code, linked) = integrator.post(harness, "/keys/wallet", &body).await?;
    ensure!(code == 200 && linked["linked"] == true, "{linked}");
    if dollars > 0 {
        let data = erc20_fill(harness.treasury.address, U256::from(dollars * USDC), tag(wallet));
        base.send(integrator.wallet.private_key, base.token("USDC").address, U256::ZERO, data).await?;
        eventually("the balance is credited", || async {
            let (_, body) = harness.get(&format!("/app-fees/{wallet:#x}/balances")).await?;
            Ok(body["amount"] == json!((dollars * USDC).to_string()))
        })
        .await?;
    }
    Ok(integrator)
}

async fn balance(service: &Service, wallet: Address) -> Result<Balance> {
    Ok(service.solver.store.read(move |tx| ledger::account(tx, wallet)).await?)
}

/// Balance and holds, in millionths.
pub async fn books(service: &Service, wallet: Address) -> Result<(i64, i64)> {
    let account = balance(service, wallet).await?;
    Ok((account.balance.0, account.held.0))
}

pub async fn count(service: &Service, sql: &'static str) -> Result<i64> {
    let row = service.solver.store.read(move |tx| tx.row(sql, &[])).await?;
    Ok(row.context("a row")?.int(0)?)
}

/// A transfer of USDC, quoted with the integrator's key.
async fn quoted(harness: &Harness, by: &Integrator, user: Address, to: Address, dollars: u64) -> Result<Value> {
    let (from, there) = (harness.chain("base").token("USDC").address, harness.chain("optimism").token("USDC").address);
    let body = ask(user, to, (BASE, from), (OPTIMISM, there), U256::from(dollars * USDC));
    let (code, quote) = by.post(harness, "/quote/v2", &body).await?;
    ensure!(code == 200, "{quote}");
    Ok(quote)
}

#[tokio::test]
async fn a_fast_fill_is_paid_before_its_deposit_which_frees_the_hold() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 1_000).await?;
    let wallet = by.wallet.address;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let there = optimism.token("USDC").address;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = quoted(&harness, &by, user.address, recipient, 100).await?;
    let request = request_id(&quote);

    // Callers without the right, and bodies that are refused.
    let body = json!({ "requestId": request });
    ensure!(harness.post("/fast-fill", &body).await?.0 == 401);
    let (_, unlinked) = create(&harness, &[])?;
    let unlinked = Integrator { key: unlinked, wallet: new_account() };
    ensure!(unlinked.fast_fill(&harness, request).await?.0 == 403);
    let poor = integrator(&harness, 5).await?;
    ensure!(poor.fast_fill(&harness, request).await?.0 == 403);
    let unknown = format!("0x{}", "ab".repeat(32));
    ensure!(by.fast_fill(&harness, &unknown).await?.0 == 404);
    for (member, value) in [
        ("requestId", json!("0x12")),
        ("maxFillAmountUsd", json!(99.99)),
        ("maxFillAmountUsd", json!(1000.01)),
        ("maxFillAmountUsd", json!(-1)),
        ("solverInputCurrencyAmount", json!("90000000")),
        ("solverInputCurrencyAmount", json!("200000000")),
        ("solverInputCurrencyAmount", json!("x")),
    ] {
        let mut bad = body.clone();
        bad[member] = value;
        let (code, answer) = by.post(&harness, "/fast-fill", &bad).await?;
        ensure!(code == 400 && answer["message"].as_str().unwrap().contains(member), "{bad}: {code} {answer}");
    }
    // Another integrator cannot fast-fill the request against a smaller deposit.
    let less = json!({ "requestId": request, "solverInputCurrencyAmount": "99700000" });
    let other = integrator(&harness, 200).await?;
    ensure!(other.post(&harness, "/fast-fill", &less).await?.0 == 400);
    ensure!(count(&service, "select count(*) from ledger_hold").await? == 0, "a refusal left a hold");

    // The recipient is paid while nothing was deposited.
    let (code, answer) = by.fast_fill(&harness, request).await?;
    ensure!(code == 200 && answer["message"].is_string(), "{answer}");
    let status = harness.wait_for(request, "success").await?;
    ensure!(status["inTxHashes"] == json!([]) && status["txHashes"].as_array().unwrap().len() == 1, "{status}");
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(there, recipient).await? == promised);
    ensure!(books(&service, wallet).await? == (1_000_000_000, 100_000_000));
    let id = request.parse()?;
    let rules = service.solver.store.read(move |tx| store::events::rules(tx, id)).await?;
    // A block may hold the fill before it is noted that it was sent.
    let states = rules.iter().map(|(state, _)| state.as_str()).filter(|state| *state != "submitted");
    ensure!(states.eq(["waiting", "success"]), "{rules:?}");
    // A second call is answered the same way, and nothing more happens.
    ensure!(by.fast_fill(&harness, request).await?.0 == 200);
    ensure!(books(&service, wallet).await? == (1_000_000_000, 100_000_000));

    // The deposit frees the balance, and is reported once.
    execute(base, &quote, &user).await?;
    eventually("the hold ends", || async { Ok(books(&service, wallet).await? == (1_000_000_000, 0)) }).await?;
    let status = harness.status(request).await?;
    ensure!(status["status"] == "success" && status["inTxHashes"].as_array().unwrap().len() == 1, "{status}");
    let rules = service.solver.store.read(move |tx| store::events::rules(tx, id)).await?;
    ensure!(rules.iter().filter(|(state, _)| state == "success").count() == 2, "{rules:?}");
    harness.let_pass(optimism, 4).await?;
    ensure!(optimism.balance(there, recipient).await? == promised, "paid twice");

    // The excess of the deposit over the amount counted on is the integrator's.
    let quote = quoted(&harness, &by, user.address, recipient, 100).await?;
    let request = request_id(&quote);
    let less = json!({ "requestId": request, "solverInputCurrencyAmount": "99800000", "maxFillAmountUsd": 99.8 });
    let (code, answer) = by.post(&harness, "/fast-fill", &less).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request, "success").await?;
    ensure!(books(&service, wallet).await? == (1_000_000_000, 99_800_000));
    execute(base, &quote, &user).await?;
    eventually("the surplus is booked", || async { Ok(books(&service, wallet).await? == (1_000_200_000, 0)) }).await?;
    service.stop().await
}

/// A process that has not noticed another worker holds the balance and leaves the payment to that worker. When the
/// other dies, this one pays.
#[tokio::test]
async fn a_process_that_is_not_the_worker_pays_no_fast_fill() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let optimism = harness.chain("optimism");
    let (user, recipient) = (harness.chain("base").fresh_user().await?, new_account().address);
    let quote = quoted(&harness, &by, user.address, recipient, 10).await?;
    let other = |tx: &mut Tx<'_>| {
        let far = i64::MAX.into();
        tx.execute(
            "insert into instance (instance_id, name, role, answers, started_at, beats, expires_at)
             values ('other', 'other', 'worker', 0, 0, 0, $1)",
            &[far],
        )?;
        tx.execute("update lease set epoch = epoch + 1, holder = 'other', name = 'other' where kind = 'worker'", &[])
    };
    service.solver.store.write::<_, StoreError>(other).await?;
    for _ in 0..2 {
        let (code, answer) = by.fast_fill(&harness, request_id(&quote)).await?;
        // A second call finds it under way.
        ensure!([200, 409].contains(&code), "{answer}");
        ensure!(count(&service, "select count(*) from payment").await? == 0, "paid without the lease");
        ensure!(count(&service, "select count(*) from due").await? == 1);
        ensure!(books(&service, by.wallet.address).await? == (100_000_000, 10_000_000));
        eventually("it knows", || async { Ok(service.solver.leased.load().is_none()) }).await?;
    }
    let dies = |tx: &mut Tx<'_>| tx.execute("delete from instance where instance_id = 'other'", &[]);
    service.solver.store.write::<_, StoreError>(dies).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(count(&service, "select count(*) from payment").await? == 1);
    let there = optimism.token("USDC").address;
    ensure!(optimism.balance(there, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    service.stop().await
}

async fn many_at_once(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 305).await?;
    let wallet = by.wallet.address;
    let (user, recipient) = (harness.chain("base").fresh_user().await?, new_account().address);

    let quotes = try_join_all((0..200).map(|_| quoted(&harness, &by, user.address, recipient, 10))).await?;

    // Two hundred calls on one request: one fill, one hold.
    let quote = quoted(&harness, &by, user.address, recipient, 5).await?;
    let request = request_id(&quote);
    let calls = join_all((0..200).map(|_| by.fast_fill(&harness, request))).await;
    let codes = calls.into_iter().map(|call| call.map(|(code, _)| code)).collect::<Result<Vec<_>>>()?;
    ensure!(codes.iter().all(|code| [200, 409].contains(code)) && codes.contains(&200), "{codes:?}");
    harness.wait_for(request, "success").await?;
    ensure!(count(&service, "select count(*) from ledger_hold").await? == 1);
    ensure!(count(&service, "select count(*) from payment").await? == 1);
    ensure!(books(&service, wallet).await? == (305 * 1_000_000, 5_000_000));

    // Two hundred requests of ten dollars, and three hundred dollars: thirty are filled.
    let watching = async {
        loop {
            let account = balance(&service, wallet).await?;
            ensure!(account.held <= account.balance, "more is held than is there: {account:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let calling = join_all(quotes.iter().map(|quote| by.fast_fill(&harness, request_id(quote))));
    let calls = tokio::select! {
        calls = calling => calls,
        broken = watching => { let never: Result<()> = broken; never?; unreachable!("it watches for ever") }
    };
    let codes = calls.into_iter().map(|call| call.map(|(code, _)| code)).collect::<Result<Vec<_>>>()?;
    let filled = codes.iter().filter(|code| **code == 200).count();
    ensure!(filled == 30 && codes.iter().all(|code| [200, 403].contains(code)), "{filled} {codes:?}");
    ensure!(books(&service, wallet).await? == (305_000_000, 305_000_000));
    ensure!(count(&service, "select count(*) from ledger_hold where state = 'open'").await? == 31);
    // Each is decided once, or waits for a lane.
    let decided = "select (select count(*) from payment) + (select count(*) from due)";
    ensure!(count(&service, decided).await? == 31);
    service.stop().await
}

#[tokio::test]
async fn many_fast_fills_at_once_pay_once_and_never_exceed_the_balance_sqlite() -> Result<()> {
    many_at_once(Engine::Sqlite).await
}

#[tokio::test]
async fn many_fast_fills_at_once_pay_once_and_never_exceed_the_balance_postgres() -> Result<()> {
    many_at_once(Engine::Postgres).await
}

#[tokio::test]
async fn the_destination_is_paid_while_the_origin_stands_still_and_a_deposit_that_never_lands_is_lost() -> Result<()> {
    let harness = Harness::isolated(|config| {
        config.fast_fill.window_secs = 600;
        for chain in &mut config.chains {
            for feed in chain.tokens.iter_mut().filter_map(|token| token.feed.as_mut()) {
                feed.max_age_secs = 100_000;
            }
            chain.native.feed.max_age_secs = 100_000;
        }
    })
    .await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 500).await?;
    let wallet = by.wallet.address;
    let base = harness.chain("base");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);

    // The deposit is sent and not mined; the recipient is paid.
    let quote = quoted(&harness, &by, user.address, recipient, 100).await?;
    let never = quoted(&harness, &by, user.address, recipient, 50).await?;
    let mut steps = transactions(&quote)?;
    let deposit = steps.pop().context("a deposit")?;
    for step in steps {
        base.send(user.private_key, step.to, step.value, step.data).await?;
    }
    base.pause_mining().await;
    let height = base.block_number().await?;
    let hash: B256 = base.submit_with(user.private_key, deposit.to, deposit.value, deposit.data, 500_000).await?;
    let (code, answer) = by.fast_fill(&harness, request_id(&quote)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(base.block_number().await? == height, "the origin went on");
    ensure!(books(&service, wallet).await? == (500_000_000, 100_000_000));
    base.resume_mining().await;
    base.receipt(hash).await?;
    eventually("the hold ends", || async { Ok(books(&service, wallet).await? == (500_000_000, 0)) }).await?;

    // A hold whose deposit does not come is spent when its window has ended for good, and not before.
    let (code, answer) = by.fast_fill(&harness, request_id(&never)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&never), "success").await?;
    harness.let_pass(base, 14).await?;
    ensure!(books(&service, wallet).await? == (500_000_000, 50_000_000));
    base.advance_time(Duration::from_secs(1_000)).await?;
    harness.finalise(base).await?;
    eventually("the loss is booked", || async { Ok(books(&service, wallet).await? == (450_000_000, 0)) }).await?;
    // The deposit comes after all: it is credited once it is final, and nobody is paid again.
    execute(base, &never, &user).await?;
    eventually("it is credited back", || async { Ok(books(&service, wallet).await? == (500_000_000, 0)) }).await?;
    harness.let_pass(base, 14).await?;
    ensure!(books(&service, wallet).await? == (500_000_000, 0));
    ensure!(count(&service, "select count(*) from payment").await? == 2);
    ensure!(harness.status(request_id(&never)).await?["status"] == "success");
    service.stop().await
}

/// The deposit and the calls arrive together: in either order the recipient is paid once.
async fn races(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 1_000).await?;
    let wallet = by.wallet.address;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let there = optimism.token("USDC").address;
    for _ in 0..6 {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let quote = quoted(&harness, &by, user.address, recipient, 20).await?;
        let request = request_id(&quote);
        let calls = async {
            for _ in 0..20 {
                let (code, body) = by.fast_fill(&harness, request).await?;
                ensure!([200, 409].contains(&code), "{body}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let (deposited, called) = tokio::join!(execute(base, &quote, &user), calls);
        deposited.and(called)?;
        harness.wait_for(request, "success").await?;
        eventually("the books are even", || async { Ok(books(&service, wallet).await? == (1_000_000_000, 0)) }).await?;
        harness.let_pass(optimism, 1).await?;
        let promised = amount(&quote["details"]["currencyOut"]["amount"]);
        ensure!(optimism.balance(there, recipient).await? == promised, "not paid once");
    }
    ensure!(count(&service, "select count(*) from payment").await? == 6);
    service.stop().await
}

#[tokio::test]
async fn a_deposit_that_lands_during_the_call_pays_once_sqlite() -> Result<()> {
    races(Engine::Sqlite).await
}

#[tokio::test]
async fn a_deposit_that_lands_during_the_call_pays_once_postgres() -> Result<()> {
    races(Engine::Postgres).await
}

/// The crash test at the point where a fast fill is committed and nothing was sent.
pub async fn crash(harness: &Harness) -> Result<(Value, Address)> {
    let by = integrator(harness, 200).await?;
    let base = harness.chain("base");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(20_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (42161, Address::ZERO), value);
    let (code, quote) = by.post(harness, "/quote/v2", &body).await?;
    ensure!(code == 200, "{quote}");
    // The process dies under the call.
    ensure!(tokio::time::timeout(WAIT_TIMEOUT, by.fast_fill(harness, request_id(&quote))).await?.is_err());
    execute(base, &quote, &user).await?;
    Ok((quote, recipient))
}
