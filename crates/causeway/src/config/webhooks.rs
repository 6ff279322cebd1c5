//! Configuration of webhooks.

use std::time::Duration;

use anyhow::{Result, ensure};
use domain::webhook::Retries;
use serde::{Deserialize, Serialize};
use webhooks::Settings;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhooksConfig {
    /// Allows plain HTTP and loopback addresses, for receivers on this machine.
    pub allow_local: bool,
    /// The most deliveries that a process begins in a second: they share its cores with payments.
    pub max_per_second: u32,
    /// The delay before the first retry; each next one is twice as long.
    pub first_retry_millis: u64,
    /// The time for which an event that is being retried holds up later ones of its request.
    pub order_hold_secs: u64,
    /// The age at which an event that could not be delivered is given up.
    pub max_age_hours: u64,
    /// The age at which the log of a delivery is deleted.
    pub log_days: u64,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            allow_local: false,
            max_per_second: Settings::default().max_per_second,
            first_retry_millis: 5_000,
            order_hold_secs: 60,
            max_age_hours: 24,
            log_days: 30,
        }
    }
}

impl WebhooksConfig {
    pub fn settings(&self) -> Settings {
        let plain = Settings::default();
        Settings {
            allow_local: self.allow_local,
            max_per_second: self.max_per_second,
            retries: Retries { first_delay: Duration::from_millis(self.first_retry_millis), ..plain.retries },
            order_hold: Duration::from_secs(self.order_hold_secs),
            max_age: Duration::from_secs(self.max_age_hours * 3_600),
            kept_for: Duration::from_secs(self.log_days * 86_400),
            ..plain
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure!((1..=100_000).contains(&self.max_per_second), "webhooks.max_per_second: must be from 1 to 100000");
        let first = self.first_retry_millis;
        ensure!((10..=60_000).contains(&first), "webhooks.first_retry_millis: must be from 10 to 60000");
        ensure!(self.order_hold_secs <= 3_600, "webhooks.order_hold_secs: must be at most 3600");
        ensure!((1..=720).contains(&self.max_age_hours), "webhooks.max_age_hours: must be from 1 to 720");
        ensure!((1..=3_650).contains(&self.log_days), "webhooks.log_days: must be from 1 to 3650");
        Ok(())
    }
}
