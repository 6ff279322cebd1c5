//! `causeway dev`: a local network and the service on it, with one command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use devnet::{Devnet, Postgres, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use store::Store;

pub mod api_key;
mod facts;

use crate::cli::DevArgs;
use crate::env::system_env;
use crate::local::{self, Local};
use crate::service::Service;
use crate::signals::Signals;

/// Every run has the same number of fillers: a saved chain knows that many wallets.
const FILLERS: usize = 4;

pub(crate) async fn run(args: &DevArgs) -> Result<()> {
    std::fs::create_dir_all(&args.data_dir)
        .with_context(|| format!("cannot make the folder {}", args.data_dir.display()))?;
    let folder = args.data_dir.canonicalize()?;
    facts::remove(&folder);
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}  {elapsed:.dim}")?);
    bar.enable_steady_tick(Duration::from_millis(100));
    let say = {
        let bar = bar.clone();
        move |text: &str| match bar.is_hidden() {
            // There is no spinner without a terminal.
            true => eprintln!("{text}"),
            false => bar.set_message(text.to_owned()),
        }
    };
    let progress = Progress::new(say);

    let devnet = Devnet::start(devnet::Options {
        block_time: args.block_time,
        gives_way: false,
        data_dir: Some(folder.join("chains")),
        fresh: args.fresh,
        first_port: None,
        fillers: FILLERS,
        progress: progress.clone(),
    })
    .await?;
    let result = with_chains(args, &folder, &devnet, &progress, &bar).await;
    facts::remove(&folder);
    devnet.shutdown().await?;
    result
}

async fn with_chains(
    args: &DevArgs,
    folder: &Path,
    devnet: &Devnet,
    progress: &Progress,
    bar: &ProgressBar,
) -> Result<()> {
    let database = Database::open(args, folder, devnet, progress).await?;
    let keys = &devnet.keys;
    let local = Local {
        devnet,
        folder,
        port: args.port,
        rate_limits: !args.no_rate_limits,
        database: &database.text,
        orders: &keys.orders,
        treasury: keys.treasury.address,
        fillers: &keys.fillers,
    };
    let venue = local::venue(&devnet.venue.simulator, &devnet.venue.solver, folder)?;
    let (_, config) = local::prepare(local, |config| {
        config.venue = Some(venue);
        if let Some(day) = args.requests_v2_sunset {
            config.requests_v2.sunset_at = day;
        }
    })?;
    progress.say("Preparing the database");
    Store::migrate(&crate::assemble::database(&config)?)?;
    let api_key = api_key::ensure(&config, folder, &keys.users[1]).await?;
    let service = if args.chains_only {
        None
    } else {
        progress.say("Starting the service");
        Some(Service::start(&config, system_env()).await?)
    };
    if let Some(service) = &service {
        ready(service).await;
        api_key::fund(service, devnet, &keys.users[1]).await?;
    }
    let mut signals = Signals::listen()?;
    facts::write(folder, devnet, &config, &database.text, &api_key)?;
    bar.finish_and_clear();
    facts::print(devnet, &config, args, folder, &api_key);
    match service {
        Some(service) => service.run(signals).await?,
        None => signals.heard().await,
    }
    eprintln!("stopping");
    database.stop().await
}

/// Waits until every chain has been read and accepts payments, so that the first pasted quote works.
async fn ready(service: &Service) {
    for _ in 0..200 {
        if local::serves_every_chain(service) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The database of this run, and its server if `dev` started one.
struct Database {
    text: String,
    server: Option<Postgres>,
}

impl Database {
    async fn open(args: &DevArgs, folder: &Path, devnet: &Devnet, progress: &Progress) -> Result<Self> {
        match args.database.as_str() {
            "sqlite" => {
                let path = folder.join("causeway.db");
                if !devnet.resumed {
                    // Stored requests belong to chains that no longer exist.
                    remove_sqlite(&path)?;
                }
                Ok(Self { text: format!("sqlite:{}", path.display()), server: None })
            }
            "postgres" => {
                progress.say("Starting Postgres");
                let server = Postgres::start(&folder.join("postgres"), progress).await?;
                let remembered = folder.join("postgres.url");
                let text = match std::fs::read_to_string(&remembered) {
                    Ok(name) if devnet.resumed => with_database(server.url(), name.trim()),
                    _ => server.fresh_database().await?.to_string(),
                };
                let name = url::Url::parse(&text)?.path().trim_start_matches('/').to_owned();
                std::fs::write(&remembered, name)?;
                Ok(Self { text, server: Some(server) })
            }
            url => Ok(Self { text: url.to_owned(), server: None }),
        }
    }

    async fn stop(self) -> Result<()> {
        match self.server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}

fn with_database(server: &url::Url, name: &str) -> String {
    let mut url = server.clone();
    url.set_path(&format!("/{name}"));
    url.to_string()
}

fn remove_sqlite(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match std::fs::remove_file(PathBuf::from(&file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
