//! Smart accounts of ERC-4337 and EIP-7702 on a local chain: the real entry point and its reference accounts, from a
//! pinned package.

use alloy::sol_types::SolValue;
use alloy_primitives::{Address, B256, Bytes, U256, address, b256};
use anyhow::{Context, Result, ensure};
use tokio::sync::Mutex;

use crate::artifacts::creation;
use crate::chain::Chain;
use crate::keys::Account;
use crate::progress::Progress;
use crate::stage::Deterministic;
use crate::tools::{ACCOUNT_ABSTRACTION, Cache};

/// The address of the entry point on every chain: the reference account of EIP-7702 trusts no other. The salt gives it.
const ENTRY_POINT: Address = address!("4337084D9E255Ff0702461CF8895CE9E3b5Ff108");
const ENTRY_POINT_SALT: B256 = b256!("0a59dbff790c23c976a548690c27297883cc66b4c67024f9117b0238995e35e9");

/// Held while contracts are deployed: of two tests on one chain, the second finds them.
static DEPLOYING: Mutex<()> = Mutex::const_new(());

/// The contracts of smart accounts, as they are deployed.
#[derive(Clone, Copy, Debug)]
pub struct AccountAbstraction {
    pub entry_point: Address,
    /// Creates reference accounts.
    pub account_factory: Address,
    /// The code that an account takes on by EIP-7702: it makes the calls that the account's own key has signed, as an
    /// operation of the entry point, and nobody else's.
    pub delegate: Address,
}

impl AccountAbstraction {
    /// Deploys the contracts that are not there yet, paid for by this account. The package is fetched on first use.
    pub async fn deploy(chain: &Chain, by: &Account) -> Result<Self> {
        let code = tokio::task::spawn_blocking(|| {
            let [package] = Cache::open()?.fetch_all([ACCOUNT_ABSTRACTION], &Progress::silent())?;
            let read = |name: &str| {
                let path = package.join("artifacts").join(format!("{name}.json"));
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                creation(&text)
            };
            anyhow::Ok((read("EntryPoint")?, read("SimpleAccountFactory")?, read("Simple7702Account")?))
        });
        let (entry_point, factory, delegate) = code.await??;
        let entry_point = Deterministic::salted(ENTRY_POINT_SALT, &entry_point, &[]);
        ensure!(entry_point.address == ENTRY_POINT, "the entry point that was fetched is not the one known");
        let factory = Deterministic::new(&factory, &entry_point.address.abi_encode());
        let delegate = Deterministic::new(&delegate, &[]);
        let _alone = DEPLOYING.lock().await;
        for contract in [&entry_point, &factory, &delegate] {
            let there: Bytes = chain.rpc("eth_getCode", (contract.address, "latest")).await?;
            if there.is_empty() {
                chain.send(by.private_key, contract.deployer, U256::ZERO, contract.input.clone()).await?;
            }
        }
        Ok(Self { entry_point: entry_point.address, account_factory: factory.address, delegate: delegate.address })
    }
}
