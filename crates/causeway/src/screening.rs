//! The operator's screening lists: files of addresses, one per line, with comments after `#`. A changed file is
//! reloaded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use alloy::primitives::Address;
use anyhow::{Context, Result};
use domain::account::{Account, Vm};
use metrics::counter;
use solver::{Screening, Solver};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::config::Config;

/// The interval at which the files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

pub fn load(config: &Config) -> Result<Screening> {
    let list = |path: &Option<PathBuf>| match path {
        Some(path) => read(&config.folder.join(path)),
        None => Ok(BTreeSet::new()),
    };
    Ok(Screening {
        blocked: list(&config.screening.blocked).context("screening.blocked")?,
        custodial: list(&config.screening.custodial).context("screening.custodial")?,
    })
}

/// Replaces the lists whenever their files change. An unreadable file leaves the old lists in force.
pub async fn follow(solver: Arc<Solver>, config: Config, stop: CancellationToken) {
    let mut known = stamps(&config);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RELOAD_INTERVAL) => {}
        }
        let now = stamps(&config);
        if now == known {
            continue;
        }
        known = now;
        match load(&config) {
            Ok(screening) => {
                let (blocked, custodial) = (screening.blocked.len(), screening.custodial.len());
                info!(blocked, custodial, "screening lists reloaded");
                solver.screening.store(Arc::new(screening));
            }
            Err(failure) => {
                counter!("causeway_screening_unreadable_total").increment(1);
                error!("changed screening lists cannot be read, the old ones stay in force: {failure:#}");
            }
        }
    }
}

/// Modification time and length of each file, which tell that it was written.
fn stamps(config: &Config) -> Vec<Option<(SystemTime, u64)>> {
    let paths = [&config.screening.blocked, &config.screening.custodial].into_iter().flatten();
    let stamp = |path: &PathBuf| {
        let about = std::fs::metadata(config.folder.join(path)).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    paths.map(stamp).collect()
}

fn read(path: &Path) -> Result<BTreeSet<Address>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> Result<BTreeSet<Address>> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or_default().trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| {
            let account = Account::parse(Vm::Evm, line).with_context(|| format!("line {n}"))?;
            account.evm().with_context(|| format!("line {n}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_comments_and_names_its_bad_line() {
        let good = "# blocked\n\n0x1111111111111111111111111111111111111111 # a thief\n";
        assert_eq!(parse(good).unwrap(), BTreeSet::from([Address::repeat_byte(0x11)]));
        assert!(format!("{:#}", parse("0x12\n").unwrap_err()).contains("line 1"));
    }
}
