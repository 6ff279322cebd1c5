//! A service in this process, for quotes: on local chains and a fresh database.

use std::path::Path;

use anyhow::{Context, Result};
use causeway::commands::api_key;
use causeway::env::system_env;
use causeway::local::serves_every_chain;
use causeway::service::Service;
use devnet::{Account, Devnet, Postgres};
use domain::api_key::KeyText;
use domain::ledger::UsdcMicros;
use harness::{Engine, Wallets, World, database, eventually};
use store::ledger;

/// Blocks after which a transfer on the local chains is final, with a margin.
const FINALITY: u64 = 16;

pub(crate) struct Quoting {
    pub service: Service,
    /// API key whose wallet has a balance.
    pub sponsor: KeyText,
    // Removed after the service has stopped.
    _world: World,
}

impl Quoting {
    /// Serves without rate limits. Its nodes are reached through the fault proxies alone, so that a delay there delays
    /// every call.
    pub(crate) async fn start(
        devnet: &Devnet,
        engine: Engine,
        postgres: Option<&Postgres>,
        parent: &Path,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir_in(parent)?;
        let server = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(postgres.context("a Postgres server was not started")?),
        };
        let database = database(folder.path(), server).await?;
        let world = World::new(folder, devnet, &database, Wallets::of(devnet), |config| {
            // No allocator: nothing is deposited, so nothing is paid out, and one node is no quorum.
            config.allocator = None;
            for chain in &mut config.chains {
                chain.endpoints.remove(0);
                // Start at the head: nothing was ever deposited, and catching up would be measured too.
                chain.start_block = None;
            }
        })?;
        world.migrate()?;
        // A wallet of its own: a transfer credited in this database was sent to no other.
        let wallet = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
        let sponsor = api_key::ensure(&world.config, world.folder.path(), &wallet).await?;
        let service = Service::start(&world.config, system_env()).await?;
        eventually("the service serves every chain", || async { Ok(serves_every_chain(&service)) }).await?;
        fund(&service, devnet, &wallet).await?;
        Ok(Self { service, sponsor, _world: world })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.service.stop().await
    }
}

/// Sends the wallet its balance, and mines the blocks after which it is final.
async fn fund(service: &Service, devnet: &Devnet, wallet: &Account) -> Result<()> {
    api_key::fund(service, devnet, wallet).await?;
    devnet.chain(domain::ledger::CHAIN).mine(FINALITY).await?;
    let (store, wallet) = (&service.solver.store, wallet.address);
    let balance = || store.read(move |tx| ledger::account(tx, wallet));
    eventually("the sponsor's balance is credited", || async { Ok(balance().await?.balance > UsdcMicros::ZERO) }).await
}
