//! Fills: the latency from a deposit's block to its fill in the destination node's mempool, beside a baseline, and the
//! sustained rate. With nodes next door and with nodes 30 ms away. And the latency of a deposit into the venue.
//!
//! The service runs in a process of its own, so that its CPU and memory are measured apart from the others'.

pub(crate) mod addresses;
pub(crate) mod latency;
mod lister;
mod report;
mod throughput;
mod venue;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Context, Result, ensure};
use causeway::commands::api_key;
use causeway::served::Served;
use clap::Args;
use devnet::{Account, Chain, Devnet, Progress, Rng};
use domain::api_key::KeyText;
use domain::ids::OrderId;
use evm::calldata;
use harness::{Wallets, World, ask, database};
use serde_json::Value;

pub(crate) use self::report::{LatencyStats, Report};
use crate::client::{Client, post};
use crate::processes::Watched;
use crate::results;

/// The delay added to every node call in the second half.
const FAR_NODE_DELAY: Duration = Duration::from_millis(30);
const FILL_TIMEOUT: Duration = Duration::from_secs(60);
/// Enough gas for a native deposit.
const DEPOSIT_GAS: u64 = 120_000;
/// Amount of each transfer, in wei: about three dollars.
const VALUE: u64 = 1_000_000_000_000_000;
/// Depositing wallets: each sends its own nonces in order.
const USERS: usize = 16;

#[derive(Clone, Debug, Args)]
pub(crate) struct FillArgs {
    /// Number of transfers measured, one per block.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub samples: u64,
    /// Deposits sent each second under load; more than can be filled shows the bottleneck.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=5_000))]
    pub rate: u64,
    /// Duration of the load, in seconds.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Measure one part only: nodes next door, nodes far away, or deposits into the venue.
    #[arg(long)]
    pub only: Option<Part>,
    /// Number of filler wallets; each has at most 48 payments under way.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub lanes: u16,
    /// Also measure the latency while a client lists requests without pause, by turns with it not listing. Fails if
    /// that moves the p50 of a fill by a fifth or more.
    #[arg(long)]
    pub list: bool,
    /// Another build of the service; this program contains one itself.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Folder for the database; its disk is part of every measurement.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub folder: PathBuf,
    /// Also write the results to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Near,
    Far,
    Venue,
}

pub(crate) async fn measure(args: &FillArgs) -> Result<Report> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let mut report = Report {
        cores: std::thread::available_parallelism()?.get(),
        lanes: args.lanes,
        rate: args.rate,
        distances: Vec::new(),
        venue: None,
    };
    let is_left_out = |part| args.only.is_some_and(|only| only != part);
    for (part, delay) in [(Part::Near, Duration::ZERO), (Part::Far, FAR_NODE_DELAY)] {
        if is_left_out(part) {
            continue;
        }
        progress.say(&format!("Nodes {} ms away", delay.as_millis()));
        // Each half has chains of its own, so that it does not carry the other's state.
        let options =
            devnet::Options { fillers: args.lanes.into(), progress: progress.clone(), ..devnet::Options::default() };
        let devnet = Devnet::start(options).await?;
        let measured = Box::pin(distance(&devnet, args, delay, &progress)).await;
        devnet.shutdown().await?;
        report.distances.push(measured?);
    }
    if !is_left_out(Part::Venue) {
        progress.say("Deposits into the venue, one per block");
        report.venue = Some(Box::pin(venue::measure(args, &progress)).await?);
    }
    results::write(args.json.as_deref(), &report)?;
    Ok(report)
}

async fn distance(devnet: &Devnet, args: &FillArgs, delay: Duration, progress: &Progress) -> Result<report::Distance> {
    for chain in &devnet.chains {
        chain.faults.update(|fault| fault.delay = delay);
    }
    let filling = Filling::start(devnet, args, !delay.is_zero()).await?;
    let resident_before = crate::processes::resident_kib(filling.served.id());
    progress.say("One deposit per block");
    let lister = filling.key.as_ref().map(|key| lister::Lister::start(filling.world.config.listen, key));
    let mut latency = latency::take(&filling, args.samples, !delay.is_zero(), lister.as_ref()).await?.stats();
    if let Some(lister) = lister {
        latency.pages_listed = lister.stop().await?;
    }
    progress.say(&format!("{} deposits a second for {} s", args.rate, args.seconds));
    let throughput = throughput::measure(&filling, args).await?;
    let resident_after = crate::processes::resident_kib(filling.served.id());
    ensure!(filling.served.terminate().await?.success(), "the service did not end in order");
    Ok(report::Distance {
        node_delay_millis: u64::try_from(delay.as_millis())?,
        latency,
        throughput,
        resident_before_kib: resident_before,
        resident_after_kib: resident_after,
    })
}

/// A service in a process of its own, and users with funds to deposit.
pub(crate) struct Filling<'a> {
    devnet: &'a Devnet,
    pub served: Served,
    users: Vec<Account>,
    pub world: World,
    /// The key to list with, where that is measured.
    key: Option<KeyText>,
}

impl<'a> Filling<'a> {
    pub(crate) async fn start(devnet: &'a Devnet, args: &FillArgs, far: bool) -> Result<Self> {
        Self::with(devnet, args, far, false).await
    }

    /// A service that also serves the local venue. It looks at it several times a second, which the other measurements
    /// do without.
    async fn with(devnet: &'a Devnet, args: &FillArgs, far: bool, with_venue: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir_in(&args.folder)?;
        let database = database(folder.path(), None).await?;
        let local = &devnet.venue;
        let venue = match with_venue {
            true => Some(causeway::local::venue(&local.simulator, &local.solver, folder.path())?),
            false => None,
        };
        let world = World::new(folder, devnet, &database, Wallets::of(devnet), |config| {
            config.venue = venue;
            // No allocator: repayment is not measured, so deposits stay in the depository.
            config.allocator = None;
            for chain in &mut config.chains {
                // The first endpoint is the node itself, the second the same node behind a proxy that can add a delay.
                chain.endpoints.remove(usize::from(!far));
                chain.start_block = None;
                let plenty = || "1000000000".to_owned();
                (chain.risk.open_usd, chain.risk.per_minute_usd) = (plenty(), plenty());
            }
        })?;
        let program = world.program(args.binary.clone());
        program.migrate().await?;
        let users: Vec<Account> = {
            let mut rng = Rng::new(1);
            (0..USERS).map(|_| rng.account()).collect()
        };
        let ether = U256::from(10u64).pow(U256::from(18));
        for user in &users {
            devnet.chains[0].set_balance(user.address, ether * U256::from(1_000)).await?;
        }
        // Enough for every fill, so that no wallet runs dry.
        for filler in &devnet.keys.fillers {
            devnet.chains[1].set_balance(filler.address, ether * U256::from(10_000)).await?;
        }
        let key = match args.list {
            true => {
                let wallet = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
                Some(api_key::ensure(&world.config, world.folder.path(), &wallet).await?)
            }
            false => None,
        };
        let served = program.serve(None)?;
        let filling = Self { devnet, served, users, world, key };
        filling.wait().await?;
        Ok(filling)
    }

    /// Waits until the service quotes.
    async fn wait(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let failure = match self.orders(1).await {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            ensure!(began.elapsed() < FILL_TIMEOUT, "the service gives no quotes: {failure:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn origin(&self) -> &'a Chain {
        &self.devnet.chains[0]
    }

    fn destination(&self) -> &'a Chain {
        &self.devnet.chains[1]
    }

    fn is_filler(&self, who: Address) -> bool {
        self.devnet.keys.fillers.iter().any(|filler| filler.address == who)
    }

    /// The processes whose CPU is measured.
    pub(crate) fn processes(&self) -> Vec<Watched> {
        let chains = self.devnet.processes();
        let chain = |(name, id): (&str, Option<u32>)| Some(Watched { name: name.to_owned(), id: id? });
        let chains = ["origin chain", "destination chain", "third chain"].into_iter().zip(chains).filter_map(chain);
        let own = [("service", self.served.id()), ("load", std::process::id())];
        chains.chain(own.map(|(name, id)| Watched { name: name.to_owned(), id })).collect()
    }

    /// Requests quotes for `count` transfers and returns their orders.
    async fn orders(&self, count: usize) -> Result<Vec<OrderId>> {
        let (from, to) = ((self.origin().id, Address::ZERO), (self.destination().id, Address::ZERO));
        let body = |n: usize| ask(self.users[n % USERS].address, recipient(n), from, to, U256::from(VALUE));
        self.orders_of((0..count).map(body)).await
    }

    /// Requests these quotes and returns their orders.
    async fn orders_of(&self, bodies: impl Iterator<Item = Value>) -> Result<Vec<OrderId>> {
        let mut client = Client::connect(self.world.config.listen).await?;
        let mut orders = Vec::new();
        for body in bodies {
            let quote: Value = serde_json::from_slice(client.send(&post("/quote/v2", &body.to_string())).await?)?;
            let id = quote["protocol"]["v2"]["orderId"].as_str().context("a quote without an order")?;
            orders.push(OrderId(id.parse::<B256>()?));
        }
        Ok(orders)
    }

    /// Signs deposits for these orders, by the users in turn, from their next nonces.
    async fn deposits(&self, orders: &[OrderId]) -> Result<Vec<Bytes>> {
        let chain = self.origin();
        let mut nonces = Vec::new();
        for user in &self.users {
            let nonce: U256 = chain.rpc("eth_getTransactionCount", (user.address, "pending")).await?;
            nonces.push(nonce.to::<u64>());
        }
        let sign = |(n, order): (usize, &OrderId)| {
            let user = &self.users[n % USERS];
            let nonce = nonces[n % USERS] + (n / USERS) as u64;
            let data = calldata::deposit_native(user.address, *order);
            chain.sign(user, nonce, (chain.contracts.depository, U256::from(VALUE), data), DEPOSIT_GAS)
        };
        orders.iter().enumerate().map(sign).collect()
    }
}

/// An address nobody has the key of.
fn recipient(n: usize) -> Address {
    Address::left_padding_from(&(0xbe9c_0000_0000_u64 + n as u64).to_be_bytes())
}
