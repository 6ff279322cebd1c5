//! Facts that a payment decision reads, taken before its unit of work begins: a unit reaches only the database.

mod cache;
mod credit;
pub mod past_prices;
pub mod recipient_code;
pub mod refused_recipients;
pub mod venue_accounts;

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::Address;
use domain::catalog::Chain;
use domain::ids::ChainId;
use domain::ledger;
use domain::money::Price;
use domain::pricing::Terms;
use domain::quote::{FORCE_REFUND, Quote};
use domain::time::Timestamp;
use market::Snapshot;

pub(crate) use self::cache::Cache;
use self::past_prices::PastPrices;
use self::recipient_code::RecipientCode;
use self::venue_accounts::VenueAccounts;
use crate::env::Screening;
use crate::handle::ChainHandle;

/// The price of the ledger's USDC, on the chain where app balances live.
pub(crate) fn usdc_price(chain: &Chain, snapshot: Option<&Snapshot>) -> Option<Price> {
    let currency = ledger::currency(chain)?.address.packed()?;
    snapshot?.price(currency).ok()
}

/// Chains and their snapshots, screening and terms, as they stood when the unit began.
#[derive(Clone, Debug)]
pub struct PayContext {
    pub terms: Arc<Terms>,
    pub(crate) debug_refunds: bool,
    pub(crate) chains: BTreeMap<ChainId, (Arc<ChainHandle>, Option<Arc<Snapshot>>)>,
    pub screening: Arc<Screening>,
    pub recipient_code: Arc<RecipientCode>,
    pub venue_accounts: Arc<VenueAccounts>,
    pub past_prices: Arc<PastPrices>,
    pub now: Timestamp,
    /// True if payments are decided here; false if they are only noted as due for the worker.
    pub(crate) pays: bool,
    /// True if payments are committed here; false if they are checked here and made by the worker.
    pub(crate) sends: bool,
}

impl PayContext {
    /// For units outside the worker's lease: payments are left to the worker.
    pub fn for_the_worker(self) -> Self {
        Self { pays: false, ..self }
    }

    /// The same, for a caller that must know at once if the payment is possible.
    pub fn looking_only(self) -> Self {
        Self { sends: false, ..self }
    }

    /// The price of the ledger's USDC; one dollar where the market has none.
    pub fn usdc_price(&self) -> Price {
        let mut chains = self.chains.values();
        chains.find_map(|(handle, snapshot)| usdc_price(&handle.chain, snapshot.as_deref())).unwrap_or(Price::DOLLAR)
    }

    pub fn forces_refund(&self, quote: &Quote) -> bool {
        let asked = self.debug_refunds && quote.ask.referrer.as_deref() == Some(FORCE_REFUND);
        asked || quote.ask.options.force_refund
    }

    /// The reason why nothing may be paid for an order, if there is one: a chain of the order may hold payments that
    /// this database does not know of, and one of them may be the order's. Without a quote it may be any chain that is
    /// known to hold such payments; checks that no node answers hold up their own chain.
    pub fn refusing(&self, chain: ChainId, quote: Option<&Quote>) -> Option<Arc<String>> {
        let own = quote.map_or([chain; 3], |quote| [chain, quote.ask.origin.chain, quote.ask.destination.chain]);
        self.chains.iter().find_map(|(chain, (handle, _))| match own.contains(chain) {
            true => handle.health.refusing(),
            false if quote.is_some() => None,
            false => handle.health.refusing_elsewhere(self.now),
        })
    }

    /// The reason why nothing may be paid for an order that this database does not know: any chain may have filled it.
    pub fn refusing_anywhere(&self) -> Option<Arc<String>> {
        self.chains.values().find_map(|(handle, _)| handle.health.refusing())
    }

    /// The chain where app balances live.
    pub fn balances(&self) -> Option<&ChainHandle> {
        self.chains.values().map(|(handle, _)| handle.as_ref()).find(|handle| ledger::currency(&handle.chain).is_some())
    }

    /// The time of a chain's newest block; our own clock where none is known.
    pub fn chain_time(&self, chain: ChainId) -> Timestamp {
        let time = self.on(chain).and_then(|(_, snapshot)| i64::try_from(snapshot?.time).ok());
        time.map_or(self.now, Timestamp::from_secs)
    }

    /// A currency's fresh price, with its decimals. None if the snapshot is stale or has no price for it.
    pub fn price_now(&self, chain: ChainId, currency: Address) -> Option<(Price, u8)> {
        let (handle, snapshot) = self.on(chain)?;
        let snapshot = snapshot.filter(|snapshot| snapshot.check_age().is_ok())?;
        Some((snapshot.price(currency).ok()?, handle.chain.token(currency)?.decimals))
    }

    pub fn on(&self, chain: ChainId) -> Option<(&ChainHandle, Option<&Snapshot>)> {
        self.chains.get(&chain).map(|(handle, snapshot)| (handle.as_ref(), snapshot.as_deref()))
    }
}
