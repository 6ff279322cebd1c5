//! The allocator's configuration. Without it nothing is paid out of the depositories.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use domain::money::{Amount, UsdMicros};
use serde::{Deserialize, Serialize};

use super::{ChainConfig, Source};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatorConfig {
    /// The key that the depositories name as their allocator. It signs payouts and nothing else. Needed by the
    /// allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Source>,
    /// The key's address, for `/chains` to list in processes without the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// The number of nodes that must agree before anything is signed.
    #[serde(default = "default_quorum", alias = "agreeing")]
    pub quorum: usize,
    /// A batch is closed at this value,
    #[serde(default = "default_batch_usd")]
    pub batch_usd: String,
    /// or when its oldest deposit has waited this long.
    #[serde(default = "default_batch_age")]
    pub batch_age_secs: u64,
    /// The validity of a signature.
    #[serde(default = "default_validity")]
    pub validity_secs: u64,
    /// Caps per currency. A currency without a cap is not paid out.
    pub caps: Vec<CapConfig>,
}

fn default_quorum() -> usize {
    2
}

fn default_batch_usd() -> String {
    "10000".to_owned()
}

fn default_batch_age() -> u64 {
    3_600
}

fn default_validity() -> u64 {
    900
}

/// Caps in whole units of the currency, for each of its chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapConfig {
    /// The `id` of the currency.
    pub currency: String,
    pub hour: String,
    pub day: String,
}

impl AllocatorConfig {
    /// The quorum of a chain's nodes. It is always more than half of them: otherwise two groups could each agree on
    /// something else, and the operator of one group could have anything signed.
    pub fn quorum_of(&self, nodes: usize, local: bool) -> usize {
        if local { self.quorum } else { self.quorum.max(nodes / 2 + 1) }
    }

    pub fn check(&self, chains: &[ChainConfig]) -> Result<()> {
        ensure!(self.quorum > 0, "allocator.quorum: must be at least 1");
        ensure!((120..=1_800).contains(&self.validity_secs), "allocator.validity_secs: must be from 120 to 1800");
        self.batch_usd()?;
        for chain in chains {
            let nodes =
                if chain.allocator_endpoints.is_empty() { &chain.endpoints } else { &chain.allocator_endpoints };
            ensure!(
                chain.local || self.quorum >= 2,
                "allocator.quorum: must be at least 2, since {} is not a local chain",
                chain.name
            );
            ensure!(
                nodes.len() >= self.quorum,
                "chain {}: {} nodes have to agree before a payout is signed, and it has {}",
                chain.name,
                self.quorum,
                nodes.len()
            );
        }
        let mut seen = BTreeSet::new();
        for cap in &self.caps {
            ensure!(seen.insert(&cap.currency), "allocator.caps: {} is listed twice", cap.currency);
            let listed = chains.iter().any(|chain| {
                chain.native.id == cap.currency || chain.tokens.iter().any(|token| token.id == cap.currency)
            });
            ensure!(listed, "allocator.caps: {} is not the id of a currency", cap.currency);
            cap.amounts(0)?;
        }
        Ok(())
    }

    pub fn batch_usd(&self) -> Result<UsdMicros> {
        let usd = self.batch_usd.parse();
        usd.map_err(|_| anyhow::anyhow!("allocator.batch_usd: must be dollars in decimal text"))
    }

    pub fn terms(&self) -> Result<allocator::Terms> {
        Ok(allocator::Terms {
            batch_usd: self.batch_usd()?,
            batch_age: Duration::from_secs(self.batch_age_secs),
            validity: Duration::from_secs(self.validity_secs),
        })
    }
}

impl CapConfig {
    pub fn amounts(&self, decimals: u8) -> Result<allocator::Cap> {
        let amount = |key: &str, text: &str| -> Result<Amount> {
            let whole = text.parse::<u64>().ok();
            ensure!(whole.is_some(), "allocator.caps: {key} of {} must be whole units", self.currency);
            let units = domain::money::pow10(decimals);
            Ok(Amount::new(U256::from(whole.unwrap_or_default()).saturating_mul(units)))
        };
        let cap = allocator::Cap { hour: amount("hour", &self.hour)?, day: amount("day", &self.day)? };
        ensure!(cap.hour <= cap.day, "allocator.caps: {} may not be more in an hour than in a day", self.currency);
        Ok(cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_always_more_than_half_of_the_nodes() {
        let config: AllocatorConfig = toml::from_str("key = { env = \"KEY\" }\ncaps = []").unwrap();
        let quorum = |nodes| config.quorum_of(nodes, false);
        assert_eq!([2, 3, 4, 5, 6].map(quorum), [2, 2, 3, 3, 4]);
        assert_eq!(config.quorum_of(4, true), 2, "a local chain is one's own");
    }
}
