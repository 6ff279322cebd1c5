//! App accounts as quotes see them: a copy in memory that is at most a few seconds old.
//!
//! A quote promises nothing about a sponsor's balance; the deposit's commit asks the ledger itself. So a quote need not
//! wait for the database, except the first time it meets a wallet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy::primitives::Address;
use domain::ledger::Account;
use store::{Store, StoreError, ledger};

/// Age below which an account is used as it is.
const FRESH_FOR: Duration = Duration::from_millis(500);
/// Age below which an account is used, and read again in the background.
const USABLE_FOR: Duration = Duration::from_secs(10);
/// Wallets remembered. Only wallets that are linked to a key are ever asked for.
const MAX_CACHED_BALANCES: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct Known {
    account: Account,
    read: Instant,
    /// Another read is under way.
    asked: bool,
}

#[derive(Clone, Debug, Default)]
pub struct SponsorAccounts {
    known: Arc<Mutex<HashMap<Address, Known>>>,
}

impl SponsorAccounts {
    /// The account as last read; none for a wallet that was never asked for.
    pub fn known(&self, wallet: Address) -> Option<Account> {
        let known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.get(&wallet).map(|known| known.account)
    }

    /// Makes sure that the account is known, and recently enough.
    pub async fn learn(&self, store: &Store, wallet: Address) -> Result<(), StoreError> {
        match self.look(wallet) {
            Look::Fine => Ok(()),
            Look::Refresh => {
                let (accounts, store) = (self.clone(), store.clone());
                tokio::spawn(async move {
                    if accounts.read(&store, wallet).await.is_err() {
                        accounts.give_up(wallet);
                    }
                });
                Ok(())
            }
            Look::Read => self.read(store, wallet).await,
        }
    }

    async fn read(&self, store: &Store, wallet: Address) -> Result<(), StoreError> {
        // The age counts from before the read.
        let read = Instant::now();
        let account = store.read(move |tx| ledger::account(tx, wallet)).await?;
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.len() >= MAX_CACHED_BALANCES && !known.contains_key(&wallet) {
            known.clear();
        }
        known.insert(wallet, Known { account, read, asked: false });
        Ok(())
    }

    fn give_up(&self, wallet: Address) {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = known.get_mut(&wallet) {
            known.asked = false;
        }
    }

    fn look(&self, wallet: Address) -> Look {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(known) = known.get_mut(&wallet) else { return Look::Read };
        match known.read.elapsed() {
            age if age < FRESH_FOR => Look::Fine,
            age if age < USABLE_FOR => {
                let refresh = !known.asked;
                known.asked = true;
                if refresh { Look::Refresh } else { Look::Fine }
            }
            _ => Look::Read,
        }
    }
}

enum Look {
    Fine,
    Refresh,
    Read,
}
