//! Several processes on one Postgres: each with the keys of its role, one at a time paying, the others taking over.

use std::path::PathBuf;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use causeway::served::Served;
use devnet::Account;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::claims;
use crate::fast_fill::integrator;
use crate::harness::{Engine, Harness, amount, ask, eventually, execute, new_account, request_id};
use crate::process::{causeway, recover, serve_as};
use crate::repayment;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
/// The silence after which a process counts as dead: longer than a busy machine keeps a process that lives from its
/// heartbeat.
pub const LEASE_MILLIS: u64 = 12_000;

/// One process of a deployment, with a configuration and an address of its own.
pub struct Part {
    pub process: Served,
    url: String,
}

impl Part {
    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let response = devnet::http::get(format!("{}{path}", self.url)).await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    async fn instance(&self) -> Result<Value> {
        let (_, lives) = self.get("/lives").await?;
        Ok(serde_json::from_str::<Value>(&lives)?["report"]["instance"].take())
    }

    async fn name(&self) -> Result<String> {
        Ok(self.instance().await?["name"].as_str().context("name")?.to_owned())
    }

    /// The count of leases it has lost as the worker: on a busy machine perhaps more than one.
    async fn leases_lost(&self) -> Result<u64> {
        let (_, metrics) = self.get("/metrics").await?;
        let mut values =
            metrics.lines().filter_map(|line| line.strip_prefix("causeway_leases_lost_total{kind=\"worker\"} "));
        Ok(values.next().map(str::parse).transpose()?.unwrap_or_default())
    }

    /// Waits until it answers.
    async fn is_up(&self) -> Result<()> {
        eventually("the process answers", || async { Ok(self.instance().await.is_ok()) }).await
    }
}

/// A configuration of its own: `change` removes the keys that the process is not given.
fn file(harness: &Harness, name: &str, port: u16, change: impl FnOnce(&mut Config)) -> Result<PathBuf> {
    let mut config = harness.config.clone();
    config.listen.set_port(port);
    change(&mut config);
    let path = harness.folder.path().join(format!("{name}.toml"));
    std::fs::write(&path, toml::to_string_pretty(&config)?)?;
    Ok(path)
}

/// The keys of an API: none of any wallet.
fn without_wallets(config: &mut Config) {
    config.solver.filler_keys.clear();
    config.solver.treasury_key = None;
    config.allocator = None;
}

/// The keys of a worker: those of the wallets alone.
fn only_wallets(config: &mut Config) {
    config.solver.order_key = None;
    config.solver.attestation_key = None;
    config.operator.token = None;
    config.allocator = None;
}

/// The keys of the allocator: its own alone.
fn only_allocator(config: &mut Config) {
    config.solver.order_key = None;
    config.solver.attestation_key = None;
    config.operator.token = None;
    config.solver.filler_keys.clear();
    config.solver.treasury_key = None;
}

pub fn api(harness: &Harness) -> Result<Part> {
    let port = harness.config.listen.port();
    let process = serve_as("api", &file(harness, "api", port, without_wallets)?, None)?;
    Ok(Part { process, url: harness.url("") })
}

pub fn worker(harness: &Harness, name: &str, crash_at: Option<&str>) -> Result<Part> {
    let port = devnet::free_port()?;
    let process = serve_as("worker", &file(harness, name, port, only_wallets)?, crash_at)?;
    Ok(Part { process, url: format!("http://127.0.0.1:{port}") })
}

fn allocator(harness: &Harness) -> Result<Part> {
    let port = devnet::free_port()?;
    let process = serve_as("allocator", &file(harness, "allocator", port, only_allocator)?, None)?;
    Ok(Part { process, url: format!("http://127.0.0.1:{port}") })
}

async fn harness() -> Result<Harness> {
    let harness = Harness::unhurried(|config| {
        repayment::repaid(config);
        config.instances.lease_millis = LEASE_MILLIS;
    })
    .await?;
    repayment::name_allocator(&harness).await?;
    Ok(harness)
}

/// The lease as the API sees it: its holder, and the number of times it was taken. Zero while nobody holds it.
async fn lease(harness: &Harness, kind: &str) -> Result<(String, i64)> {
    let (_, lives) = harness.get("/lives").await?;
    let leases = lives["report"]["instance"]["leases"].as_array().cloned().unwrap_or_default();
    let lease = leases.into_iter().find(|lease| lease["kind"] == kind).unwrap_or_default();
    let held = lease["held"] == true;
    let holder = lease["holder"].as_str().unwrap_or_default().to_owned();
    Ok((holder, lease["epoch"].as_i64().filter(|_| held).unwrap_or_default()))
}

pub async fn becomes_worker(harness: &Harness, part: &Part) -> Result<i64> {
    part.is_up().await?;
    let name = part.name().await?;
    let holds =
        || async { Ok(lease(harness, "worker").await.is_ok_and(|(holder, epoch)| holder == name && epoch > 0)) };
    eventually("it becomes the worker", holds).await?;
    Ok(lease(harness, "worker").await?.1)
}

struct Transfer {
    quote: Value,
    recipient: Address,
}

/// Transfers of one user, to be deposited: without a worker there are no quotes.
async fn quoted(harness: &Harness, count: usize) -> Result<(Account, Vec<Transfer>)> {
    let user = harness.chain("base").fresh_user().await?;
    let mut transfers = Vec::new();
    for _ in 0..count {
        let recipient = new_account().address;
        let value = U256::from(20_000_000_000_000_000u64);
        let body = ask(user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
        transfers.push(Transfer { quote: harness.quote(&body).await?, recipient });
    }
    Ok((user, transfers))
}

/// Makes the deposits, without waiting for the fills.
async fn deposit(harness: &Harness, (user, transfers): (Account, Vec<Transfer>)) -> Result<Vec<Transfer>> {
    for Transfer { quote, .. } in &transfers {
        execute(harness.chain("base"), quote, &user).await?;
    }
    Ok(transfers)
}

async fn begin(harness: &Harness, count: usize) -> Result<Vec<Transfer>> {
    deposit(harness, quoted(harness, count).await?).await
}

/// Every transfer has arrived, once, and the books agree with the chains.
async fn ended_once(harness: &Harness, transfers: &[Transfer]) -> Result<()> {
    let optimism = harness.chain("optimism");
    for Transfer { quote, .. } in transfers {
        harness.wait_for(request_id(quote), "success").await?;
    }
    // Long enough for a second payment to be mined.
    harness.let_pass(optimism, 6).await?;
    for Transfer { quote, recipient } in transfers {
        let promised = amount(&quote["details"]["currencyOut"]["amount"]);
        ensure!(optimism.balance(Address::ZERO, *recipient).await? == promised, "{}", request_id(quote));
    }
    agrees(harness).await.map(drop)
}

#[tokio::test]
async fn every_role_has_a_process_and_keys_of_its_own() -> Result<()> {
    let harness = harness().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let had = base.balance(Address::ZERO, harness.treasury.address).await?;
    let api = api(&harness)?;
    api.is_up().await?;
    // Without a worker nothing is promised.
    let user = base.fresh_user().await?;
    let value = U256::from(20_000_000_000_000_000u64);
    let body = ask(user.address, new_account().address, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    let (code, refused) = harness.post("/quote/v2", &body).await?;
    ensure!((code, &refused["errorCode"]) == (400, &json!("CHAIN_DISABLED")), "{code} {refused}");

    let (worker, allocator) = (worker(&harness, "worker", None)?, allocator(&harness)?);
    harness.wait_until_served().await?;
    becomes_worker(&harness, &worker).await?;
    // A contract that refuses data: the worker that pays has to know what the API found out for the quote.
    let contract = new_account().address;
    // calldatasize, jumpi, stop; else revert.
    optimism.set_code(contract, vec![0x36, 0x60, 0x05, 0x57, 0x00, 0x5b, 0x5f, 0x5f, 0xfd].into()).await?;
    let body = ask(user.address, contract, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), value);
    harness.quote(&body).await?;
    let database = store::Store::open(&causeway::assemble::database(&harness.config)?)?;
    let chain = domain::ids::ChainId(OPTIMISM);
    eventually("the contract is noted", || async {
        Ok(database.read(move |tx| store::contracts::is_known(tx, chain, contract)).await?)
    })
    .await?;
    let quote = harness.quote(&body).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    let arrived = optimism.balance(Address::ZERO, contract).await?;
    ensure!(arrived == amount(&quote["details"]["currencyOut"]["amount"]), "{arrived}");
    let transfers = begin(&harness, 3).await?;
    ended_once(&harness, &transfers).await?;
    let deposited = value * U256::from(4);
    eventually("the treasury is repaid", || async {
        Ok(base.balance(Address::ZERO, harness.treasury.address).await? == had + deposited)
    })
    .await?;

    for (part, role) in [(&api, "api"), (&worker, "worker"), (&allocator, "allocator")] {
        let instance = part.instance().await?;
        ensure!(instance["role"] == role && instance["answering"] == 1, "{instance}");
    }
    ensure!(lease(&harness, "allocator").await?.0 == allocator.name().await?);
    // A process that does not quote answers nobody but the operator.
    ensure!(worker.get("/chains").await?.0 == 404);
    let (_, metrics) = worker.get("/metrics").await?;
    ensure!(metrics.contains("causeway_lease_held{kind=\"worker\"} 1"), "{metrics}");
    let toml = harness.folder.path().join("api.toml");
    let run = move || causeway().args(["doctor", "--role", "api", "--config"]).arg(toml).output();
    let doctor = tokio::task::spawn_blocking(run).await??;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let (holder, epoch) = lease(&harness, "worker").await?;
    ensure!(holder == worker.name().await?, "{holder}");
    ensure!(said.contains(&format!("{holder} is the worker, epoch {epoch}")), "{said}");
    for part in [api, worker, allocator] {
        ensure!(part.process.terminate().await?.success());
    }
    Ok(())
}

/// An API holds no key of any wallet: its fast fills and claims are paid by the worker, before a deposit and without
/// one.
#[tokio::test]
async fn an_api_hands_fast_fills_and_claims_to_the_worker() -> Result<()> {
    let harness = harness().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let (api, worker) = (api(&harness)?, worker(&harness, "worker", None)?);
    api.is_up().await?;
    becomes_worker(&harness, &worker).await?;
    harness.wait_until_served().await?;
    let by = integrator(&harness, 200).await?;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let body = ask(user.address, recipient, (BASE, usdc), (OPTIMISM, there), U256::from(60_000_000u64));
    let (code, quote) = by.post(&harness, "/quote/v2", &body).await?;
    ensure!(code == 200, "{quote}");
    let (code, answer) = by.fast_fill(&harness, request_id(&quote)).await?;
    ensure!(code == 200, "{answer}");
    harness.wait_for(request_id(&quote), "success").await?;
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(there, recipient).await? == promised);
    // The hold of the fast fill is not claimed.
    let owner = new_account().address;
    claims::claim(&harness, &by.wallet, owner, None).await?;
    claims::becomes(&harness, by.wallet.address, "success").await?;
    ensure!(base.balance(usdc, owner).await? == U256::from(140_000_000u64));
    execute(base, &quote, &user).await?;
    eventually("the hold ends", || async {
        let (_, body) = harness.get(&format!("/app-fees/{:#x}/balances", by.wallet.address)).await?;
        Ok(body["outstandingFastFillBalanceUsd"] == 0.0 && body["availableBalanceUsd"] == 60.0)
    })
    .await?;
    harness.let_pass(optimism, 3).await?;
    ensure!(optimism.balance(there, recipient).await? == promised, "paid twice");
    for part in [api, worker] {
        ensure!(part.process.terminate().await?.success());
    }
    agrees(&harness).await.map(drop)
}

#[tokio::test]
async fn another_takes_over_from_a_worker_that_is_killed() -> Result<()> {
    let harness = harness().await?;
    let _api = api(&harness)?;
    // This one dies the moment it becomes the worker, and leaves the lease behind.
    let mut first = worker(&harness, "first", Some("lease.taken"))?;
    first.process.wait_until_dead(crate::harness::WAIT_TIMEOUT).await?;
    let mut active = worker(&harness, "active", None)?;
    let epoch = becomes_worker(&harness, &active).await?;
    ensure!(epoch > 1, "the lease that was left behind is another");
    let standby = worker(&harness, "standby", None)?;
    standby.is_up().await?;
    harness.wait_until_served().await?;
    // A process in every role with only a worker's keys names the key it lacks.
    let refused = causeway().args(["serve", "--config"]).arg(harness.folder.path().join("active.toml")).output()?;
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("solver.order_key"), "{refused:?}");
    // `recover` refuses while a worker runs.
    let recover = recover(&harness.folder.path().join("dev.toml")).await?;
    ensure!(String::from_utf8_lossy(&recover.stderr).contains("stop it first"), "{recover:?}");

    let mut transfers = begin(&harness, 6).await?;
    let more = quoted(&harness, 6).await?;
    active.process.kill()?;
    transfers.extend(deposit(&harness, more).await?);
    ensure!(becomes_worker(&harness, &standby).await? > epoch);
    ended_once(&harness, &transfers).await?;
    ensure!(standby.process.terminate().await?.success());
    Ok(())
}

/// A worker is stopped for longer than its lease lasts, in the middle of its work, and then continued.
#[tokio::test]
async fn a_worker_that_slept_through_its_lease_writes_nothing() -> Result<()> {
    let harness = harness().await?;
    let _api = api(&harness)?;
    let sleeper = worker(&harness, "sleeper", None)?;
    let epoch = becomes_worker(&harness, &sleeper).await?;
    harness.wait_until_served().await?;
    let mut standby = worker(&harness, "standby", None)?;
    standby.is_up().await?;
    let mut transfers = begin(&harness, 6).await?;
    let more = quoted(&harness, 3).await?;
    let lost = sleeper.leases_lost().await?;
    sleeper.process.signal(Signal::SIGSTOP)?;
    transfers.extend(deposit(&harness, more).await?);
    let after = becomes_worker(&harness, &standby).await?;
    ensure!(after > epoch);
    sleeper.process.signal(Signal::SIGCONT)?;
    transfers.extend(begin(&harness, 3).await?);
    eventually("it notices", || async { Ok(sleeper.leases_lost().await? > lost) }).await?;
    ended_once(&harness, &transfers).await?;
    ensure!(lease(&harness, "worker").await? == (standby.name().await?, after));
    // The first worker is a standby now, and takes over when it is needed.
    let more = quoted(&harness, 2).await?;
    standby.process.kill()?;
    let transfers = deposit(&harness, more).await?;
    ensure!(becomes_worker(&harness, &sleeper).await? > after);
    ended_once(&harness, &transfers).await
}

#[tokio::test]
async fn a_sqlite_file_is_served_by_one_process() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let toml = harness.folder.path().join("dev.toml");
    for role in ["api", "worker", "allocator"] {
        let output = causeway().args(["serve", "--role", role, "--config"]).arg(&toml).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.contains("needs Postgres"), "{role}: {said}");
    }
    Ok(())
}
