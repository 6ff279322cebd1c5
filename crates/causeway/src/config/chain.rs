//! A chain: its nodes, contracts, finality, gas and limits.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{GasRefillConfig, NativeConfig, Text, TokenConfig};

/// Pools are looked up for every pair of tokens in every fee tier, which bounds both.
const MAX_FEE_TIERS: usize = 8;
const MAX_TRADED_TOKENS: usize = 32;

/// The least finality of a chain that is not local.
const LEAST_FINALITY_BLOCKS: u64 = 10;
const LEAST_FINALITY_MILLIS: u64 = 60_000;

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
    /// A deposit worth less than this is acted on when one node shows it and no other denies it. Above, a second node
    /// has to show it, if there is one.
    pub one_node_usd: String,
    /// The time a deposit removed by a reorg may stay away before its request fails.
    pub lost_after_secs: u32,
}

impl Default for RiskConfig {
    fn default() -> Self {
        Self {
            open_usd: "1000000".to_owned(),
            per_minute_usd: "250000".to_owned(),
            refund_usd: "100000".to_owned(),
            one_node_usd: "0".to_owned(),
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
    pub contract_typical: u64,
    pub routed_typical: u64,
}

impl Default for GasConfig {
    /// A native transfer with a 32-byte id needs 22,280 gas; below that nodes accept it and silently drop it.
    fn default() -> Self {
        Self {
            native_limit: 60_000,
            erc20_limit: 150_000,
            native_typical: 22_280,
            erc20_typical: 70_000,
            contract_typical: 52_000,
            routed_typical: 220_000,
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
    /// The factory of deposit addresses. Without it none are given out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposit_address_factory: Option<Address>,
    /// The rollup's oracle for the cost of transaction data, if it charges for data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas_oracle: Option<Address>,
}

fn default_multicall3() -> Address {
    evm::contracts::MULTICALL3
}

impl ChainConfig {
    pub(super) fn check(&self) -> Result<()> {
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
        let least = self.gas.native_limit.min(self.gas.native_typical);
        ensure!(
            least >= 22_280,
            "gas.native_limit, gas.native_typical: below 22280 a native fill is dropped in silence"
        );
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

    #[test]
    fn gwei_are_read_exactly() {
        assert_eq!(wei("tip", "0.01").unwrap(), 10_000_000);
        assert_eq!(wei("tip", "100").unwrap(), 100_000_000_000);
        for bad in ["", "1e3", "-1", "0.0000000001", "1."] {
            assert_eq!(wei("tip", bad).is_ok(), bad == "1.", "{bad}");
        }
    }
}
