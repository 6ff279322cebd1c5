//! Quotes: several kinds, on both databases, with nodes next door and far away, each group beside a baseline measured
//! in the same minute.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use devnet::{Chain, Devnet, Postgres, Progress};
use domain::api_key::KeyText;
use harness::Engine;
use serde_json::{Value, json};

use crate::baseline::Baseline;
use crate::client::{Client, post, post_as};
use crate::load::{self, Effort};
use crate::quoting::Quoting;
use crate::report::{Beside, Group, Report, Row};
use crate::{QuoteArgs, disk};

const NATIVE: &str = "0x0000000000000000000000000000000000000000";
/// The kind that the sponsored quote is compared with.
const EXCHANGE: &str = "USDC to USDT";
/// The delay added to every node call in the second half.
const FAR_NODE_DELAY: Duration = Duration::from_millis(30);

pub(crate) async fn measure(args: &QuoteArgs) -> Result<Report> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let devnet = Devnet::start(devnet::Options { progress: progress.clone(), ..devnet::Options::default() }).await?;
    let engines = [Engine::Sqlite, Engine::Postgres].into_iter().filter(|e| args.engine.is_none_or(|only| only == *e));
    let engines: Vec<Engine> = engines.collect();
    // A folder beside the others, not inside one: the Postgres server may run as another user.
    let data = tempfile::Builder::new().prefix("causeway-bench-postgres-").tempdir_in(&args.folder)?;
    let postgres = match engines.contains(&Engine::Postgres) {
        true => Some(Postgres::start(data.path(), &progress).await?),
        false => None,
    };
    let effort = Effort { time: Duration::from_secs(args.seconds), connections: args.connections.get() };
    let mut report = Report {
        cores: std::thread::available_parallelism()?.get(),
        connections: effort.connections,
        seconds: args.seconds,
        synced_append: disk::synced_appends(&args.folder)?,
        groups: Vec::new(),
    };
    for delay in [Duration::ZERO, FAR_NODE_DELAY] {
        for chain in &devnet.chains {
            chain.faults.update(|fault| fault.delay = delay);
        }
        for engine in &engines {
            progress.say(&format!("Measuring on {}, nodes {} ms away", engine.name(), delay.as_millis()));
            report.groups.push(group(&devnet, *engine, postgres.as_ref(), args, delay, effort).await?);
        }
    }
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    devnet.shutdown().await?;
    Ok(report)
}

async fn group(
    devnet: &Devnet,
    engine: Engine,
    postgres: Option<&Postgres>,
    args: &QuoteArgs,
    delay: Duration,
    effort: Effort,
) -> Result<Group> {
    let quoting = Quoting::start(devnet, engine, postgres, &args.folder).await?;
    let address = quoting.service.address;
    let kinds = kinds(devnet, &quoting.sponsor);
    let sample = sample(address, &kinds[1].request).await?;
    let mut group =
        Group { engine, node_delay_millis: delay.as_millis(), answer_bytes: sample.len(), rows: Vec::new() };
    let baseline = Baseline::start(sample).await?;
    group.rows.push(kinds[1].row("baseline", baseline.address, effort).await?);
    for kind in kinds.iter().filter(|kind| args.only.as_ref().is_none_or(|only| kind.name.contains(only))) {
        let mut row = kind.row(kind.name, address, effort).await?;
        if let Some(other) = kinds.iter().find(|other| kind.beside == Some(other.name)) {
            row.beside = Some(kind.compare(other, address, effort).await?);
        }
        group.rows.push(row);
    }
    quoting.stop().await?;
    Ok(group)
}

/// A sample answer, which gives the baseline its size.
async fn sample(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let mut client = Client::connect(address).await?;
    Ok(client.send(request).await.context("no quote")?.to_vec())
}

/// One kind of quote.
struct Kind {
    name: &'static str,
    request: Vec<u8>,
    /// The kind to compare with, which differs in one thing.
    beside: Option<&'static str>,
}

impl Kind {
    async fn row(&self, name: &'static str, address: SocketAddr, effort: Effort) -> Result<Row> {
        let outcome = load::measure(address, self.request.clone(), effort).await;
        Ok(Row { name, outcome: outcome.with_context(|| name.to_owned())?, beside: None })
    }

    async fn compare(&self, other: &Self, address: SocketAddr, effort: Effort) -> Result<Beside> {
        let requests = [self.request.clone(), other.request.clone()];
        let costs = load::compare(address, requests, effort).await.context(self.name)?;
        Ok(Beside {
            name: other.name,
            cpu_nanos: costs.map(|[own, _]| own),
            other_cpu_nanos: costs.map(|[_, other]| other),
        })
    }
}

fn kinds(devnet: &Devnet, sponsor: &KeyText) -> [Kind; 6] {
    let (from, to) = (devnet.chain("base"), devnet.chain("optimism"));
    let token = |chain: &Chain, symbol: &str| chain.token(symbol).address.to_string();
    let body = |origin: &str, destination: &str, amount: &str| {
        json!({
            "user": "0x1111111111111111111111111111111111111111",
            "recipient": "0x2222222222222222222222222222222222222222",
            "originChainId": from.id, "originCurrency": origin,
            "destinationChainId": to.id, "destinationCurrency": destination,
            "amount": amount, "tradeType": "EXACT_INPUT",
        })
    };
    let plain = |name, body: Value| Kind { name, request: post("/quote/v2", &body.to_string()), beside: None };
    let (usdc, usdt) = (token(from, "USDC"), token(to, "USDT"));
    let mut sponsored = body(&usdc, &usdt, "250000000");
    sponsored["subsidizeFees"] = json!(true);
    sponsored["fixedRate"] = json!("1:1");
    [
        plain("native bridge", body(NATIVE, NATIVE, "100000000000000000")),
        plain("USDC bridge", body(&usdc, &token(to, "USDC"), "250000000")),
        plain(EXCHANGE, body(&usdc, &usdt, "250000000")),
        // The same with all fees paid by a key's wallet, and at a fixed rate.
        Kind {
            name: "sponsored, 1:1",
            request: post_as(sponsor, "/quote/v2", &sponsored.to_string()),
            beside: Some(EXCHANGE),
        },
        plain("ETH to USDC", body(NATIVE, &token(to, "USDC"), "100000000000000000")),
        // Pools on both sides: the destination's token is bought with the proceeds of the origin's.
        plain("TAIL to TAIL", body(&token(from, "TAIL"), &token(to, "TAIL"), "5000000000000000000000")),
    ]
}
