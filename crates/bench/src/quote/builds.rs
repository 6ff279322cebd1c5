//! Two builds of the service in one run: this one and another, each with a local network of its own as `dev` starts it.
//! Load alternates between them, because the same build makes a third more or less from one minute to the next.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use causeway::served::Served;
use devnet::Progress;
use domain::api_key::KeyText;
use harness::{Engine, LOG_FILTER, WAIT_TIMEOUT, eventually, program};
use serde::Deserialize;
use tempfile::TempDir;

use super::compared::{Compared, Comparison};
use super::kinds::{FROM, Kind, Place, TO, kinds};
use crate::QuoteArgs;
use crate::client::Client;
use crate::load::{self, Effort, Target};

/// Lines of a network's log that are told if it ends.
const LINES_TOLD: usize = 10;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn measure(args: &QuoteArgs, other: &Path) -> Result<Comparison> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let effort = Effort { time: Duration::from_secs(args.seconds), connections: args.connections.get() };
    progress.say("Starting a local network for each build");
    // One after the other: both may have to fetch the same tools.
    let this = Network::start(args, None).await?;
    let that = Network::start(args, Some(other)).await?;
    let mut comparison = Comparison {
        other: other.to_owned(),
        turns: args.turns.into(),
        seconds: args.seconds,
        connections: effort.connections,
        kinds: Vec::new(),
    };
    for (own, others) in this.kinds()?.into_iter().zip(that.kinds()?) {
        if args.only.as_ref().is_some_and(|only| !own.name.contains(only)) {
            continue;
        }
        let name = own.name;
        progress.say(&format!("{name}: {} turns of each build", args.turns));
        this.wait_for(&own).await?;
        that.wait_for(&others).await?;
        let targets = [this.target(own), that.target(others)];
        let pairs = load::by_turns(targets, args.turns.into(), effort).await.context(name)?;
        comparison.kinds.push(Compared::of(name, &pairs));
    }
    this.stop().await?;
    that.stop().await?;
    Ok(comparison)
}

/// A build with its local network, and the facts that `dev` writes about it.
struct Network {
    name: &'static str,
    served: Served,
    facts: Facts,
    address: SocketAddr,
    // Removed after the network has stopped.
    _folder: TempDir,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    api_key: String,
    chains: Vec<ChainFacts>,
}

#[derive(Debug, Deserialize)]
struct ChainFacts {
    id: u64,
    name: String,
    tokens: Vec<TokenFacts>,
}

#[derive(Debug, Deserialize)]
struct TokenFacts {
    symbol: String,
    address: String,
}

impl Network {
    /// Runs `dev` without rate limits, until it says that it is ready. Without a binary it runs this build.
    async fn start(args: &QuoteArgs, binary: Option<&Path>) -> Result<Self> {
        let name = if binary.is_some() { "the other build" } else { "this build" };
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir_in(&args.folder)?;
        let (port, data, log) = (devnet::free_port()?, folder.path().join("dev"), folder.path().join("dev.log"));
        let mut command = program(binary)?;
        let engine = match args.engine.unwrap_or(Engine::Sqlite) {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        };
        command.args(["dev", "--no-rate-limits", "--database", engine, "--port", &port.to_string(), "--data-dir"]);
        command.arg(&data).env("RUST_LOG", LOG_FILTER);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut served = Served::spawn(command).with_context(|| format!("cannot run {name}"))?;
        let facts = facts(&mut served, &data.join("dev.json"), &log).await.context(name)?;
        Ok(Self { name, served, facts, address: ([127, 0, 0, 1], port).into(), _folder: folder })
    }

    fn kinds(&self) -> Result<[Kind; 6]> {
        let key: KeyText = self.facts.api_key.parse().context("the API key of `dev`")?;
        kinds(&self.place(FROM)?, &self.place(TO)?, &key).context(self.name)
    }

    fn place(&self, name: &str) -> Result<Place> {
        let chain = self.facts.chains.iter().find(|chain| chain.name == name);
        let chain = chain.with_context(|| format!("no chain {name}"))?;
        let tokens = chain.tokens.iter().map(|token| (token.symbol.clone(), token.address.clone()));
        Ok(Place { id: chain.id, tokens: tokens.collect() })
    }

    /// Waits until a kind is quoted: a sponsor's balance may still be on its way.
    async fn wait_for(&self, kind: &Kind) -> Result<()> {
        let quoted = || async { Ok(Client::connect(self.address).await?.send(&kind.request).await.is_ok()) };
        eventually(&format!("{} quotes {}", self.name, kind.name), quoted).await
    }

    fn target(&self, kind: Kind) -> Target {
        Target { address: self.address, request: kind.request, process: self.served.id() }
    }

    async fn stop(self) -> Result<()> {
        ensure!(self.served.terminate().await?.success(), "{} did not end in order", self.name);
        Ok(())
    }
}

/// The facts of a network, once it is ready.
async fn facts(served: &mut Served, path: &Path, log: &Path) -> Result<Facts> {
    let until = tokio::time::Instant::now() + WAIT_TIMEOUT;
    while tokio::time::Instant::now() < until {
        if let Ok(text) = std::fs::read(path) {
            return serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()));
        }
        if let Some(status) = served.ended()? {
            bail!("it ended with {status}:\n{}", last_lines(log));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("it is not ready in time:\n{}", last_lines(log))
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n")
}
