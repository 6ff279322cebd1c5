//! What is known of other people's accounts: whether a recipient is a contract, what a user holds and has allowed.
//!
//! Learnt in the background when somebody is quoted, so that neither quoting nor paying asks a node. What is not known
//! counts as the careful case: an allowance that must be given, a balance of nothing, a wallet rather than a contract
//! (if that is wrong the fill reverts and the deposit goes back).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;
use evm::At;
use evm::contracts::{Erc20, Multicall3};
use store::{Store, contracts};
use tokio::sync::Semaphore;
use tracing::debug;

use crate::chain_handle::ChainHandle;

/// Answers that are kept. Beyond it all are forgotten and learnt again.
const MAX_CACHED_ACCOUNTS: usize = 100_000;
/// Questions under way at a time; one more is not asked.
const MAX_CONCURRENT_READS: usize = 32;
/// An answer older than this is asked for again, and one older than the second is not used any more: allowances are
/// spent.
const FRESH_FOR: Duration = Duration::from_secs(1);
const USABLE_FOR: Duration = Duration::from_secs(12);
/// How long it is believed that somebody is a contract, or is none.
const STANDS: Duration = Duration::from_secs(86_400);

/// Who holds what, and who else may move it.
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
    pub allowance: Amount,
}

#[derive(Debug)]
pub struct Accounts {
    contracts: Learnt<(ChainId, Address), bool>,
    holdings: Learnt<Holder, Holding>,
    asking: Arc<Semaphore>,
}

impl Default for Accounts {
    fn default() -> Self {
        let asking = Arc::new(Semaphore::new(MAX_CONCURRENT_READS));
        Self { contracts: Learnt::default(), holdings: Learnt::default(), asking }
    }
}

impl Accounts {
    /// Whether it is a contract, as far as is known.
    pub fn is_contract(&self, chain: ChainId, who: Address) -> bool {
        self.code(chain, who).unwrap_or(false)
    }

    /// Whether it is a contract, if this process has learnt it.
    pub fn code(&self, chain: ChainId, who: Address) -> Option<bool> {
        self.contracts.get(&(chain, who)).map(|(is_contract, _)| is_contract)
    }

    /// Asks in the background, unless it is known or too many questions are under way. Code rarely comes and hardly
    /// ever goes, so an answer stands for a day. That somebody is a contract is noted for the process that pays.
    pub fn learn_code(self: &Arc<Self>, handle: &Arc<ChainHandle>, who: Address, store: &Store, now: Timestamp) {
        let key = (handle.id(), who);
        if self.contracts.get(&key).is_some_and(|(_, at)| at.elapsed() < STANDS) {
            return;
        }
        let (this, handle, store) = (self.clone(), handle.clone(), store.clone());
        self.ask(&self.contracts, key, async move {
            let code = handle.nodes.code(who, At::Latest).await;
            let is_contract = code.ok().map(|code| !code.is_empty());
            if is_contract == Some(true)
                && let Err(failure) = store.write(move |tx| contracts::note(tx, key.0, who, now)).await
            {
                debug!(error = &failure as &dyn std::error::Error, "a contract could not be noted");
            }
            this.contracts.answered(key, is_contract);
        });
    }

    /// What somebody holds and has allowed, if that was learnt a moment ago; else it is learnt for the next time.
    pub fn holding(self: &Arc<Self>, handle: &Arc<ChainHandle>, holder: Holder) -> Option<Holding> {
        let known = self.holdings.get(&holder);
        if known.is_none_or(|(_, at)| at.elapsed() > FRESH_FOR) {
            let (this, handle) = (self.clone(), handle.clone());
            self.ask(&self.holdings, holder, async move {
                this.holdings.answered(holder, read(&handle, holder).await);
            });
        }
        known.filter(|(_, at)| at.elapsed() <= USABLE_FOR).map(|(holding, _)| holding)
    }

    fn ask<K: Copy + Eq + Hash, V>(
        &self,
        learnt: &Learnt<K, V>,
        key: K,
        question: impl Future<Output = ()> + Send + 'static,
    ) {
        let Ok(permit) = self.asking.clone().try_acquire_owned() else { return };
        if !learnt.begin(key) {
            return;
        }
        tokio::spawn(async move {
            let _permit = permit;
            question.await;
        });
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
    // A node that does not answer leaves it unknown.
    let answers = handle.nodes.aggregate(multicall3, &calls, At::Latest).await.ok()?;
    let mut amounts = answers.into_iter().map(|answer| answer.ok().filter(|answer| answer.len() == 32));
    let mut next = || amounts.next().flatten().map(|answer| Amount::new(U256::from_be_slice(&answer)));
    let balance = next()?;
    Some(Holding { balance, allowance: if token.is_zero() { Amount::ZERO } else { next()? } })
}

#[derive(Debug)]
struct Learnt<K, V> {
    inner: Mutex<Answers<K, V>>,
}

/// Answers by question, and the questions under way.
#[derive(Debug)]
struct Answers<K, V> {
    known: HashMap<K, (V, Instant)>,
    asked: HashSet<K>,
}

impl<K, V> Default for Learnt<K, V> {
    fn default() -> Self {
        Self { inner: Mutex::new(Answers { known: HashMap::new(), asked: HashSet::new() }) }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Learnt<K, V> {
    fn get(&self, key: &K) -> Option<(V, Instant)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).known.get(key).copied()
    }

    fn answered(&self, key: K, answer: Option<V>) {
        let Answers { known, asked } = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&key);
        let Some(answer) = answer else { return };
        if known.len() >= MAX_CACHED_ACCOUNTS {
            known.clear();
        }
        known.insert(key, (answer, Instant::now()));
    }
}

impl<K: Copy + Eq + Hash, V> Learnt<K, V> {
    /// False when the question is already under way.
    fn begin(&self, key: K) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).asked.insert(key)
    }
}
