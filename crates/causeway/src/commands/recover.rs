//! `causeway recover`: imports our wallets' transactions after a backup was restored, before the service runs on it.

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use solver::operator::recover_venue::Unlisted;
use store::instances::About;
use store::leases::Kind;
use store::{Instance, Lease, Store};

use crate::assemble;
use crate::config::Config;
use crate::env::{about, system_env};
use crate::role::Role;

pub(crate) async fn run(config: &Config, role: Role, unlisted: Unlisted) -> Result<()> {
    let database = assemble::database(config)?;
    let _lock = store::lock(&database)?;
    let store = Store::open(&database)?;
    let parts = assemble::parts(config, role, store.clone(), system_env())?;
    let about = About { answers: false, ..about(role, "recover", system_env()) };
    let instance =
        Instance::join(&database, &store, about, Duration::from_millis(config.instances.lease_millis)).await?;
    let (worker, _allocator) =
        (take(&instance, &store, Kind::Worker).await?, take(&instance, &store, Kind::Allocator).await?);
    // Both leases are held: from here on no other process can write a contradiction.
    let solver = parts.solver.under(&worker);
    for handle in solver.chains.values() {
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template("{msg:12} {wide_bar} block {pos} of {len}")?);
        bar.set_message(handle.chain.name.clone());
        let progress = |at, of| {
            bar.set_length(of);
            bar.set_position(at);
        };
        let report = match &handle.venue {
            Some(venue) => solver::operator::recover_venue::recover(&solver, handle, venue, unlisted, progress).await?,
            None => solver::operator::recover::recover(&solver, handle, progress).await?,
        };
        bar.finish_and_clear();
        println!(
            "{}: read {} blocks, imported {} payments, {} transactions of our wallets name no order",
            handle.chain.name, report.blocks, report.imported, report.unknown
        );
    }
    for kind in Kind::ALL {
        instance.release(&store, kind).await?;
    }
    instance.leave(&store).await?;
    println!("done; `causeway doctor` shows whether every chain is in order");
    Ok(())
}

async fn take(instance: &Instance, store: &Store, kind: Kind) -> Result<Lease> {
    let lease = instance.take(store, kind).await?;
    lease.with_context(|| format!("a process is running as the {}: stop it first", kind.name()))
}
