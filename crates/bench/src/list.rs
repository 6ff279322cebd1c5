//! Listings, and the pages of the dashboard, in databases of several sizes, side by side: the same queries by turns, so
//! that other load on the machine falls on all of them alike. A filter with an index, and every page, must take as long
//! among millions as among thousands.

mod filters;
mod pages;
mod populate;
mod report;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use causeway::commands::api_key;
use causeway::env::system_env;
use causeway::local::serves_every_chain;
use causeway::service::Service;
use clap::Args;
use devnet::{Chain, Devnet, Postgres, Progress};
use domain::api_key::{ApiKeyId, KeyText};
use domain::catalog::Catalog;
use domain::facts::Facts;
use domain::ids::RequestId;
use harness::{Engine, Wallets, World, ask, database, eventually};
use serde_json::Value;
use store::StoreError;
use store::keys::{self, KeyHash};

use self::filters::Filter;
pub(crate) use self::report::Report;
use self::report::{Bounded, EngineReport, Measured};
use self::rows::{RECIPIENT, Rows, Template, USER};
use crate::client::{Client, get_as, post, post_as};
use crate::results;
use crate::stats::{Latency, nanos};

/// Calls before the measurement: the first ones prepare statements.
const WARM_UP: usize = 10;
/// A listing is ended after five seconds; its answer needs a little more.
const ANSWER_LIMIT: Duration = Duration::from_secs(8);

#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// Sizes of the databases, in requests, in rising order.
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000,5000000",
          value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    pub rows: Vec<u64>,
    /// The databases to measure.
    #[arg(long, default_value = "both")]
    pub engine: Engines,
    /// Calls per filter and size.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub samples: u16,
    /// Measure only filters whose name contains this text.
    #[arg(long)]
    pub only: Option<String>,
    /// The most that a filter with an index may take in the largest database, as a multiple of the smallest: at the
    /// median, and among the fastest tenth of its calls.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub max_ratio: u64,
    /// The longest that a page of the dashboard may take in the largest database at the median, in milliseconds.
    /// Without it none fails: a busy machine makes every page slow.
    #[arg(long)]
    pub max_page_millis: Option<u64>,
    /// Folder for the databases; five million requests take more than forty gigabytes.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub folder: PathBuf,
    /// Also write the results to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engines {
    Sqlite,
    Postgres,
    Both,
}

impl Engines {
    const fn list(self) -> &'static [Engine] {
        match self {
            Self::Sqlite => &[Engine::Sqlite],
            Self::Postgres => &[Engine::Postgres],
            Self::Both => &[Engine::Sqlite, Engine::Postgres],
        }
    }
}

pub(crate) async fn measure(args: &ListArgs) -> Result<Report> {
    ensure!(args.rows.is_sorted_by(|one, next| one < next), "--rows: the sizes must rise");
    let progress = Progress::new(|text| eprintln!("{text}"));
    let devnet = Devnet::start(devnet::Options { progress: progress.clone(), ..devnet::Options::default() }).await?;
    let mut report =
        Report { cores: std::thread::available_parallelism()?.get(), samples: args.samples, engines: Vec::new() };
    for engine in args.engine.list() {
        report.engines.push(on_engine(&devnet, *engine, args, &progress).await?);
    }
    devnet.shutdown().await?;
    results::write(args.json.as_deref(), &report)?;
    Ok(report)
}

async fn on_engine(devnet: &Devnet, engine: Engine, args: &ListArgs, progress: &Progress) -> Result<EngineReport> {
    // A folder beside the others, not inside one: the Postgres server may run as another user.
    let data = tempfile::Builder::new().prefix("causeway-bench-postgres-").tempdir_in(&args.folder)?;
    let postgres = match engine {
        Engine::Postgres => Some(Postgres::start(data.path(), progress).await?),
        Engine::Sqlite => None,
    };
    let (mut sizes, mut filled_millis) = (Vec::new(), Vec::new());
    for count in &args.rows {
        progress.say(&format!("Filling {} with {count} requests", engine.name()));
        let began = Instant::now();
        let size = Size::start(devnet, postgres.as_ref(), &args.folder, *count).await?;
        let say = |text: String| progress.say(&text);
        populate::populate(&size.service.solver.store, &size.rows, *count, &say).await?;
        filled_millis.push(u64::try_from(began.elapsed().as_millis())?);
        sizes.push(size);
    }
    progress.say(&format!("Listing on {}", engine.name()));
    let indexed = indexed(&sizes, args).await?;
    let others = others(&sizes, args).await?;
    let pages = pages::measure(&sizes, args).await?;
    for size in sizes {
        size.service.stop().await?;
    }
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    Ok(EngineReport { engine, rows: args.rows.clone(), filled_millis, indexed, others, pages })
}

async fn indexed(sizes: &[Size], args: &ListArgs) -> Result<Vec<Measured>> {
    let mut clients = Vec::new();
    for size in sizes {
        clients.push(Client::connect(size.service.address).await?);
    }
    // Each size has values of its own: those of its newest requests.
    let of_sizes: Vec<Vec<Filter>> = sizes.iter().map(|size| filters::indexed(&size.rows, size.count)).collect();
    let mut all = Vec::new();
    for (at, Filter { name, .. }) in of_sizes.first().into_iter().flatten().enumerate() {
        if args.only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let mut nanos_of: Vec<Vec<u64>> = vec![Vec::new(); sizes.len()];
        for sample in 0..WARM_UP + usize::from(args.samples) {
            for (n, (size, client)) in sizes.iter().zip(&mut clients).enumerate() {
                let queries = &of_sizes[n][at].queries;
                let query =
                    queries.get(sample % queries.len().max(1)).with_context(|| format!("{name} has no values"))?;
                let request = get_as(&size.key, &format!("/requests/v3?{query}"));
                let began = Instant::now();
                let answer = client.send(&request).await.with_context(|| format!("{name}: {query}"))?;
                let took = nanos(began.elapsed());
                if sample < WARM_UP {
                    let found = serde_json::from_slice::<Value>(answer)?["requests"].as_array().map_or(0, Vec::len);
                    ensure!(found > 0, "{name} finds nothing among {}: {query}", size.count);
                } else {
                    nanos_of[n].push(took);
                }
            }
        }
        all.push(Measured { name, sizes: nanos_of.into_iter().map(Latency::of).collect() });
    }
    Ok(all)
}

/// The filters without an index, each once in the largest database: an answer, or an end in time that says what to do.
async fn others(sizes: &[Size], args: &ListArgs) -> Result<Vec<Bounded>> {
    let Some(size) = sizes.last() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for Filter { name, queries } in filters::others(&size.rows) {
        if args.only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        for query in queries {
            let mut client = Client::connect(size.service.address).await?;
            let request = get_as(&size.key, &format!("/requests/v3?{query}"));
            let began = Instant::now();
            let answered = match client.send(&request).await {
                Ok(_) => true,
                Err(error) => {
                    let text = format!("{error:#}");
                    let clear = text.contains("REQUEST_TIMED_OUT") && text.contains("narrow it down");
                    ensure!(clear, "{name}: {text}");
                    false
                }
            };
            let took = began.elapsed();
            ensure!(took < ANSWER_LIMIT, "{name} took {} ms", took.as_millis());
            all.push(Bounded { name, millis: u64::try_from(took.as_millis())?, answered });
        }
    }
    Ok(all)
}

/// A service on a database with so many requests.
struct Size {
    count: u64,
    service: Service,
    key: KeyText,
    /// The header of a browser that is signed in as the key's owner, who is an operator too.
    session: String,
    rows: Arc<Rows>,
    // Removed after the service has stopped.
    _world: World,
}

impl Size {
    async fn start(devnet: &Devnet, postgres: Option<&Postgres>, parent: &Path, count: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir_in(parent)?;
        let database = database(folder.path(), postgres).await?;
        let wallet = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
        let world = World::new(folder, devnet, &database, Wallets::of(devnet), |config| {
            // No allocator: nothing is deposited, so nothing is paid out.
            config.allocator = None;
            config.dashboard.operators.push(wallet.address);
            for chain in &mut config.chains {
                chain.start_block = None;
            }
        })?;
        world.migrate()?;
        let key = api_key::ensure(&world.config, world.folder.path(), &wallet).await?;
        let service = Service::start(&world.config, system_env()).await?;
        eventually("the service serves every chain", || async { Ok(serves_every_chain(&service)) }).await?;
        let templates = templates(&service, devnet, &key).await?;
        let rows = Arc::new(Rows::new(templates, id_of(&service, &key).await?, count, (system_env().clock)()));
        let session = pages::sign_in(&service, wallet.address).await?;
        Ok(Self { count, service, key, session, rows, _world: world })
    }
}

async fn id_of(service: &Service, key: &KeyText) -> Result<ApiKeyId> {
    let (hash, now) = (KeyHash::of(key), (system_env().clock)());
    let found = service.solver.store.read(move |tx| keys::by_hash(tx, hash, now)).await?;
    Ok(found.context("the key is not in the database")?.id)
}

/// Quotes of several kinds and amounts, with the key and without, as they are stored.
async fn templates(service: &Service, devnet: &Devnet, key: &KeyText) -> Result<Vec<Template>> {
    let chains = service.solver.chains.values().map(|handle| handle.chain.clone());
    let catalog = Arc::new(Catalog::new(chains.collect())?);
    let mut client = Client::connect(service.address).await?;
    let mut templates = Vec::new();
    for (from, to, amount) in kinds(devnet) {
        for (times, keyed) in [(1_u64, true), (2, false), (4, true)] {
            let body = ask(USER, RECIPIENT, from, to, amount * U256::from(times)).to_string();
            let request = if keyed { post_as(key, "/quote/v2", &body) } else { post("/quote/v2", &body) };
            let quote: Value = serde_json::from_slice(client.send(&request).await?)?;
            let id = quote["steps"][0]["requestId"].as_str().context("a quote without an id")?;
            templates.push(template(service, &catalog, id.parse()?).await?);
        }
    }
    Ok(templates)
}

async fn template(service: &Service, catalog: &Arc<Catalog>, id: RequestId) -> Result<Template> {
    let read = move |tx: &mut store::Tx<'_>| {
        let body = tx.row("select body from quote where request_id = $1", &[id.into()])?;
        let request = store::requests::find(tx, id)?;
        Ok::<_, StoreError>(body.map(|row| row.text(0).map(str::to_owned)).transpose()?.zip(request))
    };
    let (body, request) = service.solver.store.read(read).await?.context("a quote is not stored")?;
    Template::new(&body, id, request.quote.created_at, Facts::of(&request.quote, catalog))
}

type Place = (u64, Address);

/// Pairs of currencies that are sent, with the smallest amount.
fn kinds(devnet: &Devnet) -> Vec<(Place, Place, U256)> {
    let (base, optimism) = (devnet.chain("base"), devnet.chain("optimism"));
    let native = |chain: &Chain| (chain.id, Address::ZERO);
    let token = |chain: &Chain, symbol: &str| (chain.id, chain.token(symbol).address);
    let (dollars, ether) = (U256::from(50_000_000_u64), U256::from(20_000_000_000_000_000_u64));
    vec![
        (native(base), native(optimism), ether),
        (native(optimism), native(base), ether),
        (token(base, "USDC"), token(optimism, "USDC"), dollars),
        (token(optimism, "USDC"), token(base, "USDC"), dollars),
        (token(base, "USDC"), token(optimism, "USDT"), dollars),
        (native(base), token(optimism, "USDC"), ether),
        (token(base, "USDC"), native(base), dollars),
    ]
}
