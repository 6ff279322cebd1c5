//! The books: a fold of the journal. `judge` decides what may be written, `apply` writes it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use domain::venue::{AccountIndex, Asset, Route, Standing, TxStatus};
use venue::{AuthToken, Digest, KeyIndex, SignedTransfer};

use super::NETWORK;
use super::accounts::{Holder, Key};
use super::faults::VenueFault;
use super::journal::Entry;
use super::refusal::{
    ACCOUNT_NOT_FOUND, BALANCE_TOO_LOW, EXPIRED, FEE_TOO_LOW, INVALID_NONCE, INVALID_SIGNATURE,
    INVALID_WALLET_SIGNATURE, KEY_NOT_FOUND, Refusal, UNAUTHORIZED,
};

/// The fee between accounts of different wallets: three USDC, as published samples have it.
pub(super) const TRANSFER_FEE: u64 = 3_000_000;
/// Balances that USDC fees come out of.
const FEES: (Asset, Route) = (Asset::USDC, Route::Perps);

#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub(super) hash: Digest,
    pub(super) signed: SignedTransfer,
    pub(super) info: String,
    pub(super) status: TxStatus,
    pub(super) queued_at: u64,
    pub(super) moved_at: u64,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    accounts: BTreeMap<AccountIndex, Holder>,
    /// In the order they were taken.
    txs: Vec<Tx>,
    by_hash: HashMap<Digest, usize>,
    /// Transactions that may still move.
    open: Vec<usize>,
}

impl Book {
    pub(super) fn account(&self, index: AccountIndex) -> Result<&Holder, Refusal> {
        self.accounts.get(&index).ok_or_else(|| Refusal::new(ACCOUNT_NOT_FOUND, "account not found"))
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = (AccountIndex, &Holder)> {
        self.accounts.iter().map(|(index, holder)| (*index, holder))
    }

    pub(super) fn key(&self, account: AccountIndex, index: KeyIndex) -> Result<&Key, Refusal> {
        let key = self.account(account)?.keys.get(&index);
        key.ok_or_else(|| Refusal::new(KEY_NOT_FOUND, "api key not found"))
    }

    pub(super) fn tx(&self, hash: Digest) -> Option<(usize, &Tx)> {
        let at = *self.by_hash.get(&hash)?;
        Some((at, self.txs.get(at)?))
    }

    pub(super) fn txs(&self) -> &[Tx] {
        &self.txs
    }

    /// Transfers of an account that were committed, newest first.
    pub(super) fn history(&self, account: AccountIndex) -> impl Iterator<Item = (usize, &Tx)> {
        self.txs.iter().enumerate().rev().filter(move |(_, tx)| {
            let transfer = &tx.signed.transfer;
            tx.status.standing() == Standing::Paid && (transfer.from == account || transfer.to == account)
        })
    }

    pub(super) fn fee(&self, from: AccountIndex, to: AccountIndex) -> Result<u64, Refusal> {
        let (from, to) = (self.account(from)?, self.account(to)?);
        Ok(if from.wallet == to.wallet || !from.pays_fees { 0 } else { TRANSFER_FEE })
    }

    /// Whether a token lets its bearer read the account at this time.
    pub(super) fn authorize(&self, token: &AuthToken, account: AccountIndex, now: u64) -> Result<(), Refusal> {
        let claims = token.claims;
        let key = self.key(claims.account, claims.key_index)?;
        let good = claims.account == account && claims.deadline >= now / 1_000 && token.verify(&key.public);
        good.then_some(()).ok_or_else(|| Refusal::new(UNAUTHORIZED, "invalid auth token"))
    }

    /// Everything that the venue checks before it takes a transfer.
    pub(super) fn judge(&self, signed: &SignedTransfer, now: u64) -> Result<(), Refusal> {
        let transfer = &signed.transfer;
        let (sender, recipient) = (self.account(transfer.from)?, self.account(transfer.to)?);
        let key = self.key(transfer.from, transfer.key_index)?;
        if !signed.is_signed_by(NETWORK, &key.public) {
            return Err(Refusal::new(INVALID_SIGNATURE, "invalid signature"));
        }
        // The wallet's signature is the only one that covers the memo. Between accounts of one wallet it may be left
        // out.
        let unsigned = !signed.has_wallet_signature() && sender.wallet == recipient.wallet;
        if !unsigned && signed.wallet(NETWORK) != Some(sender.wallet) {
            return Err(Refusal::new(INVALID_WALLET_SIGNATURE, "invalid L1 signature"));
        }
        if transfer.expires_at.get() <= now {
            return Err(Refusal::new(EXPIRED, "transaction is expired"));
        }
        let nonce = transfer.nonce.get();
        if nonce < key.next_nonce || (nonce > key.next_nonce && !transfer.skips_nonces) {
            let expected = key.next_nonce;
            return Err(Refusal::new(INVALID_NONCE, format!("invalid nonce: expected {expected}, got {nonce}")));
        }
        if transfer.usdc_fee.get() < self.fee(transfer.from, transfer.to)? {
            return Err(Refusal::new(FEE_TOO_LOW, "transfer fee is too low"));
        }
        let too_low = debits(signed).into_iter().any(|((asset, route), units)| sender.balance(asset, route) < units);
        if too_low {
            return Err(Refusal::new(BALANCE_TOO_LOW, "not enough balance"));
        }
        Ok(())
    }

    /// Transactions whose next state is due.
    pub(super) fn due(&self, now: u64, step: Duration, fault: &VenueFault) -> Vec<Entry> {
        let step = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
        let moved = |at: &usize| {
            let tx = &self.txs[*at];
            let next = match tx.status {
                TxStatus::Pending | TxStatus::Queued if fault.stuck => None,
                TxStatus::Pending => Some(TxStatus::Queued),
                TxStatus::Queued if fault.fail_sends => Some(TxStatus::Failed),
                TxStatus::Queued => Some(TxStatus::Committed),
                TxStatus::Committed => Some(TxStatus::Executed),
                TxStatus::Executed | TxStatus::Failed | TxStatus::Rejected => None,
            };
            let next = next.filter(|_| tx.moved_at.saturating_add(step) <= now)?;
            Some(Entry::Moved { hash: tx.hash.to_string(), status: next.get().into(), at: now })
        };
        self.open.iter().filter_map(moved).collect()
    }

    pub(super) fn apply(&mut self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Opened { account, wallet, pays_fees, key_index, public_key } => {
                let account = AccountIndex::new(*account)?;
                ensure!(!self.accounts.contains_key(&account), "account {account} is opened twice");
                let mut holder = Holder::new(*wallet, *pays_fees);
                let key = Key { public: public_key.parse()?, next_nonce: 0 };
                holder.keys.insert(KeyIndex::new(*key_index)?, key);
                self.accounts.insert(account, holder);
                Ok(())
            }
            Entry::Funded { account, asset, route, units } => {
                let holder = self.holder(AccountIndex::new(*account)?)?;
                holder.credit(Asset::new(*asset)?, Route::new(*route)?, *units)
            }
            Entry::Taken { info, at } => self.take(info, *at),
            Entry::Rejected { info, at } => self.reject(info, *at),
            Entry::Moved { hash, status, at } => self.move_on(hash.parse()?, TxStatus::new(*status)?, *at),
        }
    }

    fn holder(&mut self, index: AccountIndex) -> Result<&mut Holder> {
        self.accounts.get_mut(&index).with_context(|| format!("there is no account {index}"))
    }

    fn take(&mut self, info: &str, at: u64) -> Result<()> {
        let signed = SignedTransfer::from_json(info)?;
        let (transfer, hash) = (signed.transfer, signed.hash(NETWORK));
        ensure!(!self.by_hash.contains_key(&hash), "transaction {hash} is taken twice");
        let sender = self.holder(transfer.from)?;
        for ((asset, route), units) in debits(&signed) {
            sender.debit(asset, route, units)?;
        }
        let key = sender.keys.get_mut(&transfer.key_index).context("the key is not registered")?;
        key.next_nonce = transfer.nonce.get() + 1;
        let place = self.txs.len();
        self.by_hash.insert(hash, place);
        self.open.push(place);
        let (info, status) = (info.to_owned(), TxStatus::Queued);
        self.txs.push(Tx { hash, signed, info, status, queued_at: at, moved_at: at });
        Ok(())
    }

    fn reject(&mut self, info: &str, at: u64) -> Result<()> {
        let signed = SignedTransfer::from_json(info)?;
        let hash = signed.hash(NETWORK);
        ensure!(!self.by_hash.contains_key(&hash), "transaction {hash} is taken and rejected");
        self.by_hash.insert(hash, self.txs.len());
        let (info, status) = (info.to_owned(), TxStatus::Rejected);
        self.txs.push(Tx { hash, signed, info, status, queued_at: at, moved_at: at });
        Ok(())
    }

    fn move_on(&mut self, hash: Digest, status: TxStatus, at: u64) -> Result<()> {
        let place = *self.by_hash.get(&hash).with_context(|| format!("there is no transaction {hash}"))?;
        let tx = &mut self.txs[place];
        let (before, signed) = (tx.status, tx.signed);
        (tx.status, tx.moved_at) = (status, at);
        match (before.standing(), status.standing()) {
            (Standing::Open, Standing::Paid) => {
                let transfer = signed.transfer;
                let recipient = self.holder(transfer.to)?;
                recipient.credit(transfer.asset, transfer.to_route, transfer.amount.get())?;
            }
            (Standing::Open, Standing::Void) => {
                let sender = self.holder(signed.transfer.from)?;
                for ((asset, route), units) in debits(&signed) {
                    sender.credit(asset, route, units)?;
                }
            }
            (Standing::Open, Standing::Open) | (Standing::Paid, Standing::Paid) => {}
            (Standing::Paid | Standing::Void, _) => {
                anyhow::bail!("transaction {hash} moves from {before:?} to {status:?}")
            }
        }
        if matches!(status, TxStatus::Executed | TxStatus::Failed | TxStatus::Rejected) {
            self.open.retain(|open| *open != place);
        }
        Ok(())
    }
}

/// The sender's payments for a transfer: its amount, and its fee in USDC. One line where both come out of one balance.
fn debits(signed: &SignedTransfer) -> Vec<((Asset, Route), u64)> {
    let transfer = &signed.transfer;
    let from = (transfer.asset, transfer.from_route);
    if from == FEES {
        // Both are below 2^60.
        return vec![(from, transfer.amount.get() + transfer.usdc_fee.get())];
    }
    vec![(from, transfer.amount.get()), (FEES, transfer.usdc_fee.get())]
}
