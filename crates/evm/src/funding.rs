//! Transfers that reach the treasury from outside, and the app balance that each is for.
//!
//! A transfer names the account to credit by a tag of 32 bytes behind its arguments, or as the whole calldata of a
//! native transfer. The reading is strict: a transfer that is ambiguous, or comes in an undocumented form, is credited
//! to nobody and reported with the reason, so that a person can look at it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::Log;
use alloy::sol_types::SolCall;

use crate::account_tag::{Tag, account_in, is_tagged};
use crate::contracts::Erc20;
use crate::errors::Contradiction;
use crate::rpc::Tx;
use crate::topics::TRANSFER;

/// The length of a tagged transfer: selector, recipient, amount and tag.
const TAGGED_TRANSFER: usize = 4 + 32 + 32 + 32;
/// Unattributed transfers reported per block. Beyond it somebody is wasting our disk.
const MAX_UNATTRIBUTED: usize = 256;

/// The transfers that count as funding on a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funding {
    /// The recipient: the treasury.
    pub solver: Address,
    /// True where balances are funded on this chain. Elsewhere a tagged transfer is only reported.
    pub here: bool,
    /// Tokens that are credited, in addition to the native currency.
    pub tokens: BTreeSet<Address>,
    /// Our own contracts and wallets: a transfer from them is our money already, whatever calldata surrounds the call
    /// that triggered it.
    pub ours: BTreeSet<Address>,
    /// Sources from which we fill up the treasury ourselves, in transactions that others may send: bridges, a Safe.
    pub sources: BTreeSet<Address>,
}

/// The reason why a transfer is credited to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unattributed {
    /// Balances are not funded on this chain.
    OtherChain,
    /// The currency is not one that is credited.
    Currency,
    /// There is no tag, or the transfer has none of the forms that count.
    Form,
    /// There is more than one transfer, or more than one reading of it.
    Ambiguous,
    NothingMoved,
    /// Minted from the zero address: a bridge's sender is on another chain, and this transaction does not show who it
    /// is.
    Minted,
    /// The transfer may be our own, and anybody may have written the calldata around it.
    OwnSource,
    /// The tag names an account, and the owner of the money did not send the transaction.
    NotByItsOwner,
}

impl Unattributed {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherChain => "other-chain",
            Self::Currency => "currency",
            Self::Form => "form",
            Self::Ambiguous => "ambiguous",
            Self::NothingMoved => "nothing-moved",
            Self::Minted => "minted",
            Self::OwnSource => "treasury-source",
            Self::NotByItsOwner => "not-by-its-owner",
        }
    }
}

impl fmt::Display for Unattributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A transfer to the treasury.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTreasuryTransfer {
    pub tx: B256,
    /// The index among the transaction's transfers to the treasury, from zero.
    pub ordinal: u32,
    /// None for a native transfer.
    pub log_index: Option<u64>,
    /// The owner of the money.
    pub sender: Address,
    /// Zero is the native currency.
    pub currency: Address,
    pub amount: U256,
    /// The account to credit.
    pub account: Result<Address, Unattributed>,
}

/// A token transfer to the treasury, as its log reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    token: Address,
    from: Address,
    amount: U256,
}

impl Funding {
    /// True when the transaction brings native currency, so that its outcome has to be known.
    pub(crate) fn brings_native(&self, tx: &Tx) -> bool {
        let brings = tx.to == Some(self.solver) && !self.ours.contains(&tx.from);
        brings && (self.here && !tx.value.is_zero() || is_tagged(&tx.input))
    }

    /// The transfers to the treasury in a block. `succeeded` holds those of its native transfers that succeeded; the
    /// logs may include others than transfers to the treasury.
    pub(crate) fn treasury_transfers(
        &self,
        transactions: &[Tx],
        succeeded: &BTreeSet<B256>,
        logs: &[Log],
    ) -> Result<Vec<SeenTreasuryTransfer>, Contradiction> {
        let by_hash: HashMap<B256, usize> = transactions.iter().enumerate().map(|(at, tx)| (tx.hash, at)).collect();
        let mut by_tx: BTreeMap<usize, BTreeMap<u64, Transfer>> = BTreeMap::new();
        for log in logs {
            let Some(transfer) = self.transfer(log) else { continue };
            let tx = log.transaction_hash.and_then(|tx| by_hash.get(&tx).copied());
            let tx = tx.ok_or(Contradiction("a log of a transaction that is not in the block"))?;
            let index = log.log_index.ok_or(Contradiction("a log without index"))?;
            if by_tx.entry(tx).or_default().insert(index, transfer).is_some_and(|other| other != transfer) {
                return Err(Contradiction("two logs with one index"));
            }
        }
        for (at, tx) in transactions.iter().enumerate() {
            if succeeded.contains(&tx.hash) && self.brings_native(tx) {
                by_tx.entry(at).or_default();
            }
        }
        let all = by_tx.into_iter().flat_map(|(at, transfers)| self.of_transaction(&transactions[at], &transfers));
        let mut room = MAX_UNATTRIBUTED;
        Ok(all
            .filter(|seen| {
                let kept = seen.account.is_ok() || room > 0;
                room = room.saturating_sub(usize::from(seen.account.is_err()));
                kept
            })
            .collect())
    }

    /// True when the log is a transfer of a token that is credited.
    pub(crate) fn counts(&self, log: &Log) -> bool {
        let transfer = self.transfer(log);
        transfer.is_some_and(|it| self.here && self.tokens.contains(&it.token) && !it.amount.is_zero())
    }

    /// None for logs that are not a transfer to the treasury, or are one of our own.
    fn transfer(&self, log: &Log) -> Option<Transfer> {
        let [TRANSFER, from, to] = *log.topics() else { return None };
        let (from, data) = (Address::from_word(from), &log.data().data);
        if to != self.solver.into_word() || data.len() != 32 || self.ours.contains(&from) {
            return None;
        }
        Some(Transfer { token: log.address(), from, amount: U256::from_be_slice(data) })
    }

    fn of_transaction(&self, tx: &Tx, transfers: &BTreeMap<u64, Transfer>) -> Vec<SeenTreasuryTransfer> {
        if transfers.is_empty() {
            let (sender, currency, amount) = (tx.from, Address::ZERO, tx.value);
            let account = self.native_account(tx);
            return vec![SeenTreasuryTransfer {
                tx: tx.hash,
                ordinal: 0,
                log_index: None,
                sender,
                currency,
                amount,
                account,
            }];
        }
        let mut seen = Vec::new();
        for (ordinal, (&log_index, transfer)) in (0..).zip(transfers) {
            let account = self.token_account(tx, *transfer, transfers);
            // Anyone can deploy a token that logs transfers to us and moves nothing. Such a log is worth a row only
            // where a tag shows that somebody meant it.
            let real = self.here && self.tokens.contains(&transfer.token) && !transfer.amount.is_zero();
            if real || is_tagged(&tx.input) {
                seen.push(SeenTreasuryTransfer {
                    tx: tx.hash,
                    ordinal,
                    log_index: Some(log_index),
                    sender: transfer.from,
                    currency: transfer.token,
                    amount: transfer.amount,
                    account,
                });
            }
        }
        seen
    }

    fn native_account(&self, tx: &Tx) -> Result<Address, Unattributed> {
        if !self.here {
            return Err(Unattributed::OtherChain);
        }
        if tx.value.is_zero() {
            return Err(Unattributed::NothingMoved);
        }
        let tag = <&[u8; 32]>::try_from(tx.input.as_ref()).ok().and_then(account_in);
        tag.map(|account| account.or(tx.from)).ok_or(Unattributed::Form)
    }

    fn token_account(
        &self,
        tx: &Tx,
        transfer: Transfer,
        transfers: &BTreeMap<u64, Transfer>,
    ) -> Result<Address, Unattributed> {
        if !self.here {
            return Err(Unattributed::OtherChain);
        }
        if !self.tokens.contains(&transfer.token) {
            return Err(Unattributed::Currency);
        }
        if transfer.amount.is_zero() {
            return Err(Unattributed::NothingMoved);
        }
        let accepted = transfers.values().filter(|other| self.tokens.contains(&other.token)).count();
        if accepted != 1 {
            return Err(Unattributed::Ambiguous);
        }
        if transfer.from.is_zero() {
            return Err(Unattributed::Minted);
        }
        if tx.to == Some(transfer.token) {
            return Ok(self.tag_of_transfer(&tx.input)?.or(transfer.from));
        }
        let account = self.tag_within(&tx.input, transfer.amount)?.or(transfer.from);
        if self.sources.contains(&transfer.from) {
            return Err(Unattributed::OwnSource);
        }
        // Many contracts pay on behalf of their caller and ignore bytes behind their arguments. So only the payer has a
        // say in who else is credited, and only a signer is known to have written the calldata.
        if account != transfer.from && tx.from != transfer.from {
            return Err(Unattributed::NotByItsOwner);
        }
        Ok(account)
    }

    /// The tag of a bare transfer. The amount moved is the log's, not the one asked for.
    fn tag_of_transfer(&self, input: &[u8]) -> Result<Tag, Unattributed> {
        let input: &[u8; TAGGED_TRANSFER] = input.try_into().map_err(|_| Unattributed::Form)?;
        let (call, tag) = input.split_at(TAGGED_TRANSFER - 32);
        let head = [&Erc20::transferCall::SELECTOR[..], self.solver.into_word().as_slice()].concat();
        let amount = call.strip_prefix(&head[..]).map(U256::from_be_slice).ok_or(Unattributed::Form)?;
        if amount.is_zero() {
            return Err(Unattributed::NothingMoved);
        }
        <&[u8; 32]>::try_from(tag).ok().and_then(account_in).ok_or(Unattributed::Form)
    }

    /// The tag of a transfer of exactly this amount, somewhere in the calls that a wallet makes for its owner.
    fn tag_within(&self, input: &Bytes, amount: U256) -> Result<Tag, Unattributed> {
        let to = self.solver.into_word();
        let call = [&Erc20::transferCall::SELECTOR[..], to.as_slice(), &amount.to_be_bytes::<32>()].concat();
        let mut found = None;
        for at in 0..input.len().saturating_sub(TAGGED_TRANSFER - 1) {
            let behind = input[at..].strip_prefix(&call[..]).and_then(|rest| rest.first_chunk::<32>());
            let Some(tag) = behind.and_then(account_in) else { continue };
            if found.replace(tag).is_some() {
                return Err(Unattributed::Ambiguous);
            }
        }
        found.ok_or(Unattributed::Form)
    }
}

#[cfg(test)]
mod tests;
