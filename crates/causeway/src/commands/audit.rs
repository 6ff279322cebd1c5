//! `causeway audit`: compares the database with the chains. It may run beside the service, and writes one row: when it
//! ran and what it found, for the operator's page.

use anyhow::{Result, bail};
use domain::time::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use solver::audit::{self, Check};
use store::Store;
use store::audit_runs::{self, AuditRun};

use crate::assemble;
use crate::config::Config;
use crate::env::system_env;
use crate::role::Role;

pub(crate) async fn run(config: &Config, role: Role, as_json: bool) -> Result<()> {
    let database = assemble::database(config)?;
    let parts = assemble::parts(config, role, Store::open(&database)?, system_env())?;
    let (store, clock) = (parts.solver.store.clone(), system_env().clock);
    let began_at = clock();
    let chains: Vec<_> = parts.solver.chains.values().cloned().collect();
    // The progress bar goes to standard error, so that standard output carries the result alone.
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}  {pos} of {len}")?);
    let nodes = tokio::runtime::Handle::current();
    let shown = bar.clone();
    let work = move || {
        audit::run(&database, &chains, nodes, &move |chain, check, at, of| {
            shown.set_message(format!("{chain} {check}"));
            shown.set_length(of.max(at));
            shown.set_position(at);
        })
    };
    let checks = tokio::task::spawn_blocking(work).await??;
    bar.finish_and_clear();
    let differences: u64 = checks.iter().map(|check| check.different).sum();
    if let Err(error) = record(&store, &checks, (began_at, clock())).await {
        // A copy of a database, say, that cannot be written to: the audit stands without the row.
        eprintln!("the audit is not recorded for the operator's page: {error:#}");
    }
    if as_json {
        println!("{}", serde_json::to_string_pretty(&json!({ "differences": differences, "checks": checks }))?);
    } else {
        checks.iter().for_each(print);
    }
    match differences {
        0 => Ok(()),
        1 => bail!("1 difference"),
        n => bail!("{n} differences"),
    }
}

/// Findings that the operator's page shows of one check.
const MAX_RECORDED: usize = 5;

async fn record(store: &Store, checks: &[Check], (began_at, ended_at): (Timestamp, Timestamp)) -> Result<()> {
    let sum = |of: fn(&Check) -> u64| checks.iter().map(of).fold(0u64, u64::saturating_add);
    let brief = checks.iter().map(|check| {
        let mut check = check.clone();
        check.differences.truncate(MAX_RECORDED);
        check.notes.truncate(MAX_RECORDED);
        check
    });
    let run = AuditRun {
        began_at,
        ended_at,
        compared: sum(|check| check.compared),
        different: sum(|check| check.different),
        checks: serde_json::to_string(&brief.collect::<Vec<_>>())?,
    };
    Ok(store.write(move |tx| audit_runs::record(tx, &run)).await?)
}

fn print(check: &Check) {
    let Check { chain, check: what, compared, different, differences, notes } = check;
    let mark = if *different == 0 { "ok  " } else { "FAIL" };
    let chain = if chain.is_empty() { "all" } else { chain };
    println!("{mark}  {chain}: {what} ({compared} compared)");
    for difference in differences {
        println!("      {difference}");
    }
    for note in notes {
        println!("      note: {note}");
    }
    let unshown = different.saturating_sub(differences.len() as u64);
    if unshown > 0 {
        println!("      and {unshown} more");
    }
}
