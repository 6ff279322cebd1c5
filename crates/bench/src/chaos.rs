//! Chaos: many transfers under way over three chains and the venue while the service is killed again and again, nodes
//! and the venue misbehave and chains reorganise, prices move and an adversary tries to be paid for nothing. At the end
//! every deposit has had exactly one end, nobody is richer than they should be and every status was told by webhook, or
//! the run has failed.
//!
//! The seed decides the quotes, payments and faults, and their order; the machine decides how they interleave, so a
//! seed repeats a run only approximately.

mod addresses;
mod adversary;
mod api;
mod calls;
mod ends;
mod faults;
mod hooks;
mod ledger;
mod market;
mod permit_verdict;
mod permits;
mod plan;
mod quoted;
mod record;
mod report;
mod richer;
mod sends;
mod traffic;
mod venue;
mod venue_verdict;
mod verdict;
mod worth;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use causeway::commands::api_key;
use causeway::config::{EndpointConfig, Text};
use causeway::served::Served;
use clap::Args;
use devnet::{Devnet, FaultProxy, Postgres, Progress, Rng};
use futures::future::try_join_all;
use harness::{Engine, Program, Wallets, World, database};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

use self::adversary::{Adversary, Trick};
use self::api::Api;
use self::faults::Counts;
use self::hooks::{HookTally, Hooks};
use self::market::Market;
use self::record::Record;
use self::report::{Phases, Report};
use self::richer::People;
use self::sends::Sends;
use self::traffic::{Integrator, Traffic};
use self::venue::Venue;
use self::verdict::{Books, Tally};
use crate::results;

/// Blocks come fast, so that a run sees many of them.
const BLOCK_TIME: Duration = Duration::from_millis(250);
/// The approximate time between two kills.
const BETWEEN_KILLS: Duration = Duration::from_millis(2_300);
/// Blocks mined on top of the users' funding: no reorg reaches it.
const FUNDING_DEPTH_BLOCKS: u64 = 10;
/// Time of the chain for which a fast fill waits for its deposit: short, so that it passes during the run.
const FAST_FILL_WINDOW: Duration = Duration::from_secs(60);
/// Time for which too little at a deposit address waits for the rest.
const ADDRESS_GRACE: Duration = Duration::from_secs(4);
/// The longest time without progress after the last fault.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest wait for a condition that must become true.
const SERVE_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Args)]
pub(crate) struct ChaosArgs {
    /// Seed of the run; random by default.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of transfers, over three chains.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=5_000))]
    pub transfers: u64,
    /// Number of times the service is killed.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub kills: u64,
    #[arg(long, default_value = "sqlite")]
    pub database: Engine,
    /// Only these tricks of the adversary; all of them by default.
    #[arg(long)]
    pub trick: Vec<Trick>,
    /// Only users who pay into a depository themselves: no venue, deposit addresses, permits, raw calls, webhooks,
    /// moving prices or adversary. For a comparison with a build that has none of them.
    #[arg(long, conflicts_with = "trick")]
    pub deposits_only: bool,
    /// Another build of the service; this program contains one itself.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Also write the report to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Runs it and returns the report, which lists everything that went wrong.
pub(crate) async fn run(args: &ChaosArgs) -> Result<Report> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => u64::from(std::process::id()) ^ std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64 & 0xffff_ffff,
    };
    println!("seed {seed}: {} transfers, {} kills on {}", args.transfers, args.kills, args.database.name());
    let began = Instant::now();
    let progress = Progress::new(|text| eprintln!("{text}"));
    let options =
        devnet::Options { block_time: BLOCK_TIME, fillers: 3, progress: progress.clone(), ..Default::default() };
    let devnet = Devnet::start(options).await?;
    let rng = Rng::new(seed);
    let chaos = Chaos::new(&devnet, args, &rng, &progress).await?;
    let outcome = chaos.run(args, &rng, &progress).await;
    let well = outcome.as_ref().is_ok_and(|report| report.wrong.is_empty());
    if let Some((postgres, data)) = chaos.postgres {
        postgres.stop().await?;
        leave(well, data, "the database is");
    }
    leave(well, chaos.folder, "the service's log, and its database if it has one of its own, are");
    devnet.shutdown().await?;
    let report = Report {
        seed,
        transfers: args.transfers,
        database: args.database,
        seconds: began.elapsed().as_secs(),
        ..outcome?
    };
    results::write(args.json.as_deref(), &report)?;
    Ok(report)
}

/// Removes the folder after a good run; keeps it for inspection otherwise.
fn leave(well: bool, folder: TempDir, what: &str) {
    if !well {
        eprintln!("{what} in {}", folder.keep().display());
    }
}

/// The time after which the kills that were asked for are made.
fn calm_after(args: &ChaosArgs) -> Result<Duration> {
    Ok(BETWEEN_KILLS * u32::try_from(args.kills)?)
}

/// Everything but the users: a configured service whose every node can be told to misbehave.
struct Chaos<'a> {
    devnet: &'a Devnet,
    /// One node of each chain; the devnet has the other.
    proxies: Vec<FaultProxy>,
    venue: Venue,
    program: Program,
    api: Api,
    integrator: Integrator,
    hooks: Option<Hooks>,
    adversary: Adversary,
    folder: TempDir,
    postgres: Option<(Postgres, TempDir)>,
}

impl<'a> Chaos<'a> {
    async fn new(devnet: &'a Devnet, args: &ChaosArgs, rng: &Rng, progress: &Progress) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("causeway-chaos-").tempdir()?;
        let postgres = match args.database {
            Engine::Sqlite => None,
            Engine::Postgres => {
                let data = tempfile::Builder::new().prefix("causeway-chaos-postgres-").tempdir()?;
                Some((Postgres::start(data.path(), progress).await?, data))
            }
        };
        let database = database(folder.path(), postgres.as_ref().map(|(server, _)| server)).await?;
        let mut proxies = Vec::new();
        for chain in &devnet.chains {
            let proxy = FaultProxy::start(chain.rpc_url.clone(), chain.ws_url.clone()).await?;
            for node in [&proxy.faults, &chain.faults] {
                faults::put(node, faults::well());
            }
            proxies.push(proxy);
        }
        let venue = Venue::start(folder.path(), devnet.keys.treasury).await?;
        let venue_config = (!args.deposits_only).then(|| venue.config(folder.path())).transpose()?;
        let world = World::new(folder, devnet, &database, Wallets::of(devnet), |config| {
            config.venue = venue_config;
            config.deposit_addresses.grace_secs = ADDRESS_GRACE.as_secs();
            config.limits.rpc_timeout_millis = 2_000;
            // Short, so that retries happen during the run.
            config.webhooks.first_retry_millis = 500;
            config.fast_fill.window_secs = FAST_FILL_WINDOW.as_secs();
            for (chain, proxy) in config.chains.iter_mut().zip(&proxies) {
                let plain = |url: &str| Text::Plain(url.to_owned());
                chain.endpoints[0] =
                    EndpointConfig { http: plain(proxy.rpc_url.as_str()), ws: Some(plain(proxy.ws_url.as_str())) };
                chain.bump_after_millis = Some(2_000);
            }
            if let Some(allocator) = &mut config.allocator {
                // Short, so that payouts happen during the run, not after it.
                allocator.batch_age_secs = 2;
            }
        })?;
        let api = Api::new(causeway::assemble::plain(&world.config.base_url))?;
        let program = world.program(args.binary.clone());
        program.migrate().await?;
        let wallet = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
        let key = api_key::ensure(&world.config, world.folder.path(), &wallet).await?;
        let integrator = Integrator { key, wallet };
        let place = (devnet, &world.config, world.folder.path());
        let adversary = Adversary::new(place, args, calm_after(args)? / 2, rng).await?;
        let hooks = if args.deposits_only { None } else { Some(Hooks::start().await?) };
        Ok(Self { devnet, proxies, venue, program, api, integrator, hooks, adversary, folder: world.folder, postgres })
    }

    async fn run(&self, args: &ChaosArgs, rng: &Rng, progress: &Progress) -> Result<Report> {
        let chains = &self.devnet.chains;
        let time = calm_after(args)?;
        let mix = if args.deposits_only { &plan::DEPOSITS[..] } else { &plan::MIX };
        let transfers = plan::transfers(usize::try_from(args.transfers)?, mix, chains.len(), time * 3 / 4, rng);
        let sends = Sends::new(self.devnet);
        let traffic = Traffic::new((self.devnet, &self.venue), &self.api, &sends, &self.integrator, transfers.len());
        progress.say("Giving the users what they pay with");
        traffic.fund(&transfers).await?;
        self.adversary.fund(self.devnet, &sends).await?;
        let market = Market::new(self.devnet).await?;
        for chain in chains {
            let deep = chain.block_number().await? + FUNDING_DEPTH_BLOCKS;
            while chain.block_number().await? < deep {
                tokio::time::sleep(BLOCK_TIME).await;
            }
        }
        let keys = &self.devnet.keys;
        let fillers = keys.fillers.iter().map(|filler| filler.address).collect();
        let relayers = vec![keys.orders.relayer().address];
        let mut books = Books::open(chains, (fillers, relayers), keys.treasury.address).await?;
        let mut record = self.ask_early(&traffic, &transfers, (&books, &market), progress).await?;
        let counts = Counts::default();
        let began = Instant::now();
        let served = self.storm((args, time, rng), &traffic, &transfers, &counts, (&market, &mut record)).await?;
        let calm = Instant::now();
        progress.say("No more faults; waiting for every transfer to end");
        let (mut wrong, tally) = self.settle(&traffic, &transfers, (&mut books, &mut record), progress).await?;
        let phases = Phases { faults: (calm - began).as_secs_f64(), endings: calm.elapsed().as_secs_f64() };
        let people = People { traffic: &traffic, transfers: &transfers, adversary: &self.adversary, books: &books };
        let gains = people.judge(&market, &record, &mut wrong).await?;
        let mut told = HookTally::default();
        if let Some(hooks) = &self.hooks {
            progress.say("Comparing the webhooks with what happened");
            told = hooks.settle(&traffic, &transfers, &self.integrator.key, &mut wrong).await?;
        }
        let mut report = Report::new(&counts, &transfers, tally, wrong);
        let taken = |raw: bool| traffic.permits().iter().filter(|it| it.taken && it.raw_call == raw).count();
        let (permits, calls) = (taken(false), taken(true));
        report = Report { phases, ahead: traffic.ahead(), permits, calls, gains, hooks: told, ..report };
        if !args.deposits_only {
            report.wrong.extend(venue::never_restarted(time, report.venue_restarts));
        }
        let ended = served.terminate().await?;
        if !ended.success() {
            report.wrong.push(format!("the service did not end in order: {ended}"));
        }
        self.audit(&mut report).await?;
        Ok(report)
    }

    /// A first life of the service, without faults: it credits balances, and half of the users ask for their quotes.
    async fn ask_early<'m>(
        &'m self,
        traffic: &Traffic<'_>,
        transfers: &[plan::Transfer],
        (books, market): (&Books, &'m Market<'m>),
        progress: &Progress,
    ) -> Result<Record<'m>> {
        progress.say("Half of the users ask for their quotes");
        let mut calm_before = self.program.serve(None)?;
        let funded = async {
            while !traffic.is_funded().await || !self.adversary.is_funded(&self.api).await {
                tokio::time::sleep(BLOCK_TIME).await;
            }
        };
        tokio::time::timeout(SERVE_TIMEOUT, funded).await.context("the integrators' balances are not credited")?;
        if let Some(hooks) = &self.hooks {
            hooks.listen(&self.api, &self.integrator.key).await?;
        }
        let (users, followed) =
            richer::parties((traffic, transfers), &self.adversary, &self.integrator, (self.devnet, books));
        let blocks: Vec<u64> = books.ledgers.iter().map(|ledger| ledger.up_to).collect();
        let world = (&self.devnet.chains[..], &self.api, market);
        let record = Record::new(world, &blocks, users, followed).await?;
        let asked = try_join_all(transfers.iter().map(|transfer| traffic.ask_early(transfer)));
        tokio::time::timeout(SERVE_TIMEOUT, asked).await.context("users still wait for quotes")??;
        calm_before.kill()?;
        Ok(record)
    }

    /// Everything at once, until the last kill and the last user; the service is left running.
    async fn storm(
        &self,
        (args, time, rng): (&ChaosArgs, Duration, &Rng),
        traffic: &Traffic<'_>,
        transfers: &[plan::Transfer],
        counts: &Counts,
        (market, record): (&Market<'_>, &mut Record<'_>),
    ) -> Result<Served> {
        let chains = &self.devnet.chains;
        let (calm, clouds) = watch::channel(false);
        let nodes = chains.iter().zip(&self.proxies).map(|(chain, proxy)| [&chain.faults, &proxy.faults]);
        let faults = nodes.zip(0..).map(|(nodes, chain): (_, u32)| {
            faults::misbehave(nodes, counts, clouds.clone(), rng.apart(&format!("faults {chain}")))
        });
        let reorgs = (0..chains.len()).map(|chain| {
            let rng = rng.apart(&format!("reorgs {chain}"));
            faults::reorganise(traffic, chain, counts, clouds.clone(), rng)
        });
        let users = try_join_all(transfers.iter().map(|transfer| traffic.run(transfer)));
        let killer = faults::kill_often(&self.program, args.kills, traffic, counts, rng.apart("kills"));
        let storm = async {
            let served = killer.await;
            calm.send_replace(true);
            served
        };
        let venue = async {
            match args.deposits_only {
                true => Ok(()),
                false => self.venue.misbehave(counts, clouds.clone(), rng.apart("venue")).await,
            }
        };
        let faults = async {
            let (_, reorgs, venue) = tokio::join!(futures::future::join_all(faults), try_join_all(reorgs), venue);
            venue.and(reorgs.map(drop))
        };
        let said = report::speak(counts, traffic, args, transfers, &clouds);
        // Users retry while the service is dead, so they may be done long after the last fault.
        let users =
            async { tokio::time::timeout(time + SERVE_TIMEOUT, users).await.context("users still wait for quotes")? };
        let (still, moving) = watch::channel(false);
        let hostile = async {
            let tried = self.adversary.run((self.devnet, &self.api, traffic.sends), (market, &self.proxies)).await;
            still.send_replace(true);
            tried
        };
        let (ended, end) = watch::channel(false);
        let storm = async {
            let prices = market.run(moving, rng.apart("prices"));
            let all = tokio::join!(storm, faults, users, said, hostile, prices);
            ended.send_replace(true);
            all
        };
        let ((served, faults, users, (), hostile, ()), recorded) = tokio::join!(storm, record.follow(end));
        let (served, (), _, (), ()) = (served?, faults?, users?, hostile?, recorded?);
        Ok(served)
    }

    /// Waits until everything is as it should be, or nothing improves any more. The record is read on meanwhile: nodes
    /// forget the state of old blocks.
    async fn settle(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[plan::Transfer],
        (books, record): (&mut Books, &mut Record<'_>),
        progress: &Progress,
    ) -> Result<(Vec<String>, Tally)> {
        let (end, ended) = watch::channel(false);
        let settled = async {
            let settled = self.settled(traffic, transfers, books, progress).await;
            end.send_replace(true);
            settled
        };
        let (settled, recorded) = tokio::join!(settled, record.follow(ended));
        recorded?;
        let settled = settled?;
        books.read_on(&self.devnet.chains).await?;
        for (chain, ledger) in books.ledgers.iter().enumerate() {
            record.read_to(chain, ledger.up_to).await?;
        }
        Ok(settled)
    }

    async fn settled(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[plan::Transfer],
        books: &mut Books,
        progress: &Progress,
    ) -> Result<(Vec<String>, Tally)> {
        let began = Instant::now();
        while !faults::serves(traffic).await {
            if began.elapsed() > SERVE_TIMEOUT {
                bail!("the service does not serve again:\n{}", faults::tail(&self.program.log, 20));
            }
            tokio::time::sleep(BLOCK_TIME).await;
        }
        let (mut last, mut since) = ((usize::MAX, Tally::default()), Instant::now());
        loop {
            traffic.sends.send_again().await?;
            tokio::time::sleep(BLOCK_TIME * 4).await;
            books.read_on(&self.devnet.chains).await?;
            let (wrong, tally) = books.judge(traffic, transfers, &self.adversary).await?;
            if wrong.is_empty() {
                return Ok((wrong, tally));
            }
            if last != (wrong.len(), tally) {
                progress.say(&format!("{} things are not as they should be yet", wrong.len()));
                (last, since) = ((wrong.len(), tally), Instant::now());
            }
            if since.elapsed() > SETTLE_TIMEOUT {
                return Ok((wrong, tally));
            }
        }
    }

    /// Runs `causeway audit` on the database.
    async fn audit(&self, report: &mut Report) -> Result<()> {
        let (content, text, said) = self.program.run(&["audit", "--json"]).await?;
        let findings: Value = serde_json::from_str(&text).with_context(|| format!("{text}{said}"))?;
        let checks = findings["checks"].as_array().context("an audit without checks")?;
        report.audited = checks.iter().filter_map(|check| check["compared"].as_u64()).sum();
        for check in checks {
            for difference in check["differences"].as_array().into_iter().flatten() {
                report.wrong.push(format!("audit: {} ({}): {difference}", check["check"], check["chain"]));
            }
        }
        if !content && report.wrong.is_empty() {
            report.wrong.push(format!("the audit is not content: {said}"));
        }
        Ok(())
    }
}
