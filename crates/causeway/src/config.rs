//! The configuration file, as one tree of parsed types. Unknown keys are refused; secrets come from the environment or
//! from files and are never printed. `docs/causeway.toml` is the documentation, line by line.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use alloy::primitives::Address;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use url::Url;

mod allocator;
mod gas_refill;
mod keys;
mod secret;

pub use allocator::{AllocatorConfig, CapConfig};
pub use gas_refill::GasRefillConfig;
pub use keys::KeysConfig;
pub use secret::{Secret, Source, Text};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub environment: Environment,
    pub listen: SocketAddr,
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
    pub limits: LimitsConfig,
    #[serde(default)]
    pub screening: ScreeningConfig,
    #[serde(default)]
    pub operator: OperatorConfig,
    #[serde(default)]
    pub keys: KeysConfig,
    #[serde(default)]
    pub instances: InstancesConfig,
    /// Without an allocator, deposits stay in the depositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorConfig>,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    pub rate_limits: bool,
    pub quotes_per_minute: NonZeroU32,
    pub others_per_minute: NonZeroU32,
    pub wrong_keys_per_minute: NonZeroU32,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainConfig {
    pub id: u64,
    pub name: String,
    pub display_name: String,
    /// A local test chain: its finality may be shorter than that of any real one.
    #[serde(default)]
    pub local: bool,
    /// A private chain is listed only when this id is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_id: Option<String>,
    pub block_time_millis: u64,
    pub confirmations: u32,
    pub finality_blocks: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_block: Option<u64>,
    /// The age at which the oldest unmined payment of a wallet gets a gas bump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bump_after_millis: Option<u64>,
    pub tip_gwei: String,
    pub max_fee_gwei: String,
    /// Higher confirmation counts for deposits of higher value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierConfig>,
    #[serde(default)]
    pub risk: RiskConfig,
    #[serde(default)]
    pub gas: GasConfig,
    /// The native-currency levels of each filler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "float")]
    pub gas_refill: Option<GasRefillConfig>,
    pub public: PublicConfig,
    pub contracts: ContractsConfig,
    /// The Uniswap V3 deployment whose pools trade tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dex: Option<DexConfig>,
    pub native: NativeConfig,
    pub endpoints: Vec<EndpointConfig>,
    /// The nodes the allocator reads; `endpoints` by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocator_endpoints: Vec<EndpointConfig>,
    #[serde(default)]
    pub tokens: Vec<TokenConfig>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    pub from_usd: String,
    pub confirmations: u32,
}

/// Limits on payments against deposits that are not final.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RiskConfig {
    pub open_usd: String,
    pub per_minute_usd: String,
    /// The largest refund out of our own funds. A larger one is paid out of the depository once its deposit is final,
    /// if an allocator signs for its currency.
    pub refund_usd: String,
    /// The time a deposit removed by a reorg may stay away before its request fails.
    pub lost_after_secs: u32,
}

impl Default for RiskConfig {
    fn default() -> Self {
        Self {
            open_usd: "1000000".to_owned(),
            per_minute_usd: "250000".to_owned(),
            refund_usd: "100000".to_owned(),
            lost_after_secs: 600,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GasConfig {
    pub native_limit: u64,
    pub erc20_limit: u64,
    pub native_typical: u64,
    pub erc20_typical: u64,
    pub routed_limit: u64,
    pub routed_typical: u64,
}

impl Default for GasConfig {
    /// A native transfer with a 32-byte id needs 22,280 gas; below that nodes accept it and silently drop it.
    fn default() -> Self {
        Self {
            native_limit: 60_000,
            erc20_limit: 150_000,
            native_typical: 22_280,
            erc20_typical: 65_000,
            routed_limit: 900_000,
            routed_typical: 150_000,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DexConfig {
    pub factory: Address,
    /// SwapRouter02.
    pub swap_router: Address,
    /// QuoterV2, against which our own quotes are checked.
    pub quoter: Address,
    /// The wrapped native currency; one of `tokens`.
    pub wrapped: Address,
    /// Fee tiers in millionths.
    #[serde(default = "default_fee_tiers")]
    pub fee_tiers: Vec<u32>,
}

fn default_fee_tiers() -> Vec<u32> {
    vec![100, 500, 3_000, 10_000]
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicConfig {
    /// The RPC URL published to clients. Never one of `endpoints`.
    pub http_rpc_url: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ws_rpc_url: Option<Url>,
    #[serde(default)]
    pub explorer_url: String,
    #[serde(default)]
    pub explorer_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<Url>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointConfig {
    pub http: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ws: Option<Text>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractsConfig {
    pub depository: Address,
    pub router: Address,
    pub approval_proxy: Address,
    #[serde(default = "default_multicall3")]
    pub multicall3: Address,
    /// The contract through which fillers spend the treasury's tokens in the router. Without it they only transfer
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "purse")]
    pub spend_limiter: Option<Address>,
    /// The rollup's oracle for the cost of transaction data, if it charges for data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas_oracle: Option<Address>,
}

fn default_multicall3() -> Address {
    evm::contracts::MULTICALL3
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassConfig {
    Stable,
    Major,
    Minor,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedConfig {
    pub address: Address,
    #[serde(default = "default_feed_age")]
    pub max_age_secs: u64,
}

fn default_feed_age() -> u64 {
    3_900
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeConfig {
    pub id: String,
    pub symbol: String,
    pub name: String,
    #[serde(default = "default_native_decimals")]
    pub decimals: u8,
    pub class: ClassConfig,
    #[serde(default)]
    pub logo_uri: String,
    /// The solver's target inventory of it on this chain, in whole units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    pub feed: FeedConfig,
}

fn default_native_decimals() -> u8 {
    18
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    pub address: Address,
    pub id: String,
    pub symbol: String,
    pub name: String,
    pub decimals: u8,
    pub class: ClassConfig,
    #[serde(default)]
    pub logo_uri: String,
    /// The token refuses to change one non-zero allowance into another.
    #[serde(default)]
    pub resets_allowance: bool,
    /// The solver takes the token in and pays it out; else it is traded on the pools.
    #[serde(default = "default_held")]
    pub held: bool,
    /// The solver's target inventory of it on this chain, in whole tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    /// None for a token priced only by pools; it cannot be held then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedConfig>,
}

fn default_held() -> bool {
    true
}

/// Pools are looked up for every pair of tokens in every fee tier, which bounds both.
const MAX_FEE_TIERS: usize = 8;
const MAX_TRADED_TOKENS: usize = 32;

/// The least finality of a chain that is not local.
const LEAST_FINALITY_BLOCKS: u64 = 10;
const LEAST_FINALITY_MILLIS: u64 = 60_000;

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

    /// Checks that span several keys.
    fn check(&self) -> Result<()> {
        ensure!(!self.chains.is_empty(), "chains: at least one is needed");
        let (keys, addresses) = (self.solver.filler_keys.len(), self.solver.filler_addresses.len());
        ensure!(keys + addresses > 0, "solver.filler_keys: at least one is needed, or its address in filler_addresses");
        let both = keys > 0 && addresses > 0;
        ensure!(!both || keys == addresses, "solver.filler_addresses: must be those of filler_keys, in the same order");
        let lease = self.instances.lease_millis;
        ensure!((1_000..=60_000).contains(&lease), "instances.lease_millis: must be from 1000 to 60000");
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
        for chain in &self.chains {
            chain.check().with_context(|| format!("chain {}", chain.name))?;
        }
        if let Some(allocator) = &self.allocator {
            allocator.check(&self.chains)?;
        }
        Ok(())
    }
}

impl ChainConfig {
    fn check(&self) -> Result<()> {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        ensure!(!self.name.is_empty() && self.name.bytes().all(lower), "name: lower-case letters, digits and _ only");
        ensure!(!self.endpoints.is_empty(), "endpoints: at least one is needed");
        ensure!(self.confirmations > 0, "confirmations: must be at least 1");
        ensure!(self.block_time_millis > 0, "block_time_millis: must be more than zero");
        if let Some(gas_refill) = &self.gas_refill {
            gas_refill.amounts(self.native.decimals)?;
        }
        for token in &self.tokens {
            let priced = token.feed.is_some() || !token.held;
            ensure!(priced, "tokens: {} is held and has no feed: held = false trades it on the pools", token.symbol);
            let traded = token.held || self.dex.is_some();
            ensure!(traded, "tokens: {} is not held and there is no dex to trade it on", token.symbol);
        }
        if let Some(dex) = &self.dex {
            let listed = self.tokens.iter().any(|token| token.address == dex.wrapped);
            ensure!(listed, "dex.wrapped: must be one of the tokens");
            ensure!(dex.fee_tiers.len() <= MAX_FEE_TIERS, "dex.fee_tiers: at most {MAX_FEE_TIERS}");
            ensure!(
                self.tokens.len() <= MAX_TRADED_TOKENS,
                "tokens: at most {MAX_TRADED_TOKENS} on a chain with a dex"
            );
        }
        if !self.local {
            let millis = self.finality_blocks.saturating_mul(self.block_time_millis);
            if self.finality_blocks < LEAST_FINALITY_BLOCKS || millis < LEAST_FINALITY_MILLIS {
                bail!(
                    "finality_blocks: must be at least {LEAST_FINALITY_BLOCKS} blocks and {} seconds, unless the \
                     chain is local",
                    LEAST_FINALITY_MILLIS / 1000
                );
            }
        }
        ensure!(self.gas.native_limit >= 22_280, "gas.native_limit: below 22280 a native fill is dropped in silence");
        let mut seen = BTreeSet::from([Address::ZERO]);
        for token in &self.tokens {
            ensure!(seen.insert(token.address), "tokens: {} is listed twice, or is the zero address", token.symbol);
            ensure!(token.decimals <= 36, "tokens: {} has absurd decimals", token.symbol);
        }
        Ok(())
    }
}

/// Wei, from gwei in decimal text.
pub fn wei(field: &str, gwei: &str) -> Result<u128> {
    let (whole, fraction) = gwei.split_once('.').unwrap_or((gwei, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(
        !whole.is_empty() && whole.len() <= 9 && fraction.len() <= 9 && digits(whole) && digits(fraction),
        "{field}: must be gwei in decimal text such as \"0.01\""
    );
    Ok(format!("{whole}{fraction:0<9}").parse()?)
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
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused_by_name() {
        for (from, to, said) in [
            ("environment = \"mainnet\"", "environment = \"mainnet\"\nenvironmnt = 1", "environmnt"),
            ("confirmations = 1", "confirmations = 0", "confirmations"),
            ("finality_blocks = 900", "finality_blocks = 5", "finality_blocks"),
            ("name = \"base\"", "name = \"Base\"", "name"),
            ("flat_usd = \"0.02\"", "flat_usd = \"0.02\"\nflat = 1", "flat"),
        ] {
            assert!(SAMPLE.contains(from), "{from}");
            let error = format!("{:#}", parse(&SAMPLE.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn gwei_are_read_exactly() {
        assert_eq!(wei("tip", "0.01").unwrap(), 10_000_000);
        assert_eq!(wei("tip", "100").unwrap(), 100_000_000_000);
        for bad in ["", "1e3", "-1", "0.0000000001", "1."] {
            assert_eq!(wei("tip", bad).is_ok(), bad == "1.", "{bad}");
        }
    }

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2".to_owned());
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
