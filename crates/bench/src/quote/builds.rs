//! Two builds of the service in one run: this one and another, each with a local network of its own as `dev` starts it.
//! Load alternates between them, because the same build makes a third more or less from one quarter of an hour to the
//! next.

use std::ffi::OsString;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use devnet::Progress;
use devnet::process::{Process, Program, Signal};
use domain::api_key::KeyText;
use harness::{Engine, eventually};
use serde::Deserialize;
use tempfile::TempDir;

use super::compared::{Compared, Comparison};
use super::kinds::{FROM, Kind, QuotedChain, TO, kinds};
use crate::QuoteArgs;
use crate::client::Client;
use crate::load::{self, Effort, Target};

/// The longest a network may take to be ready; the first one may have to fetch its tools.
const START_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The longest an orderly end may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// In the folder of each build.
const DATA_FOLDER: &str = "dev";
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn measure(args: &QuoteArgs, other: &Path) -> Result<Comparison> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let other = other.canonicalize().with_context(|| format!("cannot run {}", other.display()))?;
    let engine = args.engine.unwrap_or(Engine::Sqlite);
    progress.say("Starting a local network for each build");
    // One after the other: both may have to fetch the same tools.
    let this = Network::start("this build", None, args, engine).await?;
    let other_network = Network::start("the other build", Some(&other), args, engine).await?;
    let compared = compare(args, [&this, &other_network], &progress).await;
    let kinds = compared.with_context(|| format!("{}\n{}", this.output(), other_network.output()))?;
    let comparison = Comparison {
        other,
        engine,
        rounds: args.rounds.into(),
        seconds: args.seconds,
        connections: args.connections.get(),
        kinds,
    };
    for network in [this, other_network] {
        // The figures are there, so it is told and no more.
        if let Err(error) = network.stop().await {
            progress.say(&format!("{error:#}"));
        }
    }
    Ok(comparison)
}

async fn compare(args: &QuoteArgs, networks: [&Network; 2], progress: &Progress) -> Result<Vec<Compared>> {
    let effort = Effort { time: Duration::from_secs(args.seconds), connections: args.connections.get() };
    let [this, other] = networks;
    let kinds = this.kinds()?.into_iter().zip(other.kinds()?);
    let kinds = kinds.filter(|(kind, _)| args.only.as_ref().is_none_or(|only| kind.name.contains(only)));
    let mut compared = Vec::new();
    for (own, others) in kinds {
        let name = own.name;
        progress.say(&format!("{name}: {} rounds", args.rounds));
        this.wait_for(&own).await?;
        other.wait_for(&others).await?;
        let targets = [this.target(own)?, other.target(others)?];
        let rounds = load::by_turns(targets, args.rounds.into(), effort).await.context(name)?;
        compared.push(Compared::of(name, &rounds));
    }
    ensure!(!compared.is_empty(), "no kind of quote has {:?} in its name", args.only.as_deref().unwrap_or_default());
    Ok(compared)
}

/// A build with its local network, and the facts that `dev` writes about it.
struct Network {
    name: &'static str,
    address: SocketAddr,
    facts: Facts,
    process: Process,
    // Removed after the process has ended.
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
    /// Runs `dev` without rate limits, until it says that it is ready. Without a binary it runs this program, which
    /// contains the service.
    async fn start(name: &'static str, binary: Option<&Path>, args: &QuoteArgs, engine: Engine) -> Result<Self> {
        let mut folder = tempfile::Builder::new();
        // The server of Postgres may run as another user, who has to pass through.
        folder.prefix("causeway-bench-").permissions(Permissions::from_mode(0o711));
        let folder = folder.tempdir_in(&args.folder)?;
        let engine = match engine {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        };
        let port = devnet::free_port()?;
        let dev = ["dev", "--no-rate-limits", "--database", engine, "--data-dir", DATA_FOLDER, "--port"];
        let own = binary.is_none().then_some("causeway");
        let words = own.into_iter().chain(dev).map(OsString::from);
        let path = binary.map_or_else(std::env::current_exe, |path| Ok(path.to_owned()))?;
        let mut process = Process::start(Program {
            name: "dev".to_owned(),
            path: &path,
            args: words.chain([port.to_string().into()]).collect(),
            dir: folder.path(),
            dir_is_temporary: true,
            last_signal: Signal::SIGTERM,
        })?;
        let facts = facts(&mut process, &folder.path().join(DATA_FOLDER).join("dev.json")).await.context(name)?;
        Ok(Self { name, address: ([127, 0, 0, 1], port).into(), facts, process, _folder: folder })
    }

    fn kinds(&self) -> Result<[Kind; 6]> {
        let key: KeyText = self.facts.api_key.parse().context("the API key of `dev`")?;
        kinds(&self.chain(FROM)?, &self.chain(TO)?, &key).context(self.name)
    }

    fn chain(&self, name: &str) -> Result<QuotedChain> {
        let chain = self.facts.chains.iter().find(|chain| chain.name == name);
        let chain = chain.with_context(|| format!("no chain {name}"))?;
        let tokens = chain.tokens.iter().map(|token| (token.symbol.clone(), token.address.clone()));
        Ok(QuotedChain { id: chain.id, tokens: tokens.collect() })
    }

    /// Waits until a kind is quoted: a sponsor's balance may still be on its way.
    async fn wait_for(&self, kind: &Kind) -> Result<()> {
        let quoted = || async { Ok(Client::connect(self.address).await?.send(&kind.request).await.is_ok()) };
        eventually(&format!("{} quotes {}", self.name, kind.name), quoted).await
    }

    fn target(&self, kind: Kind) -> Result<Target> {
        let process = self.process.id().with_context(|| format!("{} has no process id", self.name))?;
        Ok(Target { name: self.name, address: self.address, request: kind.request, process })
    }

    /// The end of what it has logged.
    fn output(&self) -> String {
        format!("{}:\n{}", self.name, self.process.output())
    }

    async fn stop(self) -> Result<()> {
        let status = self.process.stop(Signal::SIGTERM, STOP_TIMEOUT).await.context(self.name)?;
        ensure!(status.success(), "{} did not end in order: {status}", self.name);
        Ok(())
    }
}

/// The facts of a network, once it is ready.
async fn facts(process: &mut Process, path: &Path) -> Result<Facts> {
    let began = Instant::now();
    while began.elapsed() < START_TIMEOUT {
        process.check()?;
        if let Ok(text) = std::fs::read(path) {
            return serde_json::from_slice(&text).context("the facts of `dev`");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("it is not ready in time:\n{}", process.output())
}
