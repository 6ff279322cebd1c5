//! `causeway audit`: compares the database with the chains. It is read-only and may run beside the service.

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use solver::audit::{self, Check};
use store::Store;

use crate::assemble;
use crate::config::Config;
use crate::env::system_env;
use crate::role::Role;

pub(crate) async fn run(config: &Config, role: Role, as_json: bool) -> Result<()> {
    let database = assemble::database(config)?;
    let parts = assemble::parts(config, role, Store::open(&database)?, system_env())?;
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
