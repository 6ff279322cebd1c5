//! Addresses that are contracts: native currency reaches them through the router, and they send no transactions.
//!
//! A recipient's code is read in the background when it is quoted. An unknown recipient counts as a wallet: if that is
//! wrong, the fill reverts and the deposit goes back.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use domain::ids::ChainId;
use domain::time::Timestamp;
use evm::{At, ChainError};
use store::{Store, contracts};
use tracing::debug;

use super::cache::Cache;
use crate::handle::ChainHandle;

/// Age at which code is read again: it rarely appears at an address, and hardly ever disappears.
const CODE_TTL: Duration = Duration::from_secs(86_400);

#[derive(Debug, Default)]
pub struct RecipientCode {
    contracts: Cache<(ChainId, Address), bool>,
}

impl RecipientCode {
    /// True if an address is known to be a contract.
    pub fn is_contract(&self, chain: ChainId, who: Address) -> bool {
        self.known(chain, who).unwrap_or(false)
    }

    /// True if an address is a contract. None if this process has not read its code.
    pub fn known(&self, chain: ChainId, who: Address) -> Option<bool> {
        self.contracts.get(&(chain, who)).map(|(is_contract, _)| is_contract)
    }

    /// Notes that an address turned out to be a contract: only code can refuse what is sent to it.
    pub fn found_contract(&self, chain: ChainId, who: Address) {
        self.contracts.answered((chain, who), Some(true));
    }

    /// Reads an address's code in the background. A contract is noted in the database for the process that pays.
    pub fn learn(self: &Arc<Self>, handle: &Arc<ChainHandle>, who: Address, store: &Store, now: Timestamp) {
        let key = (handle.id(), who);
        if self.is_fresh(key) {
            return;
        }
        let (this, handle, store) = (self.clone(), handle.clone(), store.clone());
        self.contracts.ask(key, async move {
            let is_contract = ask(&handle, who, &store, now).await.ok();
            this.contracts.answered(key, is_contract);
        });
    }

    /// Reads an address's code, unless it is known, and waits for it.
    pub async fn read(
        &self,
        handle: &ChainHandle,
        who: Address,
        store: &Store,
        now: Timestamp,
    ) -> Result<(), ChainError> {
        let key = (handle.id(), who);
        if !self.is_fresh(key) {
            let is_contract = ask(handle, who, store, now).await?;
            self.contracts.answered(key, Some(is_contract));
        }
        Ok(())
    }

    fn is_fresh(&self, key: (ChainId, Address)) -> bool {
        self.contracts.get(&key).is_some_and(|(_, at)| at.elapsed() < CODE_TTL)
    }
}

async fn ask(handle: &ChainHandle, who: Address, store: &Store, now: Timestamp) -> Result<bool, ChainError> {
    let is_contract = !handle.nodes.code(who, At::Latest).await?.is_empty();
    let chain = handle.id();
    if is_contract && let Err(failure) = store.write(move |tx| contracts::note(tx, chain, who, now)).await {
        debug!(error = &failure as &dyn std::error::Error, "a contract could not be noted");
    }
    Ok(is_contract)
}
