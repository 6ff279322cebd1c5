//! Configuration of the dashboard.

use std::time::Duration;

use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use dashboard::Settings;
use serde::{Deserialize, Serialize};
use solver::LocalSigner;

use super::{Config, Source};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DashboardConfig {
    /// Serves the pages under `/dashboard`.
    pub enabled: bool,
    /// Accounts that see the operator's page and may act on it.
    pub operators: Vec<Address>,
    /// Hours for which a session is good.
    pub session_hours: u64,
    /// The key of a wallet that everybody may use. Only on networks of test chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_wallet_key: Option<Source>,
}

impl Default for DashboardConfig {
    fn default() -> Self {
        Self { enabled: true, operators: Vec::new(), session_hours: 12, test_wallet_key: None }
    }
}

impl DashboardConfig {
    pub(super) fn check(&self, is_local: bool) -> Result<()> {
        ensure!((1..=168).contains(&self.session_hours), "dashboard.session_hours: must be from 1 to 168");
        let open = self.test_wallet_key.is_some();
        ensure!(!open || is_local, "dashboard.test_wallet_key: everybody could use it, so only on local chains");
        Ok(())
    }
}

/// The settings of the dashboard. None where it is switched off.
pub fn settings(config: &Config) -> Result<Option<Settings>> {
    let dashboard = &config.dashboard;
    if !dashboard.enabled {
        return Ok(None);
    }
    let read = |source: &Source| -> Result<LocalSigner> {
        let key = source.read(&config.folder)?;
        Ok(LocalSigner::from_hex(key.expose().trim())?)
    };
    let test_wallet = dashboard.test_wallet_key.as_ref().map(read).transpose();
    Ok(Some(Settings {
        operators: dashboard.operators.iter().copied().collect(),
        session: Duration::from_secs(dashboard.session_hours * 3_600),
        test_wallet: test_wallet.context("dashboard.test_wallet_key")?,
    }))
}
