//! Gas refills: the operator tops up the native currency of each filler from the treasury. A wallet is filled up once,
//! under any number of callers and crashes, and beside other uses of the treasury's key.

use std::process::Output;

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::{Config, GasRefillConfig, Source};
use causeway::local::OPERATOR_TOKEN;
use causeway::service::Service;
use devnet::Chain;
use domain::ids::{OrderId, RefillId};
use domain::money::Amount;
use serde_json::{Value, json};
use store::payments::{self, Fees, Payment, Purpose, Subject};
use store::{StoreError, Tx};

use crate::audit::agrees;
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, eventually, new_account};
use crate::instances::{LEASE_MILLIS, api, becomes_worker, worker};
use crate::process::{causeway, serve};

const BASE: u64 = 8453;

fn ether(tenths: u64) -> U256 {
    U256::from(tenths) * U256::from(10u64.pow(17))
}

/// On base, wallets should have two ether and not fall below one.
fn with_gas_refill(config: &mut Config) {
    for chain in &mut config.chains {
        chain.finality_blocks = 3;
        chain.gas_refill = (chain.id == BASE).then(|| GasRefillConfig { target: "2".to_owned(), low: "1".to_owned() });
    }
}

/// Gives the service the treasury's key.
fn with_key(mut harness: Harness) -> Result<Harness> {
    let file = harness.folder.path().join("keys/treasury");
    std::fs::write(&file, harness.treasury.private_key.to_string())?;
    harness.config.solver.treasury_key = Some(Source { env: None, file: Some(file) });
    causeway::local::write(&harness.config, harness.folder.path())?;
    Ok(harness)
}

/// The service may run on this thread, so that waiting for the command must not hold it up.
async fn run(harness: &Harness, words: &[&str]) -> Result<Output> {
    let mut command = causeway();
    command.args(words).arg("--config").arg(harness.folder.path().join("dev.toml"));
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn has(chain: &Chain, wallet: Address) -> Result<U256> {
    chain.balance(Address::ZERO, wallet).await
}

async fn filled_up(chain: &Chain, wallet: Address) -> Result<()> {
    eventually("the wallet is filled up", || async { Ok(has(chain, wallet).await? == ether(20)) }).await
}

/// The answer of the operator's route about a wallet, after asking for a top-up or not.
async fn topups(harness: &Harness, send: bool, wallet: Address) -> Result<Value> {
    let call = harness.client.post(harness.url("/operator/topups")).bearer_auth(OPERATOR_TOKEN);
    let answer: Value = call.json(&json!({ "send": send })).send().await?.json().await?;
    let wallets = answer["chains"][0]["wallets"].as_array().with_context(|| answer.to_string())?;
    let found = wallets.iter().find(|it| it["wallet"] == wallet.to_string());
    Ok(found.with_context(|| answer.to_string())?.clone())
}

/// The number of top-ups in the database.
async fn count(service: &Service) -> Result<u64> {
    let sql = "select count(*) from payment where purpose = 'topup'";
    Ok(service.solver.store.read(move |tx| tx.row(sql, &[])).await?.context("a row")?.uint(0)?)
}

async fn final_by_now(service: &Service) -> Result<()> {
    let chain = domain::ids::ChainId(BASE);
    let under_way = || service.solver.store.read(move |tx| payments::under_way(tx, chain, Purpose::Refill, 10));
    eventually("top-ups are final", || async { Ok(under_way().await?.is_empty()) }).await
}

#[tokio::test]
async fn a_low_wallet_is_filled_up_from_the_treasury_once() -> Result<()> {
    let harness = with_key(Harness::with(Engine::Postgres, with_gas_refill).await?)?;
    let base = harness.chain("base");
    let [low, other] = [harness.fillers[0].address, harness.fillers[1].address];
    base.set_balance(low, ether(5)).await?;
    let service = harness.serve().await?;

    let doctor = run(&harness, &["doctor"]).await?;
    ensure!(said(&doctor).contains("`causeway topup` fills it up"), "{doctor:?}");
    let metric = |value: u8| format!("causeway_wallet_gas_low{{chain=\"{BASE}\",wallet=\"{low}\"}} {value}");
    let tells = async |value| {
        Ok(harness.client.get(harness.url("/metrics")).send().await?.text().await?.contains(&metric(value)))
    };
    eventually("the metric warns", || tells(1)).await?;
    harness.knows_holdings(base, "ETH").await?;
    let dry = run(&harness, &["topup"]).await?;
    ensure!(dry.status.success() && said(&dry).contains(&format!("{low} has 0.5 ETH and lacks 1.5 ETH")), "{dry:?}");
    ensure!(
        said(&dry).contains(&format!("{other} has 50.0 ETH\n")) && said(&dry).contains("nothing was sent"),
        "{dry:?}"
    );
    ensure!(has(base, low).await? == ether(5));
    ensure!(harness.post("/operator/topups", &json!({ "send": true })).await?.0 == 401);
    for bad in [json!({ "send": 1 }), json!({ "sent": true }), json!("yes")] {
        let call = harness.client.post(harness.url("/operator/topups")).bearer_auth(OPERATOR_TOKEN);
        ensure!(call.json(&bad).send().await?.status() == 400, "{bad}");
    }

    // Several calls at once, and again: one of them is served.
    let asked = ["topup", "--yes"];
    for output in futures::future::try_join_all((0..4).map(|_| run(&harness, &asked))).await? {
        ensure!(output.status.success(), "{output:?}");
    }
    filled_up(base, low).await?;
    ensure!(run(&harness, &asked).await?.status.success());
    final_by_now(&service).await?;
    ensure!(run(&harness, &asked).await?.status.success());
    ensure!(has(base, low).await? == ether(20) && count(&service).await? == 1, "filled up twice");
    eventually("the metric is content", || tells(0)).await?;

    // The treasury's key is used by hand as well.
    let elsewhere = new_account().address;
    base.send(harness.treasury.private_key, elsewhere, ether(1), Default::default()).await?;
    base.set_balance(other, ether(5)).await?;
    harness.knows_holdings(base, "ETH").await?;
    ensure!(run(&harness, &asked).await?.status.success());
    filled_up(base, other).await?;
    final_by_now(&service).await?;
    base.send(harness.treasury.private_key, elsewhere, ether(1), Default::default()).await?;
    ensure!(has(base, elsewhere).await? == ether(2) && count(&service).await? == 2);
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Asks until the top-up is refused for this reason.
async fn waits_for(harness: &Harness, wallet: Address, why: &str) -> Result<()> {
    eventually(why, || async {
        Ok(topups(harness, true, wallet).await?["waitsFor"].as_str().is_some_and(|it| it.contains(why)))
    })
    .await
}

/// A transaction sent by hand and not mined yet keeps its nonce, and the top-up waits. A top-up is not sent without the
/// key, nor without funds in the treasury.
#[tokio::test]
async fn a_top_up_waits_for_manual_transactions_for_the_key_and_for_funds() -> Result<()> {
    let harness = Harness::isolated(with_gas_refill).await?;
    let base = harness.chain("base");
    let low = harness.fillers[0].address;
    base.set_balance(low, ether(5)).await?;
    let service = harness.serve().await?;
    waits_for(&harness, low, "`solver.treasury_key` is not configured").await?;
    service.stop().await?;

    let harness = with_key(harness)?;
    base.set_balance(harness.treasury.address, ether(10)).await?;
    let service = harness.serve().await?;
    waits_for(&harness, low, "does not have enough").await?;
    base.pause_mining().await;
    let (treasury, elsewhere) = (harness.treasury.private_key, new_account().address);
    let by_hand = base.submit(treasury, elsewhere, ether(1), Default::default()).await?;
    waits_for(&harness, low, "somebody else's on their way").await?;
    ensure!(count(&service).await? == 0);
    base.set_balance(harness.treasury.address, ether(100)).await?;
    base.resume_mining().await;
    base.receipt(by_hand).await?;
    filled_up(base, low).await?;
    ensure!(has(base, elsewhere).await? == ether(1) && count(&service).await? == 1);
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Write access to the database does not make the treasury pay: it signs for our own wallets alone, and for no more
/// than their target.
#[tokio::test]
async fn the_treasury_signs_nothing_but_top_ups() -> Result<()> {
    let harness = with_key(Harness::with(Engine::Sqlite, with_gas_refill).await?)?;
    let base = harness.chain("base");
    let service = harness.serve().await?;
    let (treasury, ours, stranger) = (harness.treasury.address, harness.fillers[0].address, new_account().address);
    let used: U256 = base.rpc("eth_getTransactionCount", (treasury, "latest")).await?;
    let chain = domain::ids::ChainId(BASE);
    let forged = move |subject, target, tenths| Payment {
        subject,
        request: None,
        chain,
        wallet: treasury,
        // All have the next nonce: any that were signed would be mined.
        nonce: used.to::<u64>(),
        target,
        value: Amount::new(ether(tenths)),
        data: Default::default(),
        gas: 50_000,
        recipient: target,
        currency: Address::ZERO,
        amount: Amount::new(ether(tenths)),
    };
    let word = B256::repeat_byte;
    let cases = [
        (Subject::Refill(RefillId(word(1))), stranger, 1),
        (Subject::Fill(OrderId(word(2))), ours, 1),
        (Subject::Refill(RefillId(word(3))), ours, 21),
    ];
    for (subject, target, tenths) in cases {
        let payment = forged(subject, target, tenths);
        let had = has(base, target).await?;
        let fees = Fees { max_fee: 1_000_000_000, max_tip: 1_000_000 };
        let now = service.solver.now();
        let write = move |tx: &mut Tx<'_>| payments::import(tx, &payment, fees, now);
        let stored = service.solver.store.write::<_, StoreError>(write).await?.context("a row")?;
        service.solver.hand_over(vec![stored.clone()]);
        harness.let_pass(base, 8).await?;
        ensure!(has(base, target).await? == had, "{subject:?} {tenths}");
        let remove = move |tx: &mut Tx<'_>| {
            tx.execute("delete from attempt where payment_id = $1", &[stored.id.0.into()])?;
            tx.execute("delete from payment where payment_id = $1", &[stored.id.0.into()])
        };
        service.solver.store.write::<_, StoreError>(remove).await?;
    }
    // A real top-up is signed.
    base.set_balance(ours, ether(5)).await?;
    harness.knows_holdings(base, "ETH").await?;
    ensure!(run(&harness, &["topup", "--yes"]).await?.status.success());
    filled_up(base, ours).await?;
    service.stop().await
}

/// The treasury may be a filler itself: its lane sends top-ups like everything else, and it gets none.
#[tokio::test]
async fn a_treasury_that_fills_tops_up_from_its_own_lane() -> Result<()> {
    let mut harness = with_key(Harness::with(Engine::Sqlite, with_gas_refill).await?)?;
    let base = harness.chain("base");
    // A filler's nonces are all its own: nothing that was sent by hand before counts.
    let used: U256 = base.rpc("eth_getTransactionCount", (harness.treasury.address, "latest")).await?;
    ensure!(!used.is_zero());
    for chain in &harness.devnet.chains {
        chain.rpc::<Value>("anvil_setNonce", (harness.treasury.address, "0x0")).await?;
    }
    let key = harness.config.solver.treasury_key.take().context("a key")?;
    harness.config.solver.filler_keys.push(key);
    harness.config.solver.filler_addresses.push(harness.treasury.address);
    causeway::local::write(&harness.config, harness.folder.path())?;
    let low = harness.fillers[0].address;
    base.set_balance(low, ether(5)).await?;
    base.set_balance(harness.treasury.address, ether(50)).await?;
    let service = harness.serve().await?;
    harness.knows_holdings(base, "ETH").await?;
    let sent = run(&harness, &["topup", "--yes"]).await?;
    ensure!(sent.status.success(), "{sent:?}");
    ensure!(!said(&sent).contains(&format!("{} has", harness.treasury.address)), "{sent:?}");
    filled_up(base, low).await?;
    final_by_now(&service).await?;
    ensure!(count(&service).await? == 1);
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The operator's command sees the service die, and is run again against the next one.
async fn dying_fills_up_once(point: &str) -> Result<()> {
    let harness = with_key(Harness::isolated(with_gas_refill).await?)?;
    let base = harness.chain("base");
    let low = harness.fillers[0].address;
    base.set_balance(low, ether(5)).await?;
    let toml = harness.folder.path().join("dev.toml");
    let mut first = serve(&toml, Some(point))?;
    harness.wait_until_served().await?;
    harness.knows_holdings(base, "ETH").await?;
    // The service may be dead before it has answered.
    let _ = run(&harness, &["topup", "--yes"]).await?;
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "{point}: it ended in order");
    let second = serve(&toml, None)?;
    harness.wait_until_served().await?;
    let again = run(&harness, &["topup", "--yes"]).await?;
    ensure!(again.status.success(), "{point}: {again:?}");
    filled_up(base, low).await?;
    harness.let_pass(base, 12).await?;
    ensure!(has(base, low).await? == ether(20), "{point}: filled up twice");
    ensure!(second.terminate().await?.success());
    agrees(&harness).await.map(drop)
}

#[tokio::test]
async fn dying_with_a_top_up_signed_fills_up_once() -> Result<()> {
    dying_fills_up_once("payment.signed").await
}

#[tokio::test]
async fn dying_with_a_top_up_sent_fills_up_once() -> Result<()> {
    dying_fills_up_once("payment.sent").await
}

/// The API that answers has no key of any wallet, and the worker dies with the top-up decided: the next worker sends
/// it.
#[tokio::test]
async fn a_top_up_is_paid_by_the_current_worker() -> Result<()> {
    let harness = Harness::unhurried(|config| {
        with_gas_refill(config);
        config.instances.lease_millis = LEASE_MILLIS;
    })
    .await?;
    let harness = with_key(harness)?;
    let base = harness.chain("base");
    let low = harness.fillers[0].address;
    base.set_balance(low, ether(5)).await?;
    let answering = api(&harness)?;
    let mut first = worker(&harness, "first", Some("payment.signed"))?;
    becomes_worker(&harness, &first).await?;
    harness.wait_until_served().await?;
    harness.knows_holdings(base, "ETH").await?;
    let second = worker(&harness, "second", None)?;
    let mut topup = causeway();
    topup.args(["topup", "--yes", "--config"]).arg(harness.folder.path().join("api.toml"));
    let asked = tokio::task::spawn_blocking(move || topup.output()).await??;
    ensure!(asked.status.success() && said(&asked).contains("not final yet"), "{asked:?}");
    ensure!(!first.process.wait_until_dead(WAIT_TIMEOUT).await?.success());
    becomes_worker(&harness, &second).await?;
    filled_up(base, low).await?;
    topups(&harness, true, low).await?;
    harness.let_pass(base, 8).await?;
    ensure!(has(base, low).await? == ether(20), "filled up twice");
    for part in [second, answering] {
        ensure!(part.process.terminate().await?.success());
    }
    agrees(&harness).await.map(drop)
}
