//! The worker's tasks. The worker walks the chains and pays; every other process stands by, and takes over when the
//! lease is released or its holder dies.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use store::leases::Kind;
use store::{Instance, Lease};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handle::ChainHandle;
use crate::leader::Leader;
use crate::solver::Solver;
use crate::{chain, deposit_addresses, integrators, listing, operator, orders, payments, quoting, standby};

/// Runs the worker whenever its lease can be acquired. Until then, follows the state that the worker reports.
pub fn work(solver: Arc<Solver>, instance: Instance, stop: CancellationToken) -> BoxFuture<'static, ()> {
    async move {
        loop {
            let lease = tokio::select! {
                () = stop.cancelled() => return,
                lease = instance.acquire(&solver.store, Kind::Worker) => lease,
                () = standby::keep(&solver) => return,
            };
            let leader = Leader { store: &solver.store, instance: &instance, crash: solver.env.crash, stop: &stop };
            let begin =
                |lease: &Lease, stop: &CancellationToken, tasks: &TaskTracker| start(&solver.under(lease), stop, tasks);
            leader.hold(lease, begin, || solver.stand_by()).await;
        }
    }
    .boxed()
}

/// Starts the tasks of every chain, as after a crash: nothing in memory is carried over. They end with the token;
/// payments that are committed by then are sent after the next start.
fn start(solver: &Arc<Solver>, stop: &CancellationToken, tasks: &TaskTracker) {
    solver.leased.store(Some(Arc::new(solver.store.clone())));
    for handle in solver.chains.values() {
        handle.begin(solver.now());
        if handle.venue.is_some() {
            start_venue(solver, handle, stop, tasks);
            continue;
        }
        for (lane, inbox) in handle.lanes.open_inboxes().into_iter().enumerate() {
            tasks.spawn(payments::send::run(solver.clone(), handle.clone(), lane, inbox, stop.clone()));
        }
        tasks.spawn(payments::trial::run(handle.clone(), stop.clone()));
        tasks.spawn(chain::follow::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::tx_fees::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(operator::gas_refill::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::missed_payments::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::doubts::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::rescan::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(integrators::earnings::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::reverts::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(orders::payouts::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(deposit_addresses::watch::run(solver.clone(), handle.clone(), stop.clone()));
        tasks.spawn(chain::tx_hints::run(solver.clone(), handle.clone(), stop.clone()));
    }
    tasks.spawn(quoting::prune::run(solver.clone(), stop.clone()));
    tasks.spawn(listing::run(solver.clone(), stop.clone()));
}

/// Starts the tasks of the venue, which has one lane, no blocks and no contracts.
fn start_venue(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, stop: &CancellationToken, tasks: &TaskTracker) {
    for inbox in handle.lanes.open_inboxes() {
        tasks.spawn(payments::send_venue::run(solver.clone(), handle.clone(), inbox, stop.clone()));
    }
    tasks.spawn(chain::venue_walk::run(solver.clone(), handle.clone(), stop.clone()));
}
