//! What reaches the treasury from outside, and whose app balance it is for.
//!
//! A transfer names the account to credit by a tag of 32 bytes behind its arguments, or as the whole calldata of a native
//! transfer. The reading is strict: whatever could mean two things, or comes in a form nobody described, is credited to
//! nobody and reported with the reason, so that a person can look at it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::rpc::types::Log;
use alloy::sol_types::SolCall;

use crate::contracts::Erc20;
use crate::extract::Contradiction;
use crate::rpc::Tx;
use crate::topics::TRANSFER;

/// On both sides of the account.
const MARK: [u8; 6] = [0x01, 0x23, 0x45, 0xab, 0xcd, 0xef];
/// Selector, recipient and amount of a transfer, and the tag.
const TAGGED_TRANSFER: usize = 4 + 32 + 32 + 32;
/// Transfers of one block that are credited to nobody and yet reported. Beyond it somebody is wasting our disk.
const MAX_UNATTRIBUTED: usize = 256;

/// What counts as funding on a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funding {
    /// Where it goes: the treasury.
    pub solver: Address,
    /// Whether balances are funded on this chain at all. Elsewhere a tagged transfer is only reported.
    pub here: bool,
    /// Tokens that are credited. Native currency is, too.
    pub tokens: BTreeSet<Address>,
    /// Contracts and wallets of our own: what they send is our money already, whatever anyone wrote around the call that
    /// made them send it.
    pub ours: BTreeSet<Address>,
    /// From where we fill the treasury up ourselves, in transactions that others may send: bridges, a Safe.
    pub sources: BTreeSet<Address>,
}

/// Why a transfer is credited to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unattributed {
    /// Balances are not funded on this chain.
    OtherChain,
    /// Not a currency that is credited.
    Currency,
    /// No tag, or not in one of the forms that count.
    Form,
    /// More than one transfer, or more than one reading of it.
    Ambiguous,
    NothingMoved,
    /// Out of nothing: what a bridge mints was sent by somebody on another chain, whom this transaction does not show.
    Minted,
    /// We may have sent it ourselves, and anybody may have written around it.
    OwnSource,
    /// It names an account, and whose money it was did not send the transaction.
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
    /// Which transfer of its transaction to the treasury, from zero.
    pub ordinal: u32,
    /// None for a native transfer.
    pub log_index: Option<u64>,
    /// Whose money it was.
    pub sender: Address,
    /// Zero is the native currency.
    pub currency: Address,
    pub amount: U256,
    /// Whom to credit.
    pub account: Result<Address, Unattributed>,
}

/// A transfer of a token to the treasury, as its log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    token: Address,
    from: Address,
    amount: U256,
}

impl Funding {
    /// Whether the outcome of a transaction has to be known: it brings native currency.
    pub(crate) fn brings_native(&self, tx: &Tx) -> bool {
        let brings = tx.to == Some(self.solver) && !self.ours.contains(&tx.from);
        brings && (self.here && !tx.value.is_zero() || is_tagged(&tx.input))
    }

    /// What reached the treasury in a block. `succeeded` are those of its native transfers that did; the logs may hold
    /// others than transfers to it.
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

    /// Whether a log tells of a token that is credited.
    pub(crate) fn counts(&self, log: &Log) -> bool {
        let transfer = self.transfer(log);
        transfer.is_some_and(|it| self.here && self.tokens.contains(&it.token) && !it.amount.is_zero())
    }

    /// None for logs that are not of a transfer to the treasury, or are of one we made ourselves.
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
            // Anyone can make a token that claims transfers to us, and move nothing from anybody. Such a log is worth a
            // row only where somebody seems to have meant it.
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
        // Many contracts pay for whoever calls them, and ignore what stands behind their arguments. So only whoever paid
        // has a say in who else is credited, and only a signer is known to have written the calldata.
        if account != transfer.from && tx.from != transfer.from {
            return Err(Unattributed::NotByItsOwner);
        }
        Ok(account)
    }

    /// A transfer and nothing around it. What it moved is what its log says, not what was asked.
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

    /// A transfer of exactly this amount somewhere in the calls that a wallet makes for its owner.
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

/// The account a tag names; nobody named is the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(Address);

impl Tag {
    fn or(self, sender: Address) -> Address {
        if self.0.is_zero() { sender } else { self.0 }
    }
}

fn account_in(tag: &[u8; 32]) -> Option<Tag> {
    let account = tag.strip_prefix(&MARK)?.strip_suffix(&MARK)?;
    Some(Tag(Address::from_slice(account)))
}

/// The tag itself, for whoever funds a balance. The zero address stands for whoever sends it.
pub fn tag(account: Address) -> B256 {
    let mut tag = [0; 32];
    tag[..6].copy_from_slice(&MARK);
    tag[6..26].copy_from_slice(account.as_slice());
    tag[26..].copy_from_slice(&MARK);
    B256::from(tag)
}

fn is_tagged(input: &[u8]) -> bool {
    input.windows(32).any(|window| window.starts_with(&MARK) && window.ends_with(&MARK))
}

#[cfg(test)]
mod tests;
