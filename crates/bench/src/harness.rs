//! A service in this process, on local chains and a fresh database.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use causeway::commands::api_key;
use causeway::config::Config;
use causeway::env::system_env;
use causeway::local::{self, Local};
use causeway::service::Service;
use devnet::{Account, Devnet, Postgres};
use domain::api_key::KeyText;
use domain::ledger::UsdcMicros;
use store::{Store, ledger};
use tempfile::TempDir;

use crate::Engine;

/// The longest a service may take to read every chain.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Blocks after which a transfer on the local chains is final, with a margin.
const FINALITY: u64 = 16;

pub(crate) struct Harness {
    pub service: Service,
    /// API key whose wallet has a balance.
    pub sponsor: KeyText,
    // Removed after the service has stopped.
    _folder: TempDir,
}

impl Harness {
    /// Serves without rate limits. Its nodes are reached through the fault proxies alone, so that a delay there delays
    /// every call.
    pub(crate) async fn start(
        devnet: &Devnet,
        engine: Engine,
        postgres: Option<&Postgres>,
        parent: &Path,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir_in(parent)?;
        let database = match engine {
            Engine::Sqlite => format!("sqlite:{}", folder.path().join("causeway.db").display()),
            Engine::Postgres => {
                postgres.context("a Postgres server was not started")?.fresh_database().await?.to_string()
            }
        };
        let keys = &devnet.keys;
        let mut config = local::config(Local {
            devnet,
            folder: folder.path(),
            port: devnet::free_port()?,
            rate_limits: false,
            database: &database,
            orders: &keys.orders,
            treasury: keys.treasury.address,
            fillers: &keys.fillers,
        })?;
        // No allocator: nothing is deposited, so nothing is paid out, and one node is no quorum.
        config.allocator = None;
        for chain in &mut config.chains {
            chain.endpoints.remove(0);
            // Start at the head: nothing was ever deposited, and catching up would be measured too.
            chain.start_block = None;
        }
        let config = Config::load(&local::write(&config, folder.path())?)?;
        Store::migrate(&causeway::assemble::database(&config)?)?;
        // A wallet of its own: a transfer credited in this database was sent to no other.
        let wallet = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
        let sponsor = api_key::ensure(&config, folder.path(), &wallet).await?;
        let service = Service::start(&config, system_env()).await?;
        served(&service).await?;
        fund(&service, devnet, &wallet).await?;
        Ok(Self { service, sponsor, _folder: folder })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.service.stop().await
    }
}

/// Waits until every chain is read and takes payments.
async fn served(service: &Service) -> Result<()> {
    let solver = &service.solver;
    let read = async || {
        Ok(solver.chains.values().all(|handle| {
            handle.refusing().is_none()
                && *handle.health.taken.borrow() > 0
                && solver.market.current(handle.id()).is_ok_and(|market| market.check_pools().is_ok())
        }))
    };
    eventually("the service serves every chain", read).await
}

/// Sends the wallet its balance, and mines the blocks after which it is final.
async fn fund(service: &Service, devnet: &Devnet, wallet: &Account) -> Result<()> {
    api_key::fund(service, devnet, wallet).await?;
    devnet.chain(domain::ledger::CHAIN).mine(FINALITY).await?;
    let (store, wallet) = (&service.solver.store, wallet.address);
    let credited = async || Ok(store.read(move |tx| ledger::account(tx, wallet)).await?.balance > UsdcMicros::ZERO);
    eventually("the sponsor's balance is credited", credited).await
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    const POLL_INTERVAL: Duration = Duration::from_millis(50);
    for _ in 0..START_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if is_so().await? {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("not in time: {what}")
}
