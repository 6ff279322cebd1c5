//! Smart accounts of ERC-4337 on a local chain: the real entry point and its reference account, from a pinned package.

use alloy::sol_types::SolValue;
use alloy_primitives::{Address, U256};
use anyhow::{Context, Result};

use crate::artifacts::creation;
use crate::chain::Chain;
use crate::keys::Account;
use crate::progress::Progress;
use crate::stage::Deterministic;
use crate::tools::{ACCOUNT_ABSTRACTION, Cache};

/// The contracts of smart accounts, as they are deployed.
#[derive(Clone, Copy, Debug)]
pub struct AccountAbstraction {
    pub entry_point: Address,
    /// Creates reference accounts.
    pub account_factory: Address,
}

impl AccountAbstraction {
    /// Deploys the contracts, paid for by this account. The package is fetched on first use.
    pub async fn deploy(chain: &Chain, by: &Account) -> Result<Self> {
        let code = tokio::task::spawn_blocking(|| {
            let [package] = Cache::open()?.fetch_all([ACCOUNT_ABSTRACTION], &Progress::silent())?;
            let read = |name: &str| {
                let path = package.join("artifacts").join(format!("{name}.json"));
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                creation(&text)
            };
            anyhow::Ok((read("EntryPoint")?, read("SimpleAccountFactory")?))
        });
        let (entry_point, factory) = code.await??;
        let entry_point = Deterministic::new(&entry_point, &[]);
        let factory = Deterministic::new(&factory, &entry_point.address.abi_encode());
        for contract in [&entry_point, &factory] {
            chain.send(by.private_key, contract.deployer, U256::ZERO, contract.input.clone()).await?;
        }
        Ok(Self { entry_point: entry_point.address, account_factory: factory.address })
    }
}
