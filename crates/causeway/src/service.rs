//! The running service: its tasks, its listener, and their orderly shutdown.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use allocator::Allocator;
use alloy::primitives::B256;
use anyhow::{Context, Result, bail, ensure};
use api::{
    Addresses, Allowance, App, ConnectionLimits, CursorKey, InProcess, Keys, Limits, Network, OpenAnswers,
    OperatorToken, Parts, Rendered, Retirement, UsageCounts,
};
use dashboard::Dashboard;
use evm::Nodes;
use futures::FutureExt;
use futures::future::BoxFuture;
use market::Watchlist;
use solver::deposit_addresses::reindex::Reindexer;
use solver::gasless::execute::Executions;
use solver::gasless::permits::Permits;
use solver::integrators::claims::Claims;
use solver::integrators::fast_fill::FastFills;
use solver::leader::Leader;
use solver::operator::{Commands, pauses};
use solver::{Env, Solver, standby};
use store::leases::Kind;
use store::{DatabaseUrl, FileLock, Instance, Lease, Store, StoreError, secrets};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::assemble;
use crate::config::Config;
use crate::env::about;
use crate::role::Role;
use crate::signals::Signals;

/// The longest the tasks may take to end. Payments committed but not yet sent are sent after the next start.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Service {
    pub address: SocketAddr,
    /// Where metrics and the whole of `/lives` are, if that is apart.
    pub operator_address: Option<SocketAddr>,
    pub solver: Arc<Solver>,
    stop: CancellationToken,
    tasks: TaskTracker,
    store: Store,
    instance: Instance,
    /// The lock file beside a SQLite database: no other process serves it.
    _lock: Option<FileLock>,
}

impl Service {
    /// Starts a process with all roles.
    pub fn start(config: &Config, env: Env) -> BoxFuture<'_, Result<Self>> {
        Self::start_as(config, Role::All, env)
    }

    /// Opens the database, checks the nodes, starts the tasks and listens. Boxed: otherwise whoever awaits it would
    /// build the whole service again.
    pub fn start_as(config: &Config, role: Role, env: Env) -> BoxFuture<'_, Result<Self>> {
        Self::started(config, role, env).boxed()
    }

    async fn started(config: &Config, role: Role, env: Env) -> Result<Self> {
        let database = assemble::database(config)?;
        ensure!(
            role == Role::All || matches!(database.url, DatabaseUrl::Postgres(_)),
            "--role {role} needs Postgres: a SQLite file is served by one process, which does everything (--role all)"
        );
        let lock = store::lock(&database)?;
        if role.answers() {
            // A wrong master key fails at start-up, not when it is first used.
            config.master_key()?;
        }
        let store = Store::open(&database)?;
        let metrics = telemetry::metrics();
        let parts = assemble::parts(config, role, store.clone(), env)?;
        let solver = parts.solver;
        check_chains(&solver).await?;
        let listeners = Listeners::bind(config).await?;
        let (address, operator_address) = listeners.addresses()?;
        let operator = if role.answers() { operator(config)? } else { None };

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(stop.clone().run_until_cancelled_owned(telemetry::keep_metrics()));
        refresh_markets(config, &solver, parts.watchlists, &stop, &tasks);
        tasks.spawn(crate::screening::follow(solver.clone(), config.clone(), stop.clone()));
        let lease = Duration::from_millis(config.instances.lease_millis);
        let instance = Instance::join(&database, &store, about(role, role.name(), env), lease).await?;
        follow_pauses(&solver, &stop, &tasks).await?;
        if role.pays() {
            tasks.spawn(solver::tasks::work(solver.clone(), instance.clone(), stop.clone()));
        } else {
            let (solver, stop) = (solver.clone(), stop.clone());
            tasks.spawn(async move { stop.run_until_cancelled(standby::keep(&solver)).await });
        }
        if let Some(allocator) = parts.allocator {
            tasks.spawn(allocate(allocator, instance.clone(), stop.clone()));
        }
        if role.answers() {
            tasks.spawn(post_webhooks(config, &store, env, &instance, stop.clone())?);
        }
        let cursor_key = cursor_key(&store, env).await?;
        let app = App::from(Parts {
            instance: instance.clone(),
            rendered: Rendered::new(&parts.quoter.catalog)?,
            catalog: parts.quoter.catalog.clone(),
            store: solver.store.clone(),
            market: solver.market.clone(),
            chains: solver.chains.clone(),
            quoter: parts.quoter,
            fast_fills: FastFills(solver.clone()),
            reindexer: Reindexer(solver.clone()),
            claims: Claims(solver.clone()),
            permits: Permits(solver.clone()),
            executions: Executions(solver.clone()),
            commands: Commands(solver.clone()),
            env,
            solver_address: solver.terms.solver,
            attestation_key: parts.attestation_key,
            allocator: parts.allocator_address,
            addresses: addresses(config),
            operator,
            keys: Arc::new(Keys::new(solver.store.clone(), env.clock)),
            webhooks: assemble::webhooks::endpoints(config, store.clone(), env)?,
            cursor_key,
            open_answers: Arc::new(OpenAnswers::new(stop.clone())),
            retirement: retirement(config)?,
            usage: Arc::new(UsageCounts::default()),
            limits: limits(config, &instance)?.map(Arc::new),
            public_reports: operator_address.is_none() && config.is_local(),
            metrics,
        });
        let dashboard = if role.answers() { pages(config, &app, &stop, &tasks).await? } else { None };
        for (listener, router) in listeners.serving(&app, role, dashboard) {
            tasks.spawn(api::serve(listener, router, connections(config)?, stop.clone()));
        }
        tasks.close();
        info!(%address, %role, instance = instance.about().name, "listening on {address}");
        Ok(Self { address, operator_address, solver, stop, tasks, store, instance, _lock: lock })
    }

    /// Runs until a signal asks to stop, or the service stops itself.
    pub async fn run(self, mut signals: Signals) -> Result<()> {
        tokio::select! {
            () = signals.heard() => info!("stopping"),
            () = self.stop.cancelled() => {}
        }
        self.stop().await
    }

    /// Stops the listener and the tasks in order.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            warn!("some tasks did not end in time; their commits are safe");
        }
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, self.instance.leave(&self.store)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(error = &error as &dyn std::error::Error, "this instance could not deregister; its row expires")
            }
            Err(_) => warn!("this instance could not deregister; its row expires"),
        }
        // The store is closed before this returns, so that a copy taken next, or the next process to open it, sees a
        // whole database.
        drop(self.solver);
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.store.close()).await.is_err() {
            warn!("the database did not close in time");
        }
        Ok(())
    }
}

/// Pauses are known before anything is paid: they outlive the process that was told of them.
async fn follow_pauses(solver: &Arc<Solver>, stop: &CancellationToken, tasks: &TaskTracker) -> Result<()> {
    pauses::look(solver).await?;
    let (solver, stop) = (solver.clone(), stop.clone());
    tasks.spawn(async move { stop.run_until_cancelled(pauses::keep(&solver)).await });
    Ok(())
}

/// Keeps a snapshot of every chain, and of the venue.
fn refresh_markets(
    config: &Config,
    solver: &Arc<Solver>,
    watchlists: Vec<(Nodes, Watchlist)>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) {
    for (nodes, watchlist) in watchlists {
        let refresh = market::refresh(solver.market.clone(), nodes, watchlist);
        tasks.spawn(stop.clone().run_until_cancelled_owned(refresh));
    }
    let max_age = Duration::from_secs(config.limits.market_max_age_secs);
    for handle in solver.chains.values().filter(|handle| handle.venue.is_some()) {
        let refresh = solver::chain::venue_market::refresh(solver.clone(), handle.clone(), max_age);
        tasks.spawn(stop.clone().run_until_cancelled_owned(refresh));
    }
}

/// Posts events to integrators until the token ends. The processes that answer callers do it: those that hold a
/// wallet's key should not speak to hosts of other people's choosing.
fn post_webhooks(
    config: &Config,
    store: &Store,
    env: Env,
    instance: &Instance,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>> {
    let deliverer = assemble::webhooks::deliverer(config, store.clone(), env, &instance.about().id)?;
    Ok(async move {
        if let Some(deliverer) = deliverer {
            webhooks::run(deliverer, stop).await;
        }
    })
}

/// Is the allocator whenever that is possible.
async fn allocate(allocator: Allocator, instance: Instance, stop: CancellationToken) {
    loop {
        let lease = tokio::select! {
            () = stop.cancelled() => return,
            lease = instance.acquire(&allocator.store, Kind::Allocator) => lease,
        };
        let leader = Leader { store: &allocator.store, instance: &instance, crash: allocator.env.crash, stop: &stop };
        let start = |lease: &Lease, stop: &CancellationToken, tasks: &TaskTracker| {
            allocator.under(lease).start(stop, tasks);
        };
        leader.hold(lease, start, || ()).await;
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

/// The sockets a process listens on: for callers and, where it is apart, for the operator.
struct Listeners {
    public: TcpListener,
    operator: Option<TcpListener>,
}

impl Listeners {
    async fn bind(config: &Config) -> Result<Self> {
        let operator = match config.listen_operator {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        Ok(Self { public: listen(config.listen).await?, operator })
    }

    fn addresses(&self) -> Result<(SocketAddr, Option<SocketAddr>)> {
        Ok((self.public.local_addr()?, self.operator.as_ref().map(TcpListener::local_addr).transpose()?))
    }

    /// Each with what it serves. A process that does not quote has nothing for callers: only its own health.
    fn serving(
        self,
        app: &App,
        role: Role,
        dashboard: Option<axum::Router>,
    ) -> impl Iterator<Item = (TcpListener, axum::Router)> {
        let plain = || if role.answers() { api::router(app.clone()) } else { api::operating_router(app.clone()) };
        let router = dashboard.unwrap_or_else(plain);
        let operator = self.operator.map(|listener| (listener, api::operating_router(app.clone())));
        [(self.public, router)].into_iter().chain(operator)
    }
}

/// Starts the tasks beside the routes, and returns the router with the dashboard in front where that is served. Its
/// pages call the same routes.
async fn pages(
    config: &Config,
    app: &App,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<Option<axum::Router>> {
    let (usage, store, clock) = (app.usage.clone(), app.store.clone(), app.env.clock);
    let keep = (store.clone(), stop.clone());
    tasks.spawn(async move { usage.keep(keep.0, clock, keep.1).await });
    let Some(settings) = crate::config::dashboard::settings(config)? else { return Ok(None) };
    tasks.spawn(dashboard::prune_sessions(store, clock, stop.clone()));
    let public = api::router(app.clone());
    let calls = InProcess::new(public.clone(), api::operating_router(app.clone()));
    let dashboard = Dashboard::new(app.clone(), calls, settings).await?;
    Ok(Some(dashboard::router(dashboard, public)))
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}: choose another address or port"))
}

fn trusted_proxies(config: &Config) -> Result<Vec<Network>> {
    let proxies =
        config.trusted_proxies.iter().map(|text| text.parse().with_context(|| format!("trusted_proxies: {text}")));
    proxies.collect()
}

fn connections(config: &Config) -> Result<ConnectionLimits> {
    /// The longest a client may take for a header.
    const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
    /// Longer than the usual 60 seconds of proxies, who are to be the ones that close.
    const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
    const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
    let count = |count: NonZeroU32| usize::try_from(count.get()).unwrap_or(usize::MAX);
    Ok(ConnectionLimits {
        most: count(config.limits.connections),
        most_per_address: count(config.limits.connections_per_address),
        trusted_proxies: trusted_proxies(config)?,
        header_timeout: HEADER_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        write_timeout: WRITE_TIMEOUT,
    })
}

fn limits(config: &Config, instance: &Instance) -> Result<Option<Limits>> {
    if !config.limits.rate_limits {
        return Ok(None);
    }
    let allowance = Allowance {
        quotes_per_minute: config.limits.quotes_per_minute,
        others_per_minute: config.limits.others_per_minute,
        wrong_keys_per_minute: config.limits.wrong_keys_per_minute,
        trusted_proxies: trusted_proxies(config)?,
    };
    Ok(Some(Limits::new(allowance, instance.answering())))
}

/// The end of the older listing, announced with this deployment's addresses.
fn retirement(config: &Config) -> Result<Retirement> {
    let settings = &config.requests_v2;
    let guide = settings.migration_guide.as_ref().map(url::Url::as_str);
    let retirement = Retirement::new(settings.schedule(), &addresses(config).base_url, guide);
    retirement.context("requests_v2.migration_guide")
}

/// One cursor is good in every process.
async fn cursor_key(store: &Store, env: Env) -> Result<CursorKey, StoreError> {
    let mut fresh = B256::ZERO;
    (env.random)(fresh.as_mut_slice());
    let secret = store.write(move |tx| secrets::shared(tx, "cursor", fresh)).await?;
    Ok(CursorKey::new(secret.as_slice()))
}

/// A node of another chain would make us pay on the wrong chain. A node that is down may come up later.
async fn check_chains(solver: &Solver) -> Result<()> {
    let asked = solver.chains.values().map(|handle| async move { (handle, handle.nodes.chain_ids().await) });
    for (handle, answers) in futures::future::join_all(asked).await {
        for answer in answers {
            match answer {
                Ok(id) if id != handle.id().0 => {
                    bail!(
                        "chain {}: an endpoint serves chain {id}, the configuration says {}",
                        handle.chain.name,
                        handle.id()
                    )
                }
                Ok(_) => {}
                Err(error) => warn!(chain.id = %handle.id(), %error, "an RPC endpoint does not answer"),
            }
        }
    }
    Ok(())
}
