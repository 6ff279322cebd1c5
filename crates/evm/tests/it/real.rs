//! Shared helpers of the tests on real chains. Each story has a chain of its own, because some stop or rewrite theirs.

use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256, hex};
use devnet::{Account, Chain, Devnet};
use domain::ids::ChainId;
use evm::{Endpoint, LocalSigner, Nodes, TxFields, Watch};
use tokio::sync::{Mutex, MutexGuard};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn chain(name: &str) -> &'static Chain {
    Devnet::shared().await.chain(name)
}

static TURN: Mutex<()> = Mutex::const_new(());

/// The chain that tests may stop, rewrite and lie about, one at a time; the leftovers of the last test are undone.
pub(crate) async fn disturbed() -> (MutexGuard<'static, ()>, &'static Chain) {
    let turn = TURN.lock().await;
    let chain = chain("arbitrum").await;
    chain.faults.clear();
    chain.resume_mining().await;
    (turn, chain)
}

pub(crate) fn endpoint(chain: &Chain) -> Endpoint {
    Endpoint { http: chain.rpc_url.clone(), ws: Some(chain.ws_url.clone()) }
}

/// The endpoint that can be told to misbehave.
pub(crate) fn second_endpoint(chain: &Chain) -> Endpoint {
    Endpoint { http: chain.second_rpc_url.clone(), ws: Some(chain.second_ws_url.clone()) }
}

pub(crate) fn nodes(chain: &Chain, endpoints: Vec<Endpoint>) -> Nodes {
    Nodes::new(ChainId(chain.id), endpoints, TIMEOUT).unwrap().poll_every(Duration::from_millis(20))
}

pub(crate) fn watch(chain: &Chain, wallets: impl IntoIterator<Item = Address>) -> Watch {
    Watch::new(chain.contracts.depository, chain.tokens.iter().map(|token| token.address), wallets)
}

pub(crate) fn signer(account: &Account) -> LocalSigner {
    LocalSigner::from_hex(&hex::encode(account.private_key)).unwrap()
}

pub(crate) fn fields(chain: &Chain, nonce: u64, to: Address, value: u64, data: Bytes) -> TxFields {
    TxFields {
        chain: ChainId(chain.id),
        nonce,
        to,
        value: U256::from(value),
        data,
        gas: 200_000,
        max_fee: 10_000_000_000,
        max_priority_fee: 1_000_000,
        authorizations: Vec::new(),
    }
}

/// An id nobody else uses.
pub(crate) fn fresh_id() -> B256 {
    alloy::signers::local::PrivateKeySigner::random().to_bytes()
}
