//! The solver as a whole: what its tasks share, and how they are started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use arc_swap::{ArcSwap, ArcSwapOption};
use domain::catalog::{Catalog, Chain};
use domain::ids::ChainId;
use domain::ledger;
use domain::money::Price;
use domain::pricing::Terms;
use domain::quote::{FORCE_REFUND, Quote};
use domain::time::Timestamp;
use evm::{LocalSigner, Nodes};
use market::{Market, Snapshot};
use store::leases::Kind;
use store::payments::PaymentRow;
use store::{Lease, Store, StoreError, Tx};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accounts::Accounts;
use crate::balances::Balances;
use crate::chain_handle::ChainHandle;

/// What the solver is handed from outside, so that tests can hand it their own.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    pub clock: fn() -> Timestamp,
    pub random: fn(&mut [u8]),
    /// Called at every point where dying must be harmless.
    pub crash: fn(&'static str),
}

/// Whom the operator does not serve.
#[derive(Clone, Debug, Default)]
pub struct Screening {
    pub blocked: BTreeSet<Address>,
    /// Exchanges: nothing is refunded to them by itself, because they would not know whose it is.
    pub custodial: BTreeSet<Address>,
}

#[derive(Clone, Debug)]
pub struct Solver {
    pub catalog: Arc<Catalog>,
    pub store: Store,
    pub market: Arc<Market>,
    pub terms: Arc<Terms>,
    /// Signs order ids and nothing else. Only where this process quotes.
    pub order_key: Option<LocalSigner>,
    /// Signs what requests are, for third parties; none where that is not offered.
    pub attestation_key: Option<LocalSigner>,
    /// Whose signature opens the depositories, where that is known here.
    pub allocator: Option<Address>,
    pub chains: BTreeMap<ChainId, Arc<ChainHandle>>,
    /// Replaced as a whole when the lists change.
    pub screening: Arc<ArcSwap<Screening>>,
    pub accounts: Arc<Accounts>,
    pub balances: Balances,
    /// Writes under the worker's lease, while this process has it. Payments are committed by it and by nothing else.
    pub leased: Arc<ArcSwapOption<Store>>,
    /// Test deployments refund what asks for it.
    pub debug_refunds: bool,
    pub env: Env,
}

impl Solver {
    pub fn now(&self) -> Timestamp {
        (self.env.clock)()
    }

    pub fn crash(&self, point: &'static str) {
        (self.env.crash)(point);
    }

    /// What paying needs to know, as it stands now: taken before a unit of work begins, because a unit reaches the
    /// database and nothing else.
    pub fn context(&self) -> PayContext {
        let of = |handle: &Arc<ChainHandle>| (handle.clone(), self.market.latest(handle.id()));
        let chains = self.chains.iter().map(|(&chain, handle)| (chain, of(handle))).collect();
        let (screening, accounts) = (self.screening.load_full(), self.accounts.clone());
        let (terms, debug_refunds) = (self.terms.clone(), self.debug_refunds);
        PayContext { terms, debug_refunds, chains, screening, accounts, now: self.now(), pays: true, sends: true }
    }

    /// The nodes of the chain where app balances live.
    pub fn balance_nodes(&self) -> Option<&Nodes> {
        let chain = domain::ledger::currency_of(&self.catalog)?.chain;
        self.chains.get(&chain).map(|handle| &handle.nodes)
    }

    /// What a USDC of the ledger is worth. Without a market, a dollar.
    pub fn usdc_price(&self) -> Price {
        let mut chains = self.chains.values();
        let price = chains.find_map(|handle| usdc_price(&handle.chain, self.market.latest(handle.id()).as_deref()));
        price.unwrap_or(Price::DOLLAR)
    }

    /// The same, writing under a lease.
    pub fn under(&self, lease: &Lease) -> Arc<Self> {
        Arc::new(Self { store: self.store.under(lease), ..self.clone() })
    }

    /// Starts the tasks of every chain, as after a crash: nothing in memory is carried over. They end with the token;
    /// what is committed by then is sent after the next start.
    pub fn start(self: &Arc<Self>, stop: &CancellationToken, tasks: &TaskTracker) {
        self.leased.store(Some(Arc::new(self.store.clone())));
        for handle in self.chains.values() {
            handle.begin();
            for (lane, inbox) in handle.open_inboxes().into_iter().enumerate() {
                tasks.spawn(crate::lanes::run(self.clone(), handle.clone(), lane, inbox, stop.clone()));
            }
            tasks.spawn(crate::follow::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::fees::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::gas_refill::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::rescan::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::earnings::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::reverts::run(self.clone(), handle.clone(), stop.clone()));
            tasks.spawn(crate::tx_hints::run(self.clone(), handle.clone(), stop.clone()));
        }
        tasks.spawn(crate::quote::prune(self.clone(), stop.clone()));
    }

    /// The lease is lost, or about to be let go of: nothing is paid here any more.
    pub fn stand_by(&self) {
        self.leased.store(None);
        self.chains.values().for_each(|handle| handle.close_inboxes());
    }

    /// Runs a unit that may pay on behalf of a caller: under the worker's lease where this process has it. Where it has not,
    /// or another has taken it meanwhile, what is to be paid is looked at here and left to the worker.
    pub(crate) async fn decide<T, E>(
        &self,
        unit: impl Fn(&mut Tx<'_>, &PayContext) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let unit = Arc::new(unit);
        let run = |context: PayContext| {
            let unit = unit.clone();
            move |tx: &mut Tx<'_>| unit(tx, &context).map_err(Failed::Unit)
        };
        let mut decided = Err(Failed::Store(StoreError::Fenced { lease: Kind::Worker.name() }));
        if let Some(leased) = self.leased.load_full() {
            decided = leased.write(run(self.context())).await;
        }
        if let Err(Failed::Store(StoreError::Fenced { .. })) = decided {
            decided = self.store.write(run(self.context().looking_only())).await;
        }
        decided.map_err(|failed| match failed {
            Failed::Store(error) => error.into(),
            Failed::Unit(error) => error,
        })
    }

    /// Takes note of a transaction that a client says it has sent, and returns at once.
    pub fn announce(&self, chain: ChainId, tx: B256) {
        if let Some(handle) = self.chains.get(&chain) {
            handle.tx_hints.note(tx);
        }
    }

    /// Hands what a commit decided to the lanes. Nothing of a payment happens in a caller's future.
    pub fn hand_over(&self, paid: Vec<PaymentRow>) {
        for payment in paid {
            if let Some(handle) = self.chains.get(&payment.payment.chain) {
                handle.hand_over(payment);
            }
        }
    }
}

/// Why a unit was not committed: the store refused it, or it refused itself.
enum Failed<E> {
    Store(StoreError),
    Unit(E),
}

impl<E> From<StoreError> for Failed<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn usdc_price(chain: &Chain, snapshot: Option<&Snapshot>) -> Option<Price> {
    let currency = ledger::currency(chain)?.address.evm()?;
    snapshot?.price(currency).ok()
}

/// The sites and the snapshots paying goes by.
#[derive(Clone, Debug)]
pub struct PayContext {
    pub terms: Arc<Terms>,
    debug_refunds: bool,
    chains: BTreeMap<ChainId, (Arc<ChainHandle>, Option<Arc<Snapshot>>)>,
    pub screening: Arc<Screening>,
    pub accounts: Arc<Accounts>,
    pub now: Timestamp,
    /// Whether payments are made, or only noted as due for the worker.
    pub(crate) pays: bool,
    /// Whether what would be paid is committed here, or looked at here and paid by the worker.
    pub(crate) sends: bool,
}

impl PayContext {
    /// For units outside the worker's lease: what is to be paid is left to the worker.
    pub fn for_the_worker(self) -> Self {
        Self { pays: false, ..self }
    }

    /// The same, where whoever asks is to know at once whether it could be paid.
    pub fn looking_only(self) -> Self {
        Self { sends: false, ..self }
    }

    /// What a USDC of the ledger is worth. Without a market, a dollar.
    pub fn usdc_price(&self) -> Price {
        let mut chains = self.chains.values();
        chains.find_map(|(handle, snapshot)| usdc_price(&handle.chain, snapshot.as_deref())).unwrap_or(Price::DOLLAR)
    }

    pub fn forces_refund(&self, quote: &Quote) -> bool {
        let asked = self.debug_refunds && quote.ask.referrer.as_deref() == Some(FORCE_REFUND);
        asked || quote.ask.options.force_refund
    }

    /// Why nothing may be paid for an order, where that is so: on any of its chains there may be payments that this
    /// database does not know of, and one of them may be the order's. Without a quote nobody can say on which.
    pub fn refusing(&self, chain: ChainId, quote: Option<&Quote>) -> Option<Arc<String>> {
        let chains = quote.map(|quote| [chain, quote.ask.origin.chain, quote.ask.destination.chain]);
        let concerned = |chain: &ChainId| chains.is_none_or(|chains| chains.contains(chain));
        let mut chains = self.chains.iter().filter(|(chain, _)| concerned(chain));
        chains.find_map(|(_, (handle, _))| handle.refusing())
    }

    /// Where app balances are kept.
    pub fn balances(&self) -> Option<&ChainHandle> {
        self.chains.values().map(|(handle, _)| handle.as_ref()).find(|handle| ledger::currency(&handle.chain).is_some())
    }

    pub fn on(&self, chain: ChainId) -> Option<(&ChainHandle, Option<&Snapshot>)> {
        self.chains.get(&chain).map(|(handle, snapshot)| (handle.as_ref(), snapshot.as_deref()))
    }
}
