//! The leader of a lease: its tasks run for as long as this process holds it.
//!
//! That nothing is written after a lease is lost is not seen to here but by the store that the tasks are given.

use std::time::Duration;

use metrics::{counter, gauge};
use store::leases::Kind;
use store::{Instance, Lease, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

/// How long tasks may take to end: a call to a node is the longest they wait for. What they would still write by then
/// is refused.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub struct Leader<'a> {
    pub store: &'a Store,
    pub instance: &'a Instance,
    pub crash: fn(&'static str),
    pub stop: &'a CancellationToken,
}

impl Leader<'_> {
    /// Starts the tasks, and ends them when the lease is lost or the process stops. `stand_by` is called before they
    /// end.
    pub async fn hold(
        &self,
        lease: Lease,
        start: impl FnOnce(&Lease, &CancellationToken, &TaskTracker),
        stand_by: impl FnOnce(),
    ) {
        let (kind, epoch) = (lease.kind(), lease.epoch());
        let crash = self.crash;
        crash("lease.taken");
        info!(epoch, "this process is the {} now", kind.name());
        held(kind, Some(epoch));
        let (active, tasks) = (self.stop.child_token(), TaskTracker::new());
        start(&lease, &active, &tasks);
        tasks.close();
        let lost = tokio::select! {
            () = self.stop.cancelled() => false,
            () = lease.lost() => true,
        };
        held(kind, None);
        stand_by();
        if lost {
            warn!(epoch, "this process is no longer the {}: another may be; it stands by", kind.name());
            counter!("causeway_leases_lost_total", "kind" => kind.name()).increment(1);
        }
        active.cancel();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await.is_err() {
            warn!("some tasks of the {} did not end in time; what they committed is not lost", kind.name());
        }
        if !lost && let Err(failure) = self.instance.release(self.store, kind).await {
            let failure: &dyn std::error::Error = &failure;
            warn!(error = failure, "the lease of the {} was not let go of; it expires by itself", kind.name());
        }
    }
}

fn held(kind: Kind, epoch: Option<i64>) {
    gauge!("causeway_lease_held", "kind" => kind.name()).set(if epoch.is_some() { 1 } else { 0 });
    if let Some(epoch) = epoch.and_then(|epoch| u32::try_from(epoch).ok()) {
        gauge!("causeway_lease_epoch", "kind" => kind.name()).set(epoch);
    }
}
