//! The subject of a watcher: the addresses and topics to look for in a block.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use alloy::sol_types::SolCall;

use crate::contracts::{Depository, Erc20};
use crate::funding::Funding;
use crate::rpc::Tx;
use crate::steps::Entry;
use crate::topics::Topics;

/// The addresses and topics to look for in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub depository: Address,
    /// The listed tokens. Transfers of others are not asked for: anyone can make a token that logs whatever it likes.
    pub tokens: BTreeSet<Address>,
    /// Our wallets, whose transactions are followed.
    pub wallets: BTreeSet<Address>,
    /// The contracts through which users' own transactions enter, which name a request.
    pub entry: Option<Entry>,
    /// The transfers that may fund app balances.
    pub funding: Option<Funding>,
    pub topics: Topics,
}

impl Watch {
    pub fn new(
        depository: Address,
        tokens: impl IntoIterator<Item = Address>,
        wallets: impl IntoIterator<Item = Address>,
    ) -> Self {
        let (tokens, wallets) = (tokens.into_iter().collect(), wallets.into_iter().collect());
        Self { depository, tokens, wallets, entry: None, funding: None, topics: Topics::default() }
    }

    pub fn with_entry(self, entry: Option<Entry>) -> Self {
        Self { entry, ..self }
    }

    pub fn with_funding(self, funding: Option<Funding>) -> Self {
        Self { funding, ..self }
    }

    /// The recipients of transfers that concern us.
    pub(crate) fn recipients(&self) -> impl Iterator<Item = Address> {
        std::iter::once(self.depository).chain(self.funding.as_ref().map(|funding| funding.solver))
    }

    /// True for the native currency and listed tokens.
    pub(crate) fn lists(&self, currency: Address) -> bool {
        currency.is_zero() || self.tokens.contains(&currency)
    }

    /// True if a transaction calls a listed token or the depository and can reach no other token: the logs that were
    /// asked for are then all the transfers it made.
    pub(crate) fn is_direct(&self, tx: &Tx) -> bool {
        let (Some(to), Some(selector)) = (tx.to, tx.input.first_chunk::<4>()) else { return false };
        if self.tokens.contains(&to) {
            return [Erc20::transferCall::SELECTOR, Erc20::transferFromCall::SELECTOR].contains(selector);
        }
        let of_token = [Depository::depositErc20_0Call::SELECTOR, Depository::depositErc20_1Call::SELECTOR];
        to == self.depository
            && (*selector == Depository::depositNativeCall::SELECTOR
                || of_token.contains(selector)
                    && tx.input.get(48..68).is_some_and(|token| self.tokens.contains(&Address::from_slice(token))))
    }
}
