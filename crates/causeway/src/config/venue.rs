//! The perpetuals venue: its API, the account that pays on it, and limits.

use anyhow::{Context, Result, ensure};
use domain::money::UsdMicros;
use domain::venue::AccountIndex;
use serde::{Deserialize, Serialize};
use solver::handle::venue::UNLISTED_TIMEOUT;
use solver::handle::venue_rescan::{RESCAN_INTERVAL, RESCAN_REACH};
use url::Url;
use venue::{KeyIndex, Quota};

use super::{RiskConfig, Source};

/// The least time after which the venue's word is final, where it is not a simulator: its cap is one per hour.
const LEAST_FINALITY_SECS: u64 = 3_600;
/// The least time that a look reads behind the last one, where it is not a simulator.
const LEAST_OVERLAP_SECS: u64 = 60;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VenueConfig {
    /// The protocol's name for the venue, hashed into every order: it never changes.
    pub name: String,
    pub display_name: String,
    /// A simulator: its word may be final sooner than that of any real venue.
    #[serde(default)]
    pub local: bool,
    pub url: Url,
    /// The id that the venue's transactions sign: 304, or 300 on its test network.
    pub network_id: u32,
    /// The account that takes deposits and pays.
    pub account: u64,
    /// It never changes: the payments' nonces are those of this key.
    pub api_key_index: u8,
    /// The account's API key, which signs its transactions. Needed by the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Source>,
    /// The key of the account's wallet, which signs their memos. Needed by the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wallet_key: Option<Source>,
    /// Accounts from which the operator funds ours: their transfers are no deposits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<u64>,
    /// Time between two looks at the venue.
    #[serde(default = "default_poll_millis")]
    pub poll_millis: u64,
    /// Seconds that a look reads behind the last one, for transfers that are listed late.
    #[serde(default = "default_overlap_secs")]
    pub overlap_secs: u64,
    /// Seconds between two slow walks along the history, for transfers that are listed later than that, and how far
    /// back such a walk goes.
    #[serde(default = "default_rescan_secs")]
    pub rescan_secs: u64,
    #[serde(default = "default_rescan_reach_secs")]
    pub rescan_reach_secs: u64,
    /// Seconds for which `recover` waits for a transfer that used a nonce and is not listed.
    #[serde(default = "default_unlisted_secs")]
    pub unlisted_secs: u64,
    /// This process's part of the venue's limits, of which a fifth is left to payments. The venue counts all processes
    /// together: several divide its limits among them.
    #[serde(default = "default_calls")]
    pub calls_per_minute: usize,
    #[serde(default = "default_weight")]
    pub weight_per_minute: u32,
    /// The venue's fee for a user's transfer, in USDC: quotes of withdrawals state it.
    #[serde(default = "default_user_fee")]
    pub user_fee: String,
    /// The most that the venue may charge for a transfer of ours, in USDC, which quotes of deposits charge for. Above
    /// it nothing is paid there.
    #[serde(default = "default_max_fee")]
    pub max_fee: String,
    /// Seconds after which an executed transfer is final. Until then it counts against `risk.open_usd`, which so bounds
    /// what the venue's word may cost in that time.
    #[serde(default = "default_finality_secs")]
    pub finality_secs: u64,
    /// Payments under way at once. One that is missing holds up all behind it.
    #[serde(default = "default_window")]
    pub lane_window: u64,
    /// The amount of USDC that the solver likes to hold there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    #[serde(default)]
    pub explorer_url: String,
    #[serde(default)]
    pub explorer_name: String,
    #[serde(default)]
    pub logo_uri: String,
    #[serde(default)]
    pub risk: RiskConfig,
}

fn default_poll_millis() -> u64 {
    5_000
}

fn default_overlap_secs() -> u64 {
    600
}

fn default_rescan_secs() -> u64 {
    RESCAN_INTERVAL.as_secs()
}

fn default_rescan_reach_secs() -> u64 {
    RESCAN_REACH.as_secs()
}

fn default_unlisted_secs() -> u64 {
    UNLISTED_TIMEOUT.as_secs()
}

fn default_calls() -> usize {
    Quota::STANDARD.calls
}

fn default_weight() -> u32 {
    Quota::STANDARD.weight
}

fn default_user_fee() -> String {
    "3".to_owned()
}

fn default_max_fee() -> String {
    "0".to_owned()
}

fn default_finality_secs() -> u64 {
    3_600
}

fn default_window() -> u64 {
    8
}

impl VenueConfig {
    pub(super) fn check(&self) -> Result<()> {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        ensure!(!self.name.is_empty() && self.name.bytes().all(lower), "name: lower-case letters, digits and _ only");
        self.account()?;
        self.key_index()?;
        self.sources()?;
        ensure!((50..=60_000).contains(&self.poll_millis), "poll_millis: must be from 50 to 60000");
        ensure!(
            self.local || self.overlap_secs >= LEAST_OVERLAP_SECS,
            "overlap_secs: must be at least {LEAST_OVERLAP_SECS}, unless the venue is local"
        );
        ensure!(
            self.local || self.unlisted_secs >= UNLISTED_TIMEOUT.as_secs(),
            "unlisted_secs: must be at least {}, unless the venue is local",
            UNLISTED_TIMEOUT.as_secs()
        );
        ensure!((1..=3_600).contains(&self.rescan_secs), "rescan_secs: must be from 1 to 3600");
        ensure!(self.rescan_reach_secs >= self.rescan_secs, "rescan_reach_secs: must be at least rescan_secs");
        ensure!(self.calls_per_minute >= 10, "calls_per_minute: must be at least 10");
        ensure!(self.lane_window > 0, "lane_window: must be more than zero");
        ensure!(self.finality_secs > 0, "finality_secs: must be more than zero");
        ensure!(
            self.local || self.finality_secs >= LEAST_FINALITY_SECS,
            "finality_secs: must be at least {LEAST_FINALITY_SECS}, unless the venue is local"
        );
        fee("user_fee", &self.user_fee)?;
        fee("max_fee", &self.max_fee)?;
        Ok(())
    }

    pub fn account(&self) -> Result<AccountIndex> {
        AccountIndex::new(self.account).context("account")
    }

    pub fn key_index(&self) -> Result<KeyIndex> {
        KeyIndex::new(self.api_key_index.into()).context("api_key_index")
    }

    pub fn sources(&self) -> Result<Vec<AccountIndex>> {
        self.sources.iter().map(|index| AccountIndex::new(*index).context("sources")).collect()
    }

    pub fn quota(&self) -> Quota {
        Quota { calls: self.calls_per_minute, weight: self.weight_per_minute }
    }
}

/// A fee in units of USDC, from USDC in decimal text.
pub fn fee(key: &str, text: &str) -> Result<u64> {
    let micros: UsdMicros = text.parse().with_context(|| format!("{key}: USDC in decimal text"))?;
    u64::try_from(micros.0).with_context(|| format!("{key}: must not be negative"))
}
