//! `GET /lives`: whether the service lives, and what ails it.

mod wrong;

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::alarm::Alarm;
use serde::Serialize;
use store::leases::Kind;
use store::{StoreError, alarms, blocks, doubtful_blocks, leases};
use utoipa::ToSchema;

use self::wrong::Wrong;
use crate::App;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LivesResponse {
    /// `ok`; `down` where the database cannot be read; `degraded`, to the operator, where something is wrong.
    status: &'static str,
    /// For the operator alone, at the operator's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Report {
    version: &'static str,
    database: bool,
    instance: InstanceReport,
    chains: Vec<ChainReport>,
    /// Everything that needs a person. Empty if all is well.
    wrong: Vec<Wrong>,
}

/// The process that answers, among those that serve the same database.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceReport {
    name: String,
    /// `api`, `worker`, `allocator` or `all`.
    role: &'static str,
    /// How many processes answer callers.
    answering: u32,
    leases: Vec<LeaseReport>,
}

/// A lease, which one process holds at a time.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseReport {
    /// `worker` or `allocator`.
    kind: &'static str,
    /// How often it was taken.
    epoch: i64,
    /// The process that took it last.
    #[schema(required = true)]
    holder: Option<String>,
    /// That process has it and is alive.
    held: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainReport {
    id: u64,
    name: String,
    /// The last block of which everything is stored.
    #[schema(required = true)]
    block: Option<u64>,
    /// Why no payments are made on this chain, and what to do about it.
    #[schema(required = true)]
    refusing: Option<String>,
    /// Who has paused it, and why.
    #[schema(required = true)]
    paused: Option<String>,
    /// Why it is not quoted.
    #[schema(required = true)]
    market: Option<String>,
    /// Which nodes contradict each other, and how many blocks wait for nodes to agree on their deposits and payments.
    #[schema(required = true)]
    nodes: Option<String>,
    /// Set where a single node is configured, whose word is money.
    #[schema(required = true)]
    one_node: Option<&'static str>,
}

impl From<leases::State> for LeaseReport {
    fn from(lease: leases::State) -> Self {
        let held = lease.held && lease.expired_millis.is_none();
        Self { kind: lease.kind.name(), epoch: lease.epoch, holder: lease.name, held }
    }
}

const ONE_NODE: &str = "one node is configured: whatever it says is paid for; configure a second one";

/// The contradictions between nodes, and what waits for them.
fn in_doubt(mut said: Vec<String>, doubtful: u64) -> Option<String> {
    if doubtful > 0 {
        said.push(format!(
            "{doubtful} blocks, or events in them, are shown by too few nodes: deposits and payments in them wait until the \
             nodes answer and agree"
        ));
    }
    (!said.is_empty()).then(|| said.join(". "))
}

/// Says whether the service lives.
#[utoipa::path(
    get,
    path = "/lives",
    responses(
        (status = 200, description = "It lives", body = LivesResponse),
        (status = 503, description = "It does not", body = LivesResponse),
    )
)]
pub(crate) async fn lives(app: State<App>) -> (StatusCode, Json<LivesResponse>) {
    if app.public_reports {
        return report(app).await;
    }
    let read = app.store.read(leases::all).await;
    let (code, status) = if read.is_ok() { UP } else { DOWN };
    (code, Json(LivesResponse { status, report: None }))
}

const UP: (StatusCode, &str) = (StatusCode::OK, "ok");
const DOWN: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "down");

/// Says whether the service lives, and what ails it.
pub(crate) async fn report(app: State<App>) -> (StatusCode, Json<LivesResponse>) {
    let mut chains = Vec::new();
    let mut wrong = Vec::new();
    let mut database = true;
    for chain in app.catalog.chains() {
        let id = chain.id;
        let cursor = app.store.read(move |tx| blocks::cursor(tx, id)).await;
        database &= cursor.is_ok();
        let doubtful = app.store.read(move |tx| doubtful_blocks::count(tx, id)).await.unwrap_or_default();
        let handle = app.chains.get(&id);
        // The cursor is from the last run until this one has begun to walk.
        let walks = handle.is_some_and(|handle| *handle.health.taken.borrow() > 0);
        let nodes = in_doubt(handle.map(|handle| handle.nodes_in_doubt()).unwrap_or_default(), doubtful);
        wrong.extend(nodes.iter().map(|said| Wrong::new(Alarm::NodesDisagree, Some(id), said.as_str())));
        chains.push(ChainReport {
            id: id.0,
            name: chain.name.clone(),
            block: cursor.ok().flatten().filter(|_| walks).map(|cursor| cursor.number),
            refusing: handle.and_then(|handle| handle.health.refusing()).map(|why| why.to_string()),
            paused: handle.and_then(|handle| handle.health.paused()).map(|why| why.to_string()),
            nodes,
            one_node: handle.filter(|handle| handle.has_one_node()).map(|_| ONE_NODE),
            market: app.market.current(id).and_then(|it| it.check_pools()).err().map(|error| error.to_string()),
        });
        wrong.extend(wrong::on_chain(&app, chain));
    }
    let now = app.now();
    match app.store.read(move |tx| Ok::<_, StoreError>((leases::all(tx)?, alarms::standing(tx, now)?))).await {
        Ok((leases, counted)) => {
            let worker = |lease: &LeaseReport| lease.kind == Kind::Worker.name() && lease.held;
            let leases: Vec<LeaseReport> = leases.into_iter().map(LeaseReport::from).collect();
            if !leases.iter().any(worker) {
                wrong.push(Wrong::new(Alarm::NoWorker, None, "no process holds the worker's lease: nothing is paid"));
            }
            wrong.extend(wrong::counted(&counted));
            answer(&app, database, leases, chains, wrong)
        }
        Err(_) => answer(&app, false, Vec::new(), chains, wrong),
    }
}

fn answer(
    app: &App,
    database: bool,
    leases: Vec<LeaseReport>,
    chains: Vec<ChainReport>,
    mut wrong: Vec<Wrong>,
) -> (StatusCode, Json<LivesResponse>) {
    if !database {
        wrong.insert(0, Wrong::new(Alarm::Database, None, "the database cannot be read"));
    }
    let (code, status) = match (database, wrong.is_empty()) {
        (false, _) => DOWN,
        (true, false) => (StatusCode::OK, "degraded"),
        (true, true) => UP,
    };
    let about = app.instance.about();
    let instance = InstanceReport {
        name: about.name.clone(),
        role: about.role,
        answering: app.instance.answering().load(Ordering::Relaxed),
        leases,
    };
    let report = Report { version: env!("CARGO_PKG_VERSION"), database, instance, chains, wrong };
    (code, Json(LivesResponse { status, report: Some(report) }))
}
