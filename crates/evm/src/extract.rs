//! The deposits that a block holds: one function of its transactions and logs.
//!
//! Money reaches the depository through its own functions, or as a plain token transfer that names its order in the
//! calldata around it. The last form is a guess, so it is marked as one; the caller looks up whether such an order is
//! open. It counts only if the payer sent the transaction: whoever brings another's signed call chooses the calldata
//! around it. A transfer that cannot be attributed is still reported, because somebody has to get it back.

use std::collections::{BTreeMap, HashMap};

use alloy::primitives::{Address, B256, Bytes, U256, address};
use alloy::rpc::types::Log;
use alloy::sol_types::SolCall;

use crate::contracts::Erc20;
use crate::errors::Contradiction;
use crate::rpc::Tx;
use crate::topics::TRANSFER;
use crate::watch::Watch;

/// Some chains mirror native transfers as logs of this pseudo-token; the native event already reports them.
const NATIVE_MIRROR: Address = address!("000000000000000000000000000000000000800a");

/// The source of a deposit's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Read from the depository's own event.
    Event(B256),
    /// Found behind a transfer in the calldata: valid only if it is the id of an open order, because a signature or any
    /// other trailing data can look like one.
    Calldata(B256),
    /// Unattributed: to be returned.
    None,
}

impl Id {
    /// The id, proven or guessed.
    pub fn candidate(self) -> Option<B256> {
        match self {
            Self::Event(id) | Self::Calldata(id) => Some(id),
            Self::None => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenDeposit {
    pub tx: B256,
    /// The index of the transaction in its block.
    pub tx_index: u64,
    /// The index of the deposit in its transaction, from zero. It identifies the deposit, since log indexes change when
    /// a block does.
    pub ordinal: u32,
    pub log_index: u64,
    pub id: Id,
    /// The address the deposit names; anyone can name anyone, so this is a hint for refunds and never proof of who
    /// paid.
    pub depositor: Address,
    /// The owner of the tokens that moved, or the sender of a native deposit's transaction.
    pub payer: Address,
    /// The signer of the transaction.
    pub sender: Address,
    /// Zero is the native currency.
    pub currency: Address,
    pub amount: U256,
    pub to: Option<Address>,
    pub input: Bytes,
    pub value: U256,
    /// Known only for transactions of our own wallets, whose receipts are read anyway.
    pub fee: Option<U256>,
}

impl SeenDeposit {
    /// True for a deposit that is worth a row: an unlisted token counts only if our own contract saw the deposit, and a
    /// transfer of zero is not a deposit.
    pub(crate) fn is_kept(&self, watch: &Watch) -> bool {
        !self.amount.is_zero() && (watch.lists(self.currency) || matches!(self.id, Id::Event(_)))
    }
}

/// True for a log that may be a kept deposit: one log for each deposit, and never fewer.
pub(crate) fn is_deposit(watch: &Watch, log: &Log) -> bool {
    match Seen::of(watch, log) {
        Ok(Some(Seen::Native { amount, .. })) => !amount.is_zero(),
        Ok(Some(Seen::Transfer { token, amount, .. })) => watch.lists(token) && !amount.is_zero(),
        // The transfer of an unlisted token is not asked for; its deposit shows by the event.
        Ok(Some(Seen::Announced { token, amount, id, .. })) => {
            !watch.lists(token) && !amount.is_zero() && id != Id::None
        }
        Ok(None) => false,
        // The block is read to say what is wrong with it.
        Err(Contradiction(_)) => true,
    }
}

/// The deposits of a block, in the order they happened. The logs are those of one block, in any order, and may include
/// others than deposits.
pub fn extract(watch: &Watch, transactions: &[Tx], logs: &[Log]) -> Result<Vec<SeenDeposit>, Contradiction> {
    let by_hash: HashMap<B256, usize> = transactions.iter().enumerate().map(|(index, tx)| (tx.hash, index)).collect();
    let mut by_tx: BTreeMap<usize, BTreeMap<u64, Seen>> = BTreeMap::new();
    for log in logs {
        let Some(seen) = Seen::of(watch, log)? else { continue };
        let tx = log.transaction_hash.ok_or(Contradiction("a log without transaction"))?;
        let tx = by_hash.get(&tx).ok_or(Contradiction("a log of a transaction that is not in the block"))?;
        let index = log.log_index.ok_or(Contradiction("a log without index"))?;
        // The same log twice is one log; two logs under one index are a contradiction.
        if by_tx.entry(*tx).or_default().insert(index, seen).is_some_and(|other| other != seen) {
            return Err(Contradiction("two logs with one index"));
        }
    }
    Ok(by_tx.into_iter().flat_map(|(index, seen)| of_transaction(watch, index, &transactions[index], &seen)).collect())
}

fn of_transaction(watch: &Watch, tx_index: usize, tx: &Tx, seen: &BTreeMap<u64, Seen>) -> Vec<SeenDeposit> {
    // Anyone can make a token that logs transfers: those that are not listed neither take an id nor spoil one.
    let transfers = seen.values().filter(|seen| matches!(seen, Seen::Transfer { token, .. } if watch.lists(*token)));
    let is_only = transfers.count() == 1;
    let mut deposits = Vec::new();
    for (&log_index, it) in seen {
        let (id, depositor, payer, currency, amount) = match *it {
            Seen::Native { depositor, amount, id } => (id, depositor, tx.from, Address::ZERO, amount),
            Seen::Transfer { token, from, amount } => {
                let event = announced(seen, log_index, token, amount);
                let mut id = event.map_or(Id::None, |(_, id)| id);
                // A wallet contract's call may be brought by anyone, with an order of their own beside it.
                if id == Id::None && is_only && watch.lists(token) && tx.from == from {
                    id = trailing(&tx.input, watch.depository, from, amount);
                }
                (id, event.map_or(from, |(depositor, _)| depositor), from, token, amount)
            }
            Seen::Announced { .. } => continue,
        };
        let ordinal = deposits.len() as u32;
        deposits.push(SeenDeposit {
            tx: tx.hash,
            tx_index: tx_index as u64,
            ordinal,
            log_index,
            id,
            depositor,
            payer,
            sender: tx.from,
            currency,
            amount,
            to: tx.to,
            input: tx.input.clone(),
            value: tx.value,
            fee: None,
        });
    }
    deposits
}

/// The event of a token deposit: the depository emits it after the transfer it made, and before the next one.
fn announced(seen: &BTreeMap<u64, Seen>, transfer: u64, token: Address, amount: U256) -> Option<(Address, Id)> {
    seen.range(transfer + 1..).map(|(_, seen)| seen).take_while(|seen| !matches!(seen, Seen::Transfer { .. })).find_map(
        |seen| match *seen {
            Seen::Announced { depositor, token: of, amount: sum, id } if of == token && sum == amount => {
                Some((depositor, id))
            }
            _ => None,
        },
    )
}

/// An id right behind a transfer of that amount to the depository, anywhere in the calldata: wallets wrap calls into
/// calls. Two different ids count as none, and one that begins with 16 zero bytes is padding.
fn trailing(input: &[u8], depository: Address, from: Address, amount: U256) -> Id {
    let to = depository.into_word();
    let amount = amount.to_be_bytes::<32>();
    let transfer = [&Erc20::transferCall::SELECTOR[..], to.as_slice(), &amount].concat();
    let transfer_from =
        [&Erc20::transferFromCall::SELECTOR[..], from.into_word().as_slice(), to.as_slice(), &amount].concat();
    let behind = |at: usize, call: &[u8]| {
        let rest = input.get(at..)?.strip_prefix(call)?;
        rest.first_chunk::<32>().map(B256::from)
    };
    let mut found = None;
    for at in 0..input.len() {
        // Only one can match at an offset: their first bytes differ.
        let Some(id) = behind(at, &transfer).or_else(|| behind(at, &transfer_from)) else {
            continue;
        };
        if found.is_some_and(|other| other != id) {
            return Id::None;
        }
        found = Some(id);
    }
    match found {
        Some(id) if id[..16] != [0; 16] => Id::Calldata(id),
        _ => Id::None,
    }
}

/// A log that concerns deposits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Native { depositor: Address, amount: U256, id: Id },
    Announced { depositor: Address, token: Address, amount: U256, id: Id },
    Transfer { token: Address, from: Address, amount: U256 },
}

impl Seen {
    /// None for logs that do not concern deposits, whichever contract emitted them.
    fn of(watch: &Watch, log: &Log) -> Result<Option<Self>, Contradiction> {
        let [topic, indexed @ ..] = log.topics() else {
            return Ok(None);
        };
        let words: Vec<B256> = log.data().data.chunks(32).map(B256::right_padding_from).collect();
        let exact = log.data().data.len() % 32 == 0;
        if log.address() == watch.depository && *topic == watch.topics.native_deposit {
            let ([from, amount, id], true) = (&words[..], exact) else {
                return Err(MISSHAPEN);
            };
            return Ok(Some(Self::Native {
                depositor: Address::from_word(*from),
                amount: (*amount).into(),
                id: event_id(*id),
            }));
        }
        if log.address() == watch.depository && *topic == watch.topics.erc20_deposit {
            let ([from, token, amount, id], true) = (&words[..], exact) else {
                return Err(MISSHAPEN);
            };
            let (depositor, token) = (Address::from_word(*from), Address::from_word(*token));
            return Ok(Some(Self::Announced { depositor, token, amount: (*amount).into(), id: event_id(*id) }));
        }
        // Tokens that are not ERC-20 use the same topic with other arguments.
        let (TRANSFER, [from, to], [amount], true) = (*topic, indexed, &words[..], exact) else {
            return Ok(None);
        };
        let from = Address::from_word(*from);
        let token = log.address();
        // A transfer from the depository to itself is not new money.
        if *to != watch.depository.into_word() || token == NATIVE_MIRROR || from == watch.depository {
            return Ok(None);
        }
        Ok(Some(Self::Transfer { token, from, amount: (*amount).into() }))
    }
}

/// Only a wrong topic in the configuration can cause this, and then every deposit would be misread.
const MISSHAPEN: Contradiction = Contradiction("a deposit event of another shape");

fn event_id(id: B256) -> Id {
    if id.is_zero() { Id::None } else { Id::Event(id) }
}

#[cfg(test)]
mod tests;
