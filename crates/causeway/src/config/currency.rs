//! The currencies of a chain.

use alloy::primitives::Address;
use serde::{Deserialize, Serialize};

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
    /// The token takes EIP-3009 authorizations, signed under this domain. Others are deposited by Permit2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorizations: Option<TokenDomainConfig>,
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

/// The domain of a token's typed data: what its `name()` and `version()` answer, on most tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenDomainConfig {
    pub name: String,
    pub version: String,
}

fn default_held() -> bool {
    true
}
