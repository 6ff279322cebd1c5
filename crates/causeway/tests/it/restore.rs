//! A database older than the chain does not pay, says so, and is brought up to date by `recover`.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use devnet::{Account, Chain, Fault};
use serde_json::{Value, json};

use crate::harness::{Engine, Harness, amount, ask, eventually, execute, new_account, request_id};
use crate::process::{causeway, recover, serve};

/// The price of ether on new chains, with eight decimals.
const ETHER_USD: i64 = 300_000_000_000;
const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
/// The native input of a transfer.
const VALUE: u64 = 30_000_000_000_000_000;

/// The parties of the transfers that a backup will not know of, and the tokens they use.
struct Parties<'a> {
    base: &'a Chain,
    optimism: &'a Chain,
    user: Account,
    /// The recipient of tokens bought in a pool and of a gas top-up.
    buyer: Address,
    /// A recipient with code.
    contract: Address,
    base_usdc: Address,
    optimism_usdc: Address,
    tail: Address,
}

impl<'a> Parties<'a> {
    async fn new(harness: &'a Harness) -> Result<Self> {
        let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
        Ok(Self {
            base,
            optimism,
            user: base.fresh_user().await?,
            buyer: new_account().address,
            contract: new_account().address,
            base_usdc: base.token("USDC").address,
            optimism_usdc: optimism.token("USDC").address,
            tail: optimism.token("TAIL").address,
        })
    }

    /// A native transfer.
    fn native(&self, recipient: Address) -> Value {
        ask(self.user.address, recipient, (BASE, Address::ZERO), (OPTIMISM, Address::ZERO), U256::from(VALUE))
    }

    /// A fill that is bought in a pool.
    fn swapped(&self) -> Value {
        ask(self.user.address, self.buyer, (BASE, Address::ZERO), (OPTIMISM, self.tail), U256::from(VALUE))
    }

    fn usdc(&self, recipient: Address, units: u64) -> Value {
        let (from, to) = ((BASE, self.base_usdc), (OPTIMISM, self.optimism_usdc));
        ask(self.user.address, recipient, from, to, U256::from(units))
    }

    /// A fill with gas beside the tokens.
    fn topped(&self) -> Value {
        let mut topped = self.usdc(self.buyer, 40_000_000);
        topped["topupGas"] = json!(true);
        topped
    }

    async fn transfer(&self, harness: &Harness, quote: &Value) -> Result<()> {
        execute(self.base, quote, &self.user).await?;
        harness.wait_for(request_id(quote), "success").await.map(drop)
    }

    /// Two transfers to a contract: through the router, and by plain transfer.
    async fn pay_a_contract(&self, harness: &Harness, service: &Service) -> Result<()> {
        self.optimism.set_code(self.contract, vec![0x00].into()).await?;
        let routed = self.native(self.contract);
        harness.quote(&routed).await?;
        let known = || service.solver.recipient_code.is_contract(domain::ids::ChainId(OPTIMISM), self.contract);
        eventually("the recipient is known to be a contract", || async { Ok(known()) }).await?;
        let routed = harness.quote(&routed).await?;
        execute(self.base, &routed, &self.user).await?;
        let mut plain = self.usdc(self.contract, 50_000_000);
        plain["explicitDeposit"] = json!(false);
        let plain = harness.quote(&plain).await?;
        execute(self.base, &plain, &self.user).await?;
        for quote in [&routed, &plain] {
            harness.wait_for(request_id(quote), "success").await?;
        }
        Ok(())
    }

    /// The balances of the recipients and then of the user.
    async fn balances(&self) -> Result<Vec<U256>> {
        let mut balances = Vec::new();
        for owner in [self.contract, self.buyer] {
            for currency in [Address::ZERO, self.optimism_usdc, self.tail] {
                balances.push(self.optimism.balance(currency, owner).await?);
            }
        }
        for currency in [Address::ZERO, self.base_usdc] {
            balances.push(self.base.balance(currency, self.user.address).await?);
        }
        Ok(balances)
    }
}

#[tokio::test]
async fn a_restored_backup_refuses_to_pay_until_it_has_recovered() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let parties = Parties::new(&harness).await?;
    let (base, optimism) = (parties.base, parties.optimism);
    let toml = harness.folder.path().join("dev.toml");
    let backup = harness.folder.path().join("backup.db");
    let recipient = new_account().address;
    let body = parties.native(recipient);

    // The backup holds the first three quotes, and none of their transfers.
    let service = harness.serve().await?;
    let quote = harness.quote(&body).await?;
    let mut more = vec![harness.quote(&parties.swapped()).await?, harness.quote(&parties.topped()).await?];
    service.stop().await?;
    std::fs::copy(harness.folder.path().join("causeway.db"), &backup)?;
    let service = harness.serve().await?;
    parties.transfer(&harness, &quote).await?;
    // The other four transfers are not even known to the backup as quotes.
    more.push(harness.quote(&parties.swapped()).await?);
    more.push(harness.quote(&parties.topped()).await?);
    for quote in &more {
        parties.transfer(&harness, quote).await?;
    }
    parties.pay_a_contract(&harness, &service).await?;
    service.stop().await?;
    let balances = parties.balances().await?;
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised);

    restore(&harness, &backup)?;
    let served = serve(&toml, None)?;
    is_refused(&harness, OPTIMISM).await?;
    // The service sees the old deposit again, and pays nothing for it.
    harness.wait_for(request_id(&quote), "pending").await?;
    let (code, refused) = harness.post("/quote/v2", &body).await?;
    ensure!((code, &refused["errorCode"]) == (400, &json!("CHAIN_DISABLED")), "{code} {refused}");
    // Long enough for everything to become final, and for deposits nobody knows to be returned if that were done.
    harness.let_pass(base, 20).await?;
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised, "paid twice from an old database");
    ensure!(parties.balances().await? == balances, "returned what was filled, from an old database");
    let at = toml.clone();
    let run = move || causeway().args(["doctor", "--config"]).arg(at).output();
    let doctor = tokio::task::spawn_blocking(run).await??;
    ensure!(!doctor.status.success(), "the doctor finds nothing wrong");
    ensure!(String::from_utf8_lossy(&doctor.stdout).contains("causeway recover"));
    ensure!(served.terminate().await?.success());

    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    ensure!(String::from_utf8_lossy(&recovered.stdout).contains("imported 7 payments"));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    harness.wait_for(request_id(&quote), "success").await?;
    harness.let_pass(base, 20).await?;
    harness.let_pass(optimism, 6).await?;
    ensure!(optimism.balance(Address::ZERO, recipient).await? == promised, "paid twice after recovery");
    ensure!(parties.balances().await? == balances, "paid or returned again after recovery");
    // And it works again.
    let quote = harness.quote(&parties.native(new_account().address)).await?;
    parties.transfer(&harness, &quote).await?;
    ensure!(served.terminate().await?.success());
    Ok(())
}

/// The chain that refuses is not the one that would pay: an order refunded there is not filled here.
#[tokio::test]
async fn a_restored_backup_does_not_fill_an_order_refunded_on_the_other_chain() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let toml = harness.folder.path().join("dev.toml");
    let backup = harness.folder.path().join("backup.db");
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let usdc = optimism.token("USDC").address;
    let value = U256::from(VALUE);
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

    // The price has changed meanwhile, and the deposit goes back.
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
    harness.let_pass(optimism, 20).await?;
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled what was refunded");
    ensure!(served.terminate().await?.success());

    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    harness.let_pass(optimism, 20).await?;
    ensure!(optimism.balance(usdc, recipient).await?.is_zero(), "filled what was refunded, after recovery");
    ensure!(base.balance(Address::ZERO, user.address).await? == refunded, "refunded again after recovery");
    ensure!(served.terminate().await?.success());
    Ok(())
}

/// A node that does not have the newest blocks yet is waited for.
#[tokio::test]
async fn recovery_waits_for_a_node_that_lags() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let (optimism, log) = (harness.chain("optimism"), harness.folder.path().join("recover.log"));
    harness.serve().await?.stop().await?;
    optimism.pause_mining().await;
    optimism.mine(4).await?;
    optimism.faults.set(Fault { stale_head: 2, ..Fault::default() });
    let mut command = causeway();
    command.args(["recover", "--config"]).arg(harness.folder.path().join("dev.toml"));
    command.env("RUST_LOG", "warn").stdout(Stdio::null()).stderr(File::create(&log)?);
    let recovered = tokio::task::spawn_blocking(move || command.status());
    let waits = || async { Ok(std::fs::read_to_string(&log)?.contains("waiting for the nodes of chain 10")) };
    eventually("it waits for the node", waits).await?;
    optimism.faults.clear();
    ensure!(recovered.await??.success(), "{}", std::fs::read_to_string(&log)?);
    Ok(())
}

/// Puts a backup in the place of the database. Nothing may be running on it.
pub fn restore(harness: &Harness, backup: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(harness.folder.path().join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(backup, harness.folder.path().join("causeway.db"))?;
    Ok(())
}

/// Waits until the service refuses to pay on a chain, and says what helps.
pub async fn is_refused(harness: &Harness, id: u64) -> Result<()> {
    eventually("the chain is refused with a remedy", || async {
        let Ok((_, lives)) = harness.get("/lives").await else { return Ok(false) };
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        Ok(chains.iter().any(|chain| {
            chain["id"] == json!(id) && chain["refusing"].as_str().is_some_and(|why| why.contains("causeway recover"))
        }))
    })
    .await
}
