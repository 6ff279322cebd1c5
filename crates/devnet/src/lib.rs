//! Local chains with our contracts, tokens, feeds and a DEX on them, behind one handle. The devnet knows nothing of the
//! service: it makes chains and says where everything is.
//!
//! Its programs are fetched on first use (`tools`); its child processes never outlive the process (`process`).

mod account_abstraction;
mod anvil;
mod artifacts;
mod background;
mod chain;
mod connection;
mod deploy;
mod fault_replies;
mod faults;
mod forgeries;
pub mod http;
mod invented;
mod keys;
mod local_venue;
mod locked;
mod mining;
mod networks;
mod port;
mod postgres;
pub mod process;
mod progress;
mod proxy;
mod rng;
mod rpc;
mod scratch;
mod stage;
mod state;
mod tokens;
mod tools;
mod uniswap;
mod venue_simulator;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinHandle;
use url::Url;

pub use crate::account_abstraction::AccountAbstraction;
pub use crate::chain::Chain;
pub use crate::deploy::{Contracts, deposit_address_factory};
pub use crate::faults::{Fault, Faults};
pub use crate::forgeries::{FalseWord, Forgery, InventedCall, InventedLog};
pub use crate::keys::{Account, Keys};
pub use crate::local_venue::LocalVenue;
pub use crate::port::free_port;
pub use crate::postgres::Postgres;
pub use crate::progress::Progress;
pub use crate::proxy::FaultProxy;
pub use crate::rng::Rng;
pub use crate::scratch::scratch;
pub use crate::stage::Deterministic;
pub use crate::tokens::Token;
pub use crate::venue_simulator::{
    BookedTransfer, NewAccount, VenueAccount, VenueFault, VenueFaults, VenueOptions, VenueSimulator,
};

use crate::anvil::{Anvil, Setup};
use crate::background::on_background_thread;
use crate::deploy::Deployment;
use crate::mining::Miner;
use crate::networks::{NETWORKS, Network};
use crate::state::{DataDir, Key, Saved};
use crate::tools::Cache;

#[derive(Clone, Debug)]
pub struct Options {
    pub block_time: Duration,
    /// On a busy machine, blocks come later than `block_time` says. Services that follow a chain read every block: one
    /// that kept its pace would only lengthen their queues.
    pub gives_way: bool,
    /// The folder to continue from and to save to at an orderly stop; without one, chains are new and forgotten.
    pub data_dir: Option<PathBuf>,
    /// Ignores the contents of the data folder.
    pub fresh: bool,
    /// Chain `i` listens on `first_port + 2i`, its second endpoint on the port after that. Free ports by default.
    pub first_port: Option<u16>,
    pub fillers: usize,
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_time: Duration::from_secs(1),
            gives_way: false,
            data_dir: None,
            fresh: false,
            first_port: None,
            fillers: 4,
            progress: Progress::silent(),
        }
    }
}

/// Running chains. Dropping it ends them at once; `shutdown` ends them in order.
#[derive(Debug, Serialize)]
pub struct Devnet {
    pub chains: Vec<Chain>,
    pub keys: Keys,
    /// A simulator, with funded accounts.
    pub venue: LocalVenue,
    /// True when the chains continue those of an earlier run. If not, any stored data about them is void.
    pub resumed: bool,
    /// True when the chains were loaded from a saved template instead of being deployed.
    pub from_template: bool,
    /// None once the chains have ended.
    #[serde(skip)]
    running: std::sync::Mutex<Option<Running>>,
}

/// Fields are dropped in this order: the folder goes last.
#[derive(Debug)]
struct Running {
    key: Key,
    miners: Vec<JoinHandle<()>>,
    proxies: Vec<FaultProxy>,
    anvils: Vec<Anvil>,
    home: Home,
}

/// The folder where chains keep their logs, and their state if they are to continue.
#[derive(Debug)]
enum Home {
    Kept(DataDir),
    Temporary(tempfile::TempDir),
}

impl Drop for Running {
    fn drop(&mut self) {
        for miner in &self.miners {
            miner.abort();
        }
    }
}

impl Devnet {
    pub fn start(options: Options) -> BoxFuture<'static, Result<Self>> {
        async move {
            let progress = &options.progress;
            let keys = Keys::new(options.fillers);
            let key = Key::new(options.fillers);
            let cache = Cache::open()?;
            let anvil = {
                let (cache, progress) = (cache.clone(), progress.clone());
                tokio::task::spawn_blocking(move || cache.anvil(&progress)).await??
            };
            let home = match &options.data_dir {
                Some(dir) => Home::Kept(DataDir::open(dir)?),
                None => Home::Temporary(scratch("causeway-devnet-")?),
            };
            let left = match &home {
                Home::Kept(dir) if !options.fresh => dir.resume(&key, &NETWORKS, progress),
                _ => None,
            };
            let resumed = left.is_some();
            let (saved, from_template) = match left {
                Some(saved) => (saved, true),
                None => state::templates(&cache, &anvil, &key, &NETWORKS, &keys, progress).await?,
            };
            progress.say("Starting the local chains");
            let launch = Launch { anvil, home: &home, options: &options, keys: &keys };
            let launches = (0..).zip(NETWORKS).zip(saved).map(|((i, network), saved)| launch.chain(i, network, saved));
            let launched = futures::future::try_join_all(launches).await?;
            if let Home::Kept(dir) = &home {
                dir.begin(&NETWORKS)?;
            }
            let folder = match &home {
                Home::Kept(dir) => dir.path(),
                Home::Temporary(dir) => dir.path(),
            };
            let venue = LocalVenue::start(folder, resumed, options.first_port, &keys).await?;
            let mut chains = vec![];
            let mut running = Running { key, anvils: vec![], proxies: vec![], miners: vec![], home };
            for (chain, anvil, proxy) in launched {
                running.miners.push(chain.miner.run(chain.name.clone(), options.block_time, options.gives_way));
                running.anvils.push(anvil);
                running.proxies.push(proxy);
                chains.push(chain);
            }
            let running = std::sync::Mutex::new(Some(running));
            Ok(Self { chains, keys, venue, resumed, from_template, running })
        }
        .boxed()
    }

    /// Panics for a chain that does not exist: the list is fixed.
    pub fn chain(&self, name: &str) -> &Chain {
        let chain = self.chains.iter().find(|chain| chain.name == name);
        chain.unwrap_or_else(|| panic!("there is no chain {name} on the devnet"))
    }

    /// The process id of each chain, in their order, where the system tells.
    pub fn processes(&self) -> Vec<Option<u32>> {
        let running = self.running();
        running.iter().flat_map(|running| &running.anvils).map(Anvil::id).collect()
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        // A poisoned lock is safe to enter: nothing is left half done under it.
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Ends the chains at once, as dropping does, for callers who have only borrowed them.
    pub fn end(&self) {
        drop(self.running().take());
    }

    /// Ends the chains in order and, with a data folder, saves them there.
    pub fn shutdown(self) -> BoxFuture<'static, Result<()>> {
        async move {
            let Some(mut running) = self.running().take() else { return Ok(()) };
            for miner in running.miners.drain(..) {
                miner.abort();
                // The task was aborted, so the error is expected; it only matters that nothing mines any more.
                drop(miner.await);
            }
            running.proxies.clear();
            let stops = running.anvils.drain(..).map(Anvil::stop);
            futures::future::try_join_all(stops).await?;
            if let Home::Kept(dir) = &running.home {
                let deployments = self.chains.iter().map(|chain| Deployment {
                    contracts: chain.contracts.clone(),
                    tokens: chain.tokens.clone(),
                    native_feed: chain.native_feed,
                    start_block: chain.start_block,
                });
                dir.finish(&running.key, &NETWORKS, deployments.collect())?;
            }
            Ok(())
        }
        .boxed()
    }

    /// One devnet per test binary, with 200 ms blocks where the machine can. It lives on a thread of its own, so that
    /// the runtimes of tests may come and go, and ends with the process.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Devnet> = OnceCell::const_new();
        SHARED
            .get_or_init(|| async {
                let options = Options { block_time: Duration::from_millis(200), gives_way: true, ..Options::default() };
                on_background_thread("devnet", Self::start(options)).await.expect("a devnet for the tests")
            })
            .await
    }
}

/// The parameters that all chains are started with.
struct Launch<'a> {
    anvil: PathBuf,
    home: &'a Home,
    options: &'a Options,
    keys: &'a Keys,
}

impl Launch<'_> {
    async fn chain(&self, i: u16, network: Network, saved: Saved) -> Result<(Chain, Anvil, FaultProxy)> {
        let port = match self.options.first_port {
            Some(first) => {
                first.checked_add(2 * i).filter(|port| *port < u16::MAX).context("the first port is too high")?
            }
            None => 0,
        };
        let (dir, dump) = match self.home {
            Home::Kept(data) => (data.path(), Some(data.state_file(&network))),
            Home::Temporary(dir) => (dir.path(), None),
        };
        let anvil = Anvil::start(Setup {
            binary: &self.anvil,
            name: network.name,
            chain_id: network.id,
            port,
            load: Some(&saved.state),
            dump: dump.as_deref(),
            dir,
            dir_is_temporary: dump.is_none(),
        })
        .await?;
        let rpc_url = Url::parse(&format!("http://127.0.0.1:{}", anvil.port))?;
        let ws_url = Url::parse(&format!("ws://127.0.0.1:{}", anvil.port))?;
        let second_port = if port == 0 { 0 } else { port + 1 };
        let proxy = FaultProxy::start_at(rpc_url.clone(), ws_url.clone(), second_port).await?;
        let Deployment { contracts, tokens, native_feed, start_block } = saved.deployment;
        let chain = Chain {
            id: network.id,
            name: network.name.to_owned(),
            rpc_url,
            ws_url,
            second_rpc_url: proxy.rpc_url.clone(),
            second_ws_url: proxy.ws_url.clone(),
            faults: proxy.faults.clone(),
            contracts,
            tokens,
            native_feed,
            start_block,
            block_time: self.options.block_time,
            rpc: anvil.rpc.clone(),
            miner: Miner::new(anvil.rpc.clone()),
            deployer: self.keys.deployer,
            sending: Arc::new(Mutex::new(())),
        };
        // A loaded chain has no block of its own yet: its head may be days old.
        chain.mine(1).await?;
        Ok((chain, anvil, proxy))
    }
}
