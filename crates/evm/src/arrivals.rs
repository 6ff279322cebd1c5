//! Transfers in a block, whoever they are to: the caller looks up which of them reached a deposit address.
//!
//! Deposit addresses are not asked for by name. A block costs the same however many of them there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::Log;
use alloy::sol_types::SolCall;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::agreement;
use crate::calldata;
use crate::contracts::{Erc20, Multicall3};
use crate::errors::ChainError;
use crate::logs::{Kind, Span, logs};
use crate::node::Node;
use crate::nodes::{At, Nodes};
use crate::quorum::NoQuorum;
use crate::rpc::FullBlock;
use crate::watch::Watch;

/// A transfer of native currency or of a listed token. A native one is what its transaction asked for: only the receipt
/// says whether it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenTransfer {
    pub tx: B256,
    /// None for native currency.
    pub log_index: Option<u64>,
    /// Zero is the native currency.
    pub currency: Address,
    pub from: Address,
    /// The sender of the transaction moved its own money: the owner is not a pool, a relayer's client or a contract.
    pub direct: bool,
    pub to: Address,
    pub amount: U256,
}

impl Nodes {
    /// The transfers of a block as two nodes show them, or the only one there is.
    pub fn seconded_transfers<'a>(
        &'a self,
        block: B256,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Vec<SeenTransfer>, NoQuorum>> {
        async move {
            let need = agreement::second(self.len());
            self.agree(need, "the transfers of a block", |node| async move { transfers(&node, block, watch).await })
                .await
        }
        .boxed()
    }

    /// Balances at a block as two nodes show them, in the order asked for: owner and currency. None for a token that
    /// does not answer.
    pub fn seconded_balances<'a>(
        &'a self,
        multicall3: Address,
        asked: &'a [(Address, Address)],
        at: At,
    ) -> BoxFuture<'a, Result<Vec<Option<U256>>, NoQuorum>> {
        async move {
            let calls: Vec<(Address, Bytes)> =
                asked.iter().map(|&(owner, currency)| balance(multicall3, owner, currency)).collect();
            let need = agreement::second(self.len());
            let answer = self.quorum_call(need, multicall3, calldata::aggregate(&calls), at).await?;
            let results = Multicall3::aggregate3Call::abi_decode_returns(&answer).unwrap_or_default();
            let word = |result: &Multicall3::Result| match result.success && result.returnData.len() == 32 {
                true => Some(U256::from_be_slice(&result.returnData)),
                false => None,
            };
            Ok((0..asked.len()).map(|index| results.get(index).and_then(word)).collect())
        }
        .boxed()
    }
}

fn balance(multicall3: Address, owner: Address, currency: Address) -> (Address, Bytes) {
    match currency.is_zero() {
        true => (multicall3, Multicall3::getEthBalanceCall { owner }.abi_encode().into()),
        false => (currency, Erc20::balanceOfCall { owner }.abi_encode().into()),
    }
}

async fn transfers(node: &Arc<Node>, hash: B256, watch: &Watch) -> Result<Vec<SeenTransfer>, ChainError> {
    let (block, logs): (Option<FullBlock>, Vec<Log>) = tokio::try_join!(
        node.ask("eth_getBlockByHash", (hash, true)),
        logs(node, Span::Block(hash), Kind::AllTransfers, watch)
    )?;
    let other = |method, reason| ChainError::Inconsistent { host: node.host.clone(), method, block: hash, reason };
    let block = block.ok_or_else(|| other("eth_getBlockByHash", "a block that it does not know"))?;
    if logs.iter().any(|log| log.block_hash != Some(hash) || log.removed) {
        return Err(other("eth_getLogs", "logs of another block"));
    }
    let native = block.transactions.iter().filter(|tx| !tx.value.is_zero()).filter_map(|tx| {
        let (to, currency) = (tx.to?, Address::ZERO);
        let amount = tx.value;
        Some(SeenTransfer { tx: tx.hash, log_index: None, currency, from: tx.from, direct: true, to, amount })
    });
    let senders: BTreeMap<B256, Address> = block.transactions.iter().map(|tx| (tx.hash, tx.from)).collect();
    let mut tokens: Vec<SeenTransfer> = logs.iter().filter_map(|log| token(log, &senders)).collect();
    tokens.sort_by_key(|transfer| transfer.log_index);
    Ok(native.chain(tokens).collect())
}

/// None for tokens that are not ERC-20 and use the same topic with other arguments, and for transfers of nothing.
fn token(log: &Log, senders: &BTreeMap<B256, Address>) -> Option<SeenTransfer> {
    let [_, from, to] = log.topics() else { return None };
    let amount = U256::from_be_slice(log.data().data.get(..32).filter(|_| log.data().data.len() == 32)?);
    let (tx, from) = (log.transaction_hash?, Address::from_word(*from));
    (!amount.is_zero()).then_some(SeenTransfer {
        tx,
        log_index: Some(log.log_index?),
        currency: log.address(),
        from,
        direct: senders.get(&tx) == Some(&from),
        to: Address::from_word(*to),
        amount,
    })
}
