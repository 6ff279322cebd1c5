//! Which recipients are contracts. A wallet takes native currency with an order id as data; a contract that only has
//! `receive` refuses any data and is paid through the router.
//!
//! Learnt in the background when a recipient is quoted, so that paying asks nobody. What is not known counts as a wallet:
//! if that is wrong the fill reverts and the deposit goes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy::primitives::Address;
use domain::ids::ChainId;
use evm::At;
use tokio::sync::Semaphore;

use crate::site::Site;

/// Answers that are kept. Beyond it all are forgotten and learnt again.
const MOST: usize = 100_000;
/// Questions under way at a time; one more is not asked.
const AT_ONCE: usize = 32;

#[derive(Debug)]
pub struct Recipients {
    known: Mutex<HashMap<(ChainId, Address), bool>>,
    asking: Arc<Semaphore>,
}

impl Default for Recipients {
    fn default() -> Self {
        Self { known: Mutex::default(), asking: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Recipients {
    /// Whether it is a contract, as far as is known.
    pub fn is_contract(&self, chain: ChainId, who: Address) -> bool {
        self.answer(chain, who).unwrap_or(false)
    }

    fn answer(&self, chain: ChainId, who: Address) -> Option<bool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(chain, who)).copied()
    }

    /// Asks in the background, unless it is known or too many questions are under way.
    pub fn learn(self: &Arc<Self>, site: &Arc<Site>, who: Address) {
        if self.answer(site.id(), who).is_some() {
            return;
        }
        let Ok(permit) = self.asking.clone().try_acquire_owned() else { return };
        let (this, site) = (self.clone(), site.clone());
        tokio::spawn(async move {
            let _permit = permit;
            // A node that does not answer leaves it unknown.
            if let Ok(code) = site.nodes.code(who, At::Latest).await {
                this.note(site.id(), who, !code.is_empty());
            }
        });
    }

    fn note(&self, chain: ChainId, who: Address, is_contract: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((chain, who), is_contract);
    }
}
