//! A chain as the allocator knows it: configuration, its own nodes and their quorum.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use domain::catalog::Chain;
use domain::ids::{ChainId, PayoutNonce};
use domain::money::Amount;
use evm::contracts::Depository;
use evm::{At, Head, Nodes, Watch};

use crate::error::AllocatorError;

/// The most that may be signed for in one currency on one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    pub hour: Amount,
    pub day: Amount,
}

#[derive(Debug)]
pub struct PayoutChain {
    pub chain: Chain,
    /// Its own list, which may be the solver's.
    pub nodes: Nodes,
    /// The number of nodes that have to say the same.
    pub quorum: usize,
    /// By currency. A currency without a cap is not paid out.
    pub caps: BTreeMap<Address, Cap>,
    /// Blocks on top of another that make it final.
    pub finality: u64,
    /// The block before the first that an empty ledger has to know.
    pub start_block: Option<u64>,
    /// The fillers' wallets: only their transactions count as fills and refunds.
    pub wallets: Vec<Address>,
}

impl PayoutChain {
    pub fn id(&self) -> ChainId {
        self.chain.id
    }

    pub(crate) fn block_time(&self) -> Duration {
        Duration::from_millis(self.chain.block_time_millis)
    }

    pub(crate) fn depository(&self) -> Address {
        self.chain.depository
    }

    /// Deposits only: transactions of our wallets are looked up by their hashes.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.chain.depository, self.chain.token_addresses(), [])
    }

    /// Money sent to a token, to nobody or to ourselves is lost or comes back as a riddle.
    pub(crate) fn cannot_receive(&self, who: Address) -> bool {
        self.chain.cannot_receive(who) || self.wallets.contains(&who)
    }

    /// The newest block that cannot change any more.
    pub(crate) async fn last_final(&self) -> Result<Head, AllocatorError> {
        Ok(self.nodes.quorum_header(self.quorum, self.finality).await?)
    }

    /// Whether the depository has paid out under a nonce, as of a final block.
    pub(crate) async fn is_used(&self, nonce: PayoutNonce, last: Head) -> Result<bool, AllocatorError> {
        let call = Depository::usedNoncesCall { nonce: U256::from_be_bytes(nonce.0.0) }.abi_encode();
        let answer = self.nodes.quorum_call(self.quorum, self.depository(), call.into(), At::Hash(last.hash)).await?;
        Depository::usedNoncesCall::abi_decode_returns(&answer)
            .map_err(|_| AllocatorError::InvariantViolated("the depository does not say which nonces are used"))
    }
}
