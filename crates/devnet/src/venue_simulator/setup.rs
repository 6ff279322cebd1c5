//! Accounts of the simulator, opened and funded from outside.

use alloy_primitives::{Address, B256};
use anyhow::{Result, ensure};
use domain::venue::{AccountIndex, Asset, Route, TxStatus};
use serde::Serialize;
use venue::{ApiKey, Digest, KeyIndex, Transfer};

use super::VenueSimulator;
use super::journal::Entry;
use crate::keys::Account;

/// An account with its keys, for whoever acts as its owner. The keys are public knowledge, like all of the local
/// network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VenueAccount {
    pub index: u64,
    pub l1_address: Address,
    pub l1_private_key: B256,
    pub api_key_index: u8,
    pub api_private_key: String,
    pub api_public_key: String,
}

/// An account to open.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount {
    pub index: AccountIndex,
    pub wallet: Account,
    /// False for an account that transfers without the venue's fee.
    pub pays_fees: bool,
    /// Units of USDC in the perps balance.
    pub collateral: u64,
}

/// A transfer in the books.
#[derive(Clone, Copy, Debug)]
pub struct BookedTransfer {
    pub hash: Digest,
    pub transfer: Transfer,
    pub status: TxStatus,
}

/// The first index that the venue leaves to users: the lower ones are its own front ends'.
const KEY_INDEX: u8 = 3;

impl VenueAccount {
    fn of(new: &NewAccount) -> Self {
        let key = ApiKey::from_seed(format!("causeway devnet venue account {}", new.index).as_bytes());
        Self {
            index: new.index.get(),
            l1_address: new.wallet.address,
            l1_private_key: new.wallet.private_key,
            api_key_index: KEY_INDEX,
            api_private_key: key.expose().to_string(),
            api_public_key: key.public().to_string(),
        }
    }

    pub fn key(&self) -> Result<ApiKey> {
        Ok(self.api_private_key.parse()?)
    }
}

impl VenueSimulator {
    /// Opens an account, unless an earlier run did. Its keys are the same in every run.
    pub fn open(&self, new: NewAccount) -> Result<VenueAccount> {
        let account = VenueAccount::of(&new);
        let known = self.state.books().book.account(new.index).ok().map(|holder| holder.wallet);
        match known {
            Some(wallet) => ensure!(wallet == new.wallet.address, "account {} is another wallet's", new.index),
            None => {
                self.state.books().write(Entry::Opened {
                    account: account.index,
                    wallet: account.l1_address,
                    pays_fees: new.pays_fees,
                    key_index: account.api_key_index.into(),
                    public_key: account.api_public_key.clone(),
                })?;
                if new.collateral > 0 {
                    self.fund(new.index, Asset::USDC, Route::Perps, new.collateral)?;
                }
            }
        }
        Ok(account)
    }

    pub fn fund(&self, account: AccountIndex, asset: Asset, route: Route, units: u64) -> Result<()> {
        let (asset, route) = (asset.get().into(), route.get().into());
        let entry = Entry::Funded { account: account.get(), asset, route, units };
        self.state.books().write(entry)
    }

    /// The balance as it stands now.
    pub fn balance(&self, account: AccountIndex, asset: Asset, route: Route) -> Result<u64> {
        let books = self.state.current()?;
        Ok(books.book.account(account).map_or(0, |holder| holder.balance(asset, route)))
    }

    /// Every transfer that was ever taken, in their order.
    pub fn transfers(&self) -> Result<Vec<BookedTransfer>> {
        let books = self.state.current()?;
        let booked =
            |tx: &super::book::Tx| BookedTransfer { hash: tx.hash, transfer: tx.signed.transfer, status: tx.status };
        Ok(books.book.txs().iter().map(booked).collect())
    }

    /// The number of transactions that a fault keeps back.
    pub fn held(&self) -> usize {
        self.state.books().held.len()
    }

    pub fn status(&self, hash: Digest) -> Result<Option<TxStatus>> {
        Ok(self.state.current()?.book.tx(hash).map(|(_, tx)| tx.status))
    }

    /// The number of looks at a transaction while it flickered.
    pub fn looks(&self, hash: Digest) -> u64 {
        self.state.books().looks.get(&hash).copied().unwrap_or_default()
    }

    pub fn next_nonce(&self, account: AccountIndex, key: KeyIndex) -> Result<u64> {
        let books = self.state.current()?;
        let key = books.book.key(account, key).map_err(|refusal| anyhow::anyhow!(refusal.message))?;
        Ok(key.next_nonce)
    }
}
