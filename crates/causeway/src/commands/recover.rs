//! `causeway recover`: after restoring a backup, before serving from it.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use store::Store;

use crate::assemble;
use crate::config::Config;
use crate::outside::outside;

pub async fn run(config: &Config) -> Result<()> {
    let database = assemble::database(config)?;
    let _lock = store::lock(&database)?;
    let parts = assemble::parts(config, Store::open(&database)?, outside())?;
    for site in parts.solver.sites.values() {
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template("{msg:12} {wide_bar} block {pos} of {len}")?);
        bar.set_message(site.chain.name.clone());
        let progress = |at, of| {
            bar.set_length(of);
            bar.set_position(at);
        };
        let report = solver::recover::recover(&parts.solver, site, progress).await?;
        bar.finish_and_clear();
        println!(
            "{}: read {} blocks, imported {} payments, {} transactions of our wallets name no order",
            site.chain.name, report.blocks, report.imported, report.unknown
        );
    }
    println!("done; `causeway doctor` shows whether every chain is in order");
    Ok(())
}
