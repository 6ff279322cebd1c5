//! The configuration file, as one tree of parsed types. Unknown keys are refused; secrets come from the environment or
//! from files and are never printed. `docs/causeway.toml` is the documentation, line by line.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use url::Url;

mod allocator;
mod chain;
mod currency;
pub mod dashboard;
mod gas_refill;
mod keys;
mod requests_v2;
mod secret;
mod venue;
mod webhooks;

pub use self::dashboard::DashboardConfig;
pub use self::webhooks::WebhooksConfig;
pub use allocator::{AllocatorConfig, CapConfig};
pub use chain::{
    ChainConfig, ContractsConfig, DexConfig, EndpointConfig, GasConfig, PublicConfig, RiskConfig, TierConfig, wei,
};
pub use currency::{ClassConfig, FeedConfig, NativeConfig, TokenConfig, TokenDomainConfig};
pub use gas_refill::GasRefillConfig;
pub use keys::KeysConfig;
pub use requests_v2::{CutConfig, Day, NotADay, RequestsV2Config};
pub use secret::{Secret, Source, Text};
pub use venue::{VenueConfig, fee};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub environment: Environment,
    pub listen: SocketAddr,
    /// Where `/metrics` and the whole of `/lives` are served. Unset, they are on `listen` only on a local network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_operator: Option<SocketAddr>,
    pub base_url: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testnet_base_url: Option<Url>,
    /// `sqlite:path` or a postgres:// URL.
    pub database: Text,
    #[serde(default)]
    pub trusted_proxies: Vec<String>,
    pub solver: SolverConfig,
    #[serde(default)]
    pub fees: FeesConfig,
    #[serde(default)]
    pub deposit_addresses: DepositAddressesConfig,
    #[serde(default)]
    pub fast_fill: FastFillConfig,
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The end of `GET /requests/v2`.
    #[serde(default)]
    pub requests_v2: RequestsV2Config,
    #[serde(default)]
    pub screening: ScreeningConfig,
    #[serde(default)]
    pub operator: OperatorConfig,
    #[serde(default)]
    pub keys: KeysConfig,
    #[serde(default)]
    pub webhooks: WebhooksConfig,
    #[serde(default)]
    pub dashboard: DashboardConfig,
    #[serde(default)]
    pub instances: InstancesConfig,
    /// Without an allocator, deposits stay in the depositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorConfig>,
    /// The perpetuals venue. Without it the service neither deposits into it nor withdraws from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venue: Option<VenueConfig>,
    pub chains: Vec<ChainConfig>,
    /// The folder of the file: relative paths in it start there.
    #[serde(skip)]
    pub folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    Mainnet,
    Testnet,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolverConfig {
    /// The name of the solver's identity chain, hashed into every order.
    pub chain: String,
    /// Signs order ids and nothing else. Needed by processes that quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_key: Option<Source>,
    /// The order key's address, for processes without the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_address: Option<Address>,
    /// Signs attestations of requests for third parties. Without it nothing is attested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation_key: Option<Source>,
    /// The wallet with the token inventory; its key is not needed here.
    pub treasury: Address,
    /// The treasury's key, for gas refills of the fillers (`causeway topup`). Nothing else is sent with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treasury_key: Option<Source>,
    /// Addresses from which the operator funds the treasury: their transfers credit nobody's app balance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub treasury_sources: Vec<Address>,
    /// The wallets that send fills. Each has a lane on every chain. Needed by the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filler_keys: Vec<Source>,
    /// The fillers' addresses in the same order, for processes without the keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filler_addresses: Vec<Address>,
    /// The wallets that send what users have signed for (gasless deposits). They hold gas and nothing else: no
    /// allowance, no role. None of them may be a filler's. Needed by the worker; without any, nothing is offered
    /// gasless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayer_keys: Vec<Source>,
    /// The relayers' addresses in the same order, for processes without the keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayer_addresses: Vec<Address>,
    /// The most unmined payments of a lane.
    #[serde(default = "default_window")]
    pub lane_window: u64,
}

fn default_window() -> u64 {
    48
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeesConfig {
    pub flat_usd: String,
    pub stable_bps: u16,
    pub major_bps: u16,
    pub minor_bps: u16,
    /// The spread for exchanging one asset for another out of the inventory, by class.
    pub stable_spread_bps: u16,
    pub major_spread_bps: u16,
    pub minor_spread_bps: u16,
    /// The most an inventory away from its targets adds to a transfer's fee, or takes off it.
    pub rebalance_bps: u16,
    pub slippage_bps: u16,
    pub stable_slippage_bps: u16,
    /// A trade with a higher price impact in the pools is refused, unless the caller insists.
    pub most_impact_bps: u16,
    pub order_lifetime_secs: u64,
}

impl Default for FeesConfig {
    fn default() -> Self {
        Self {
            flat_usd: "0.02".to_owned(),
            stable_bps: 1,
            major_bps: 6,
            minor_bps: 15,
            stable_spread_bps: 0,
            major_spread_bps: 5,
            minor_spread_bps: 30,
            rebalance_bps: 0,
            slippage_bps: 200,
            stable_slippage_bps: 50,
            most_impact_bps: 1_000,
            order_lifetime_secs: 604_800,
        }
    }
}

/// Terms of orders that are paid at an address of their own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DepositAddressesConfig {
    /// From quote to deadline.
    pub lifetime_secs: u64,
    /// The time for the rest of an amount to arrive. After it, too little goes back.
    pub grace_secs: u64,
    /// The time for which the native balance of an address is looked at after it was given out, paid at or asked about.
    pub watch_secs: u64,
}

impl Default for DepositAddressesConfig {
    fn default() -> Self {
        Self { lifetime_secs: 15_552_000, grace_secs: 3_600, watch_secs: 2_592_000 }
    }
}

/// Terms of fills ahead of their deposit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FastFillConfig {
    /// Held beyond the deposit's worth, where its currency is not a stablecoin.
    pub margin_bps: u16,
    /// The time for the deposit to land, by its chain's clock.
    pub window_secs: u64,
}

impl Default for FastFillConfig {
    fn default() -> Self {
        Self { margin_bps: 200, window_secs: 1_800 }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    pub rate_limits: bool,
    pub quotes_per_minute: NonZeroU32,
    pub others_per_minute: NonZeroU32,
    pub wrong_keys_per_minute: NonZeroU32,
    /// Open connections in all, and from one address.
    pub connections: NonZeroU32,
    pub connections_per_address: NonZeroU32,
    /// A chain with a market snapshot older than this is not quoted on.
    pub market_max_age_secs: u64,
    pub rpc_timeout_millis: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            rate_limits: true,
            quotes_per_minute: NonZeroU32::MIN.saturating_add(24),
            others_per_minute: NonZeroU32::MIN.saturating_add(99),
            wrong_keys_per_minute: NonZeroU32::MIN.saturating_add(9),
            connections: NonZeroU32::MIN.saturating_add(4_095),
            connections_per_address: NonZeroU32::MIN.saturating_add(255),
            market_max_age_secs: 30,
            rpc_timeout_millis: 10_000,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScreeningConfig {
    /// File of addresses we do not serve, one per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<PathBuf>,
    /// File of exchange addresses, which get no automatic refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custodial: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatorConfig {
    /// The bearer token of the operator routes. Without it they refuse every call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Source>,
}

/// Settings for several processes on one database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstancesConfig {
    /// The lease: after this long without a heartbeat, another process takes over.
    pub lease_millis: u64,
}

impl Default for InstancesConfig {
    fn default() -> Self {
        Self { lease_millis: 6_000 }
    }
}

impl Config {
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        Self::parse(&text, folder).with_context(|| format!("in {}", path.display()))
    }

    pub fn parse(text: &str, folder: PathBuf) -> Result<Self> {
        let mut config: Self = toml::from_str(text)?;
        config.folder = folder;
        config.check()?;
        Ok(config)
    }

    /// True on a network of test chains, where everyone is the operator.
    pub fn is_local(&self) -> bool {
        self.chains.iter().all(|chain| chain.local) && self.venue.as_ref().is_none_or(|venue| venue.local)
    }

    /// Checks that span several keys.
    fn check(&self) -> Result<()> {
        ensure!(!self.chains.is_empty(), "chains: at least one is needed");
        let (keys, addresses) = (self.solver.filler_keys.len(), self.solver.filler_addresses.len());
        ensure!(keys + addresses > 0, "solver.filler_keys: at least one is needed, or its address in filler_addresses");
        let both = keys > 0 && addresses > 0;
        ensure!(!both || keys == addresses, "solver.filler_addresses: must be those of filler_keys, in the same order");
        let (keys, addresses) = (self.solver.relayer_keys.len(), self.solver.relayer_addresses.len());
        let both = keys > 0 && addresses > 0;
        ensure!(
            !both || keys == addresses,
            "solver.relayer_addresses: must be those of relayer_keys, in the same order"
        );
        let lease = self.instances.lease_millis;
        ensure!((1_000..=60_000).contains(&lease), "instances.lease_millis: must be from 1000 to 60000");
        let own = self.listen_operator.is_none_or(|address| address != self.listen || address.port() == 0);
        ensure!(own, "listen_operator: must be another address than listen");
        ensure!(self.solver.lane_window > 0, "solver.lane_window: must be more than zero");
        ensure!(
            self.chains.iter().any(|chain| chain.name == self.solver.chain),
            "solver.chain: {} is not the name of a chain below",
            self.solver.chain
        );
        for (key, bps) in [
            ("stable_bps", self.fees.stable_bps),
            ("major_bps", self.fees.major_bps),
            ("minor_bps", self.fees.minor_bps),
            ("stable_spread_bps", self.fees.stable_spread_bps),
            ("major_spread_bps", self.fees.major_spread_bps),
            ("minor_spread_bps", self.fees.minor_spread_bps),
            ("rebalance_bps", self.fees.rebalance_bps),
            ("most_impact_bps", self.fees.most_impact_bps),
            ("slippage_bps", self.fees.slippage_bps),
            ("stable_slippage_bps", self.fees.stable_slippage_bps),
        ] {
            ensure!(bps <= 10_000, "fees.{key}: must be at most 10000");
        }
        ensure!(self.fast_fill.margin_bps <= 10_000, "fast_fill.margin_bps: must be at most 10000");
        let addresses = &self.deposit_addresses;
        let lifetime = (3_600..=31_536_000).contains(&addresses.lifetime_secs);
        ensure!(lifetime, "deposit_addresses.lifetime_secs: must be from 3600 to 31536000");
        ensure!(addresses.grace_secs <= 604_800, "deposit_addresses.grace_secs: must be at most 604800");
        let watch = (3_600..=31_536_000).contains(&addresses.watch_secs);
        ensure!(watch, "deposit_addresses.watch_secs: must be from 3600 to 31536000");
        let window = self.fast_fill.window_secs;
        ensure!((60..=86_400).contains(&window), "fast_fill.window_secs: must be from 60 to 86400");
        self.webhooks.check()?;
        self.requests_v2.check()?;
        self.dashboard.check(self.is_local())?;
        for chain in &self.chains {
            chain.check().with_context(|| format!("chain {}", chain.name))?;
        }
        if let Some(venue) = &self.venue {
            venue.check().context("venue")?;
        }
        if let Some(allocator) = &self.allocator {
            allocator.check(&self.chains)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../../../docs/causeway.toml");

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, PathBuf::from("."))
    }

    #[test]
    fn the_sample_is_a_configuration() {
        let config = parse(SAMPLE).unwrap();
        assert_eq!(config.chains.len(), 2);
        assert_eq!(config.environment, Environment::Mainnet);
        assert_eq!(config.requests_v2.schedule(), RequestsV2Config::default().schedule(), "it shows the default");
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused_by_name() {
        for (from, to, said) in [
            ("environment = \"mainnet\"", "environment = \"mainnet\"\nenvironmnt = 1", "environmnt"),
            ("confirmations = 1", "confirmations = 0", "confirmations"),
            ("finality_blocks = 900", "finality_blocks = 5", "finality_blocks"),
            ("name = \"base\"", "name = \"Base\"", "name"),
            ("sunset_at = \"2026-11-24\"", "sunset_at = \"24.11.2026\"", "sunset_at"),
            ("flat_usd = \"0.02\"", "flat_usd = \"0.02\"\nflat = 1", "flat"),
        ] {
            assert!(SAMPLE.contains(from), "{from}");
            let error = format!("{:#}", parse(&SAMPLE.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2".to_owned());
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
