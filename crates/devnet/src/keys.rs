//! The accounts of the local network. The keys are public knowledge: never send anything of value to them.

use alloy::signers::local::PrivateKeySigner;
use alloy_primitives::{Address, B256, b256, keccak256};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    pub address: Address,
    pub private_key: B256,
}

impl Account {
    pub fn new(private_key: B256) -> Self {
        Self { address: signer(private_key).address(), private_key }
    }

    /// The same name gives the same key on every machine.
    fn named(name: &str) -> Self {
        Self::new(keccak256(format!("causeway devnet {name}")))
    }

    /// The relayer of the service whose order key this is.
    pub fn relayer(&self) -> Self {
        Self::new(keccak256([b"causeway devnet relayer".as_slice(), self.private_key.as_slice()].concat()))
    }

    pub fn signer(&self) -> PrivateKeySigner {
        signer(self.private_key)
    }
}

fn signer(key: B256) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&key).expect("a hash is a valid key except with negligible probability")
}

/// The accounts of every role.
#[derive(Clone, Debug, Serialize)]
pub struct Keys {
    /// Deployed every contract and owns the tokens and feeds.
    pub deployer: Account,
    /// Owner of the depository.
    pub owner: Account,
    /// Signs withdrawals from the depository.
    pub allocator: Account,
    /// May pause the depository.
    pub guardian: Account,
    /// Signs orders; holds nothing.
    pub orders: Account,
    /// The solver's inventory.
    pub treasury: Account,
    /// The wallets fills are sent from; each may draw on the treasury.
    pub fillers: Vec<Account>,
    /// The ten accounts every local node and wallet knows.
    pub users: Vec<Account>,
}

impl Keys {
    pub fn new(fillers: usize) -> Self {
        Self {
            deployer: Account::named("deployer"),
            owner: Account::named("owner"),
            allocator: Account::named("allocator"),
            guardian: Account::named("guardian"),
            orders: Account::named("orders"),
            treasury: Account::named("treasury"),
            fillers: (0..fillers).map(|n| Account::named(&format!("filler {n}"))).collect(),
            users: USERS.into_iter().map(Account::new).collect(),
        }
    }
}

/// From the mnemonic "test test test test test test test test test test test junk".
const USERS: [B256; 10] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];
