//! Quotes: several kinds, on both databases, with nodes next door and far away, each group beside a floor measured in
//! the same minute.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use devnet::{Chain, Devnet, Postgres, Progress};
use serde_json::json;

use crate::client::{Client, post};
use crate::floor::Floor;
use crate::load::{self, Effort};
use crate::report::{Group, Report, Row};
use crate::stand::Stand;
use crate::{Engine, QuoteArgs, disk};

const NATIVE: &str = "0x0000000000000000000000000000000000000000";
/// What is added to every call to a node in the second half.
const FAR: Duration = Duration::from_millis(30);

pub async fn measure(args: &QuoteArgs) -> Result<Report> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let devnet = Devnet::start(devnet::Options { progress: progress.clone(), ..devnet::Options::default() }).await?;
    let engines = [Engine::Sqlite, Engine::Postgres].into_iter().filter(|e| args.engine.is_none_or(|only| only == *e));
    let engines: Vec<Engine> = engines.collect();
    // A folder beside the others, not inside one: the server may run as another user.
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
    for delay in [Duration::ZERO, FAR] {
        for chain in &devnet.chains {
            chain.faults.update(|fault| fault.delay = delay);
        }
        for engine in &engines {
            progress.say(&format!("Measuring on {}, nodes {} ms away", engine.name(), delay.as_millis()));
            report.groups.push(group(&devnet, *engine, postgres.as_ref(), &args.folder, delay, effort).await?);
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
    folder: &Path,
    delay: Duration,
    effort: Effort,
) -> Result<Group> {
    let stand = Stand::start(devnet, engine, postgres, folder).await?;
    let address = stand.service.address;
    let kinds = kinds(devnet);
    let sample = sample(address, &kinds[1].1).await?;
    let mut group =
        Group { engine, node_delay_millis: delay.as_millis(), answer_bytes: sample.len(), rows: Vec::new() };
    let floor = Floor::start(sample).await?;
    group.rows.push(row("floor", floor.address, &kinds[1].1, effort).await?);
    for (name, body) in &kinds {
        group.rows.push(row(name, address, body, effort).await?);
    }
    stand.stop().await?;
    Ok(group)
}

async fn row(name: &'static str, address: SocketAddr, body: &str, effort: Effort) -> Result<Row> {
    let outcome = load::measure(address, post("/quote/v2", body), effort).await;
    Ok(Row { name, outcome: outcome.with_context(|| name.to_owned())? })
}

/// An answer, so that the floor can be of its size.
async fn sample(address: SocketAddr, body: &str) -> Result<Vec<u8>> {
    let mut client = Client::connect(address).await?;
    let answer = client.send(&post("/quote/v2", body)).await;
    Ok(answer.context("no quote")?.to_vec())
}

fn kinds(devnet: &Devnet) -> [(&'static str, String); 5] {
    let (from, to) = (devnet.chain("base"), devnet.chain("optimism"));
    let token = |chain: &Chain, symbol: &str| chain.token(symbol).address.to_string();
    let body = |origin: &str, destination: &str, amount: &str| {
        let body = json!({
            "user": "0x1111111111111111111111111111111111111111",
            "recipient": "0x2222222222222222222222222222222222222222",
            "originChainId": from.id, "originCurrency": origin,
            "destinationChainId": to.id, "destinationCurrency": destination,
            "amount": amount, "tradeType": "EXACT_INPUT",
        });
        body.to_string()
    };
    let usdc = token(from, "USDC");
    [
        ("native bridge", body(NATIVE, NATIVE, "100000000000000000")),
        ("USDC bridge", body(&usdc, &token(to, "USDC"), "250000000")),
        ("USDC to USDT", body(&usdc, &token(to, "USDT"), "250000000")),
        ("ETH to USDC", body(NATIVE, &token(to, "USDC"), "100000000000000000")),
        // Pools on both sides: bought from one on the destination with what one on the origin gives.
        ("TAIL to TAIL", body(&token(from, "TAIL"), &token(to, "TAIL"), "5000000000000000000000")),
    ]
}
