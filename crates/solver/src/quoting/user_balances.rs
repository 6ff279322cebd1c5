//! Users' balances and allowances, read in the background when a user is quoted, so that quoting never asks a node.
//!
//! An unknown allowance counts as one that must be given; an unknown balance is not shown.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::ChainId;
use domain::money::Amount;
use evm::At;
use evm::contracts::{Erc20, Multicall3};

use crate::context::Cache;
use crate::handle::ChainHandle;

/// Age above which an answer is read again, and age above which it is not used any more: allowances are spent.
const FRESH_FOR: Duration = Duration::from_secs(1);
const USABLE_FOR: Duration = Duration::from_secs(12);

/// An owner's token, and the spender that may move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub chain: ChainId,
    pub owner: Address,
    /// Zero is the native currency.
    pub token: Address,
    pub spender: Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub balance: Amount,
    /// None if it may have been spent since it was read.
    pub allowance: Option<Amount>,
}

#[derive(Debug, Default)]
pub struct UserBalances {
    holdings: Cache<Holder, Holding>,
}

impl UserBalances {
    /// A holding that was read in the last seconds, without its allowance if a block has moved money of the owner since.
    /// One that is not fresh is read again for the next call.
    pub fn holding(self: &Arc<Self>, handle: &Arc<ChainHandle>, holder: Holder) -> Option<Holding> {
        let known = self.holdings.get(&holder);
        if known.is_none_or(|(_, at)| at.elapsed() > FRESH_FOR) {
            let (this, handle) = (self.clone(), handle.clone());
            self.holdings.ask(holder, async move {
                this.holdings.answered(holder, read(&handle, holder).await);
            });
        }
        let (holding, at) = known.filter(|(_, at)| at.elapsed() <= USABLE_FOR)?;
        let is_spent = handle.moved_money.is_moved_since(holder.owner, at);
        Some(Holding { allowance: holding.allowance.filter(|_| !is_spent), ..holding })
    }
}

async fn read(handle: &ChainHandle, holder: Holder) -> Option<Holding> {
    let Holder { owner, token, spender, .. } = holder;
    let multicall3 = handle.chain.multicall3;
    let calls: Vec<(Address, Bytes)> = if token.is_zero() {
        vec![(multicall3, Multicall3::getEthBalanceCall { owner }.abi_encode().into())]
    } else {
        vec![
            (token, Erc20::balanceOfCall { owner }.abi_encode().into()),
            (token, Erc20::allowanceCall { owner, spender }.abi_encode().into()),
        ]
    };
    // A node that does not answer leaves the holding unknown.
    let answers = handle.nodes.aggregate(multicall3, &calls, At::Latest).await.ok()?;
    let mut amounts = answers.into_iter().map(|answer| answer.ok().filter(|answer| answer.len() == 32));
    let mut next = || amounts.next().flatten().map(|answer| Amount::new(U256::from_be_slice(&answer)));
    let balance = next()?;
    let allowance = if token.is_zero() { Amount::ZERO } else { next()? };
    Some(Holding { balance, allowance: Some(allowance) })
}
