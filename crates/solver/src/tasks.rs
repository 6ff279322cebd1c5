//! What a process does depends on the leases it holds. Whoever has the worker's walks the chains and pays; whoever has
//! the allocator's signs payouts; everybody else stands by, and takes over when the holder is heard of no more.
//!
//! That nothing is written after a lease is lost is not seen to here but by the store that the tasks are given.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge};
use store::leases::Kind;
use store::{Instance, Lease};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::allocator::Allocator;
use crate::solver::Solver;
use crate::{chain, integrators, operator, orders, payments, quoting, standby};

/// How long tasks may take to end: a call to a node is the longest they wait for. What they would still write by then is
/// refused.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Is the worker whenever that is possible. Meanwhile, goes by what the worker says.
pub async fn work(solver: Arc<Solver>, instance: Instance, stop: CancellationToken) {
    loop {
        let lease = tokio::select! {
            () = stop.cancelled() => return,
            lease = instance.acquire(&solver.store, Kind::Worker) => lease,
            () = standby::keep(&solver) => return,
        };
        hold(&solver, &instance, lease, &stop, start).await;
    }
}

/// Is the allocator whenever that is possible.
pub async fn allocate(solver: Arc<Solver>, allocator: Arc<Allocator>, instance: Instance, stop: CancellationToken) {
    loop {
        let lease = tokio::select! {
            () = stop.cancelled() => return,
            lease = instance.acquire(&solver.store, Kind::Allocator) => lease,
        };
        hold(&solver, &instance, lease, &stop, |solver, stop, tasks| allocator.start(solver, stop, tasks)).await;
    }
}

/// Runs the tasks for as long as the lease is held.
async fn hold(
    solver: &Arc<Solver>,
    instance: &Instance,
    lease: Lease,
    stop: &CancellationToken,
    start: impl FnOnce(&Arc<Solver>, &CancellationToken, &TaskTracker),
) {
    let (kind, epoch) = (lease.kind(), lease.epoch());
    solver.crash("lease.taken");
    info!(epoch, "this process is the {} now", kind.name());
    held(kind, Some(epoch));
    let (active, tasks) = (stop.child_token(), TaskTracker::new());
    start(&solver.under(&lease), &active, &tasks);
    tasks.close();
    let lost = tokio::select! {
        () = stop.cancelled() => false,
        () = lease.lost() => true,
    };
    held(kind, None);
    if kind == Kind::Worker {
        solver.stand_by();
    }
    if lost {
        warn!(epoch, "this process is no longer the {}: another may be; it stands by", kind.name());
        counter!("causeway_leases_lost_total", "kind" => kind.name()).increment(1);
    }
    active.cancel();
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await.is_err() {
        warn!("some tasks of the {} did not end in time; what they committed is not lost", kind.name());
    }
    if !lost && let Err(failure) = instance.release(&solver.store, kind).await {
        let failure: &dyn std::error::Error = &failure;
        warn!(error = failure, "the lease of the {} was not let go of; it expires by itself", kind.name());
    }
}

fn held(kind: Kind, epoch: Option<i64>) {
    gauge!("causeway_lease_held", "kind" => kind.name()).set(if epoch.is_some() { 1 } else { 0 });
    if let Some(epoch) = epoch.and_then(|epoch| u32::try_from(epoch).ok()) {
        gauge!("causeway_lease_epoch", "kind" => kind.name()).set(epoch);
    }
}

/// Starts the tasks of every chain, as after a crash: nothing in memory is carried over. They end with the token;
/// what is committed by then is sent after the next start.
fn start(solver: &Arc<Solver>, stop: &CancellationToken, tasks: &TaskTracker) {
    solver.leased.store(Some(Arc::new(solver.store.clone())));
    for handle in solver.chains.values() {
        handle.begin();
        for (lane, inbox) in handle.lanes.open_inboxes().into_iter().enumerate() {
            tasks.spawn(payments::send::run(solver.clone(), handle.clone(), lane, inbox, stop.clone()));
        }
        tasks.spawn(chain::follow::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::tx_fees::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(operator::gas_refill::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::rescan::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(integrators::earnings::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::reverts::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(orders::payouts::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::tx_hints::run(solver.clone(), handle.clone(), stop.clone()));
    }
    tasks.spawn(quoting::prune::run(solver.clone(), stop.clone()));
}
