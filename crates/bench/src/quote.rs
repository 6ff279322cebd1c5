//! Quotes: several kinds, on both databases, with nodes next door and far away, each group beside a baseline measured
//! in the same minute. Or on the networks of two builds, by turns.

mod builds;
mod compared;
mod kinds;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use devnet::{Devnet, Postgres, Progress};
use harness::Engine;

pub(crate) use self::builds::measure as builds_by_turns;
use self::kinds::{FROM, Kind, QuotedChain, TO, kinds};
use crate::baseline::Baseline;
use crate::client::Client;
use crate::load::{self, Effort, Target};
use crate::quoting::Quoting;
use crate::report::{Beside, Group, Report, Row};
use crate::{QuoteArgs, disk};

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
    let (from, to) = (QuotedChain::of(devnet.chain(FROM)), QuotedChain::of(devnet.chain(TO)));
    let kinds = kinds(&from, &to, &quoting.sponsor)?;
    let sample = sample(address, &kinds[1].request).await?;
    let mut group =
        Group { engine, node_delay_millis: delay.as_millis(), answer_bytes: sample.len(), rows: Vec::new() };
    let baseline = Baseline::start(sample).await?;
    group.rows.push(kinds[1].row("baseline", baseline.address, effort).await?);
    for kind in kinds.iter().filter(|kind| args.only.as_ref().is_none_or(|only| kind.name.contains(only))) {
        let mut row = kind.row(kind.name, address, effort).await?;
        if let Some(other) = kinds.iter().find(|other| kind.compared_with == Some(other.name)) {
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

impl Kind {
    async fn row(&self, name: &'static str, address: SocketAddr, effort: Effort) -> Result<Row> {
        let outcome = load::measure(Target::own(address, &self.request), effort).await;
        Ok(Row { name, outcome: outcome.with_context(|| name.to_owned())?, beside: None })
    }

    async fn compare(&self, other: &Self, address: SocketAddr, effort: Effort) -> Result<Beside> {
        let targets = [self, other].map(|kind| Target::own(address, &kind.request));
        let costs = load::compare(targets, effort).await.context(self.name)?;
        Ok(Beside {
            name: other.name,
            cpu_nanos: costs.map(|[own, _]| own),
            other_cpu_nanos: costs.map(|[_, other]| other),
        })
    }
}
