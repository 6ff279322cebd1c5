//! State that the solver's tasks share: store, market, chains and the worker's lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use domain::ids::ChainId;
use domain::ledger;
use domain::money::Price;
use domain::pricing::Terms;
use domain::time::Timestamp;
use evm::Nodes;
use market::Market;
use store::leases::Kind;
use store::payments::PaymentRow;
use store::{Lease, Store, StoreError, Tx};

use crate::context::past_prices::PastPrices;
use crate::context::recipient_code::RecipientCode;
use crate::context::refused_recipients::RefusedRecipients;
use crate::context::venue_accounts::VenueAccounts;
use crate::context::{PayContext, usdc_price};
use crate::env::{Env, Screening};
use crate::handle::ChainHandle;

#[derive(Clone, Debug)]
pub struct Solver {
    pub store: Store,
    pub market: Arc<Market>,
    pub terms: Arc<Terms>,
    pub chains: BTreeMap<ChainId, Arc<ChainHandle>>,
    /// Replaced as a whole when the lists change.
    pub screening: Arc<ArcSwap<Screening>>,
    pub recipient_code: Arc<RecipientCode>,
    pub refused_recipients: Arc<RefusedRecipients>,
    pub venue_accounts: Arc<VenueAccounts>,
    pub past_prices: Arc<PastPrices>,
    /// The store under the worker's lease, while this process holds it. Payments are committed under that lease only.
    pub leased: Arc<ArcSwapOption<Store>>,
    /// Test deployments refund a deposit whose quote asks for it by its referrer.
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

    /// Facts for a payment decision as they stand now. They are taken before a unit of work begins, because a unit
    /// reaches the database and nothing else.
    pub fn context(&self) -> PayContext {
        let of = |handle: &Arc<ChainHandle>| (handle.clone(), self.market.latest(handle.id()));
        let chains = self.chains.iter().map(|(&chain, handle)| (chain, of(handle))).collect();
        PayContext {
            terms: self.terms.clone(),
            debug_refunds: self.debug_refunds,
            chains,
            screening: self.screening.load_full(),
            recipient_code: self.recipient_code.clone(),
            venue_accounts: self.venue_accounts.clone(),
            past_prices: self.past_prices.clone(),
            now: self.now(),
            pays: true,
            sends: true,
        }
    }

    /// The nodes of the chain where app balances live.
    pub fn balance_nodes(&self) -> Option<&Nodes> {
        self.chains.values().find(|handle| ledger::currency(&handle.chain).is_some()).map(|handle| &handle.nodes)
    }

    /// The price of the ledger's USDC; one dollar where the market has none.
    pub fn usdc_price(&self) -> Price {
        let mut chains = self.chains.values();
        let price = chains.find_map(|handle| usdc_price(&handle.chain, self.market.latest(handle.id()).as_deref()));
        price.unwrap_or(Price::DOLLAR)
    }

    /// The same solver, writing under a lease.
    pub fn under(&self, lease: &Lease) -> Arc<Self> {
        Arc::new(Self { store: self.store.under(lease), ..self.clone() })
    }

    /// Ends payments in this process: its lease is lost, or about to be released.
    pub fn stand_by(&self) {
        self.leased.store(None);
        self.chains.values().for_each(|handle| handle.lanes.close_inboxes());
    }

    /// Runs a unit that may pay on behalf of a caller, under the worker's lease if this process holds it. If it does
    /// not, or another process has taken the lease meanwhile, the payment is checked here and left to the worker.
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

    /// Hands committed payments to their lanes. No part of a payment runs in a caller's future.
    pub fn hand_over(&self, paid: Vec<PaymentRow>) {
        for payment in paid {
            if let Some(handle) = self.chains.get(&payment.payment.chain) {
                handle.lanes.hand_over(payment);
            }
        }
    }
}

/// The cause of a unit that was not committed: the store's refusal, or the unit's own error.
enum Failed<E> {
    Store(StoreError),
    Unit(E),
}

impl<E> From<StoreError> for Failed<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
