//! The running service: its tasks, its listener, and the orderly end of both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::{Addresses, Allowance, App, Keys, Limits, OperatorToken};
use solver::{Outside, Solver};
use store::{Store, WorkerLock};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::assemble;
use crate::config::Config;

/// How long the tasks may take to end. What they had committed by then is sent after the next start.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Service {
    pub address: SocketAddr,
    pub solver: Arc<Solver>,
    stop: CancellationToken,
    tasks: TaskTracker,
    // Held as long as anything may pay from this database.
    lock: Arc<WorkerLock>,
}

impl Service {
    /// Opens the database, checks the nodes, starts the tasks and listens.
    pub async fn start(config: &Config, outside: Outside) -> Result<Self> {
        let database = assemble::database(config)?;
        let lock = Arc::new(store::lock(&database)?);
        // A wrong one should be known at the start, not when it is needed.
        config.master_key()?;
        let store = Store::open(&database)?;
        let metrics = crate::telemetry::metrics();
        let parts = assemble::parts(config, store, outside)?;
        let solver = parts.solver;
        check_chains(&solver).await?;
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {}: choose another address or port", config.listen))?;
        let address = listener.local_addr()?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        for (nodes, watchlist) in parts.watchlists {
            let refresh = market::refresh(solver.market.clone(), nodes, watchlist);
            let stop = stop.clone();
            tasks.spawn(async move { stop.run_until_cancelled(refresh).await });
        }
        solver.start(parts.inboxes, &stop, &tasks);
        if let Some(allocator) = &parts.allocator {
            allocator.start(&solver, &stop, &tasks);
        }
        let app = App {
            catalog: solver.catalog.clone(),
            solver: solver.clone(),
            addresses: addresses(config),
            operator: operator(config)?,
            keys: Arc::new(Keys::new(solver.store.clone(), outside.clock)),
            limits: limits(config)?.map(Arc::new),
            metrics,
        };
        let router = api::router(app).into_make_service_with_connect_info::<SocketAddr>();
        let serve = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(async move {
            if let Err(error) = serve.await {
                error!(%error, "the listener ended");
            }
        });
        let (watched, stopping) = (lock.clone(), stop.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = watched.lost() => {
                    error!("the lock on the database was lost: another instance may take over, stopping");
                    stopping.cancel();
                }
            }
        });
        tasks.close();
        info!(%address, "listening on {address}");
        Ok(Self { address, solver, stop, tasks, lock })
    }

    /// Runs until a signal asks to stop, or the service itself has to.
    pub async fn run(self) -> Result<()> {
        tokio::select! {
            () = signal() => info!("stopping"),
            () = self.stop.cancelled() => {}
        }
        self.stop().await
    }

    /// Ends the listener and the tasks in order.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        if tokio::time::timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            warn!("some tasks did not end in time; what they committed is not lost");
        }
        // Closed before we say so: what is copied or opened next is whole.
        let store = self.solver.store.clone();
        drop(self.solver);
        if tokio::time::timeout(PATIENCE, store.close()).await.is_err() {
            warn!("the database is still in use");
        }
        if self.lock.is_lost() {
            bail!("the lock on the database was lost");
        }
        Ok(())
    }
}

/// Completes on Ctrl-C or SIGTERM.
pub async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be listened to");
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

pub fn addresses(config: &Config) -> Addresses {
    Addresses {
        base_url: assemble::plain(&config.base_url),
        testnet_base_url: config.testnet_base_url.as_ref().map(assemble::plain),
    }
}

fn operator(config: &Config) -> Result<Option<OperatorToken>> {
    let Some(source) = &config.operator.token else { return Ok(None) };
    let token = source.read(&config.folder).context("operator.token")?;
    let token = token.expose().trim();
    ensure!(token.len() >= 16, "operator.token: must be at least 16 characters");
    Ok(Some(OperatorToken::new(token)))
}

fn limits(config: &Config) -> Result<Option<Limits>> {
    if !config.limits.rate_limits {
        return Ok(None);
    }
    let proxies =
        config.trusted_proxies.iter().map(|text| text.parse().with_context(|| format!("trusted_proxies: {text}")));
    let allowance = Allowance {
        quotes_per_minute: config.limits.quotes_per_minute,
        others_per_minute: config.limits.others_per_minute,
        wrong_keys_per_minute: config.limits.wrong_keys_per_minute,
        trusted_proxies: proxies.collect::<Result<_>>()?,
    };
    Ok(Some(Limits::new(allowance, Arc::new(AtomicU32::new(1)))))
}

/// A node of another chain would make us pay on the wrong one. One that is down may come up later.
async fn check_chains(solver: &Solver) -> Result<()> {
    for site in solver.sites.values() {
        for answer in site.nodes.chain_ids().await {
            match answer {
                Ok(id) if id != site.id().0 => {
                    bail!(
                        "chain {}: an endpoint serves chain {id}, the configuration says {}",
                        site.chain.name,
                        site.id()
                    )
                }
                Ok(_) => {}
                Err(error) => warn!(chain.id = %site.id(), %error, "an endpoint does not answer"),
            }
        }
    }
    Ok(())
}
