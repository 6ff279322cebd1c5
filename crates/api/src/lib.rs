//! Inbound HTTP: routes, wire shapes, errors and the OpenAPI document.
//!
//! A handler parses, makes one call, renders. No rule about money is decided here.

mod app_fees;
mod attestation;
mod buckets;
mod caller;
mod capacity;
mod chains;
mod claims;
mod connections;
mod cors;
mod currencies;
mod deposit_addresses;
mod error;
mod execute;
mod fast_fill;
mod health;
mod idempotency;
mod in_process;
mod json;
mod keys;
mod limits;
mod liquidity;
mod listing;
mod lives;
mod losses;
mod manual_refund;
mod network;
pub mod openapi;
mod operator;
pub mod order_data;
mod pauses;
mod permits;
mod prices;
mod quote;
mod retirement;
mod router;
mod routes;
mod status;
mod swap_sources;
mod topups;
mod trace;
mod transactions;
mod usage;
mod wallet_links;
mod webhook_deliveries;
mod webhook_endpoints;
mod wire;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use domain::catalog::Catalog;
use domain::ids::ChainId;
use domain::time::Timestamp;
use market::Market;
use solver::deposit_addresses::reindex::Reindexer;
use solver::gasless::execute::Executions;
use solver::gasless::permits::Permits;
use solver::integrators::claims::Claims;
use solver::integrators::fast_fill::FastFills;
use solver::operator::Commands;
use solver::quoting::quote::Quoter;
use solver::{ChainHandle, Env, LocalSigner};
use store::{Instance, Store};
use webhooks::Endpoints;

pub use caller::{Caller, Keyed};
pub use connections::{ConnectionLimits, serve};
pub use error::page as error_page;
pub use in_process::{Acting, InProcess};
pub use keys::Keys;
pub use limits::{Allowance, Limits};
pub use listing::{CursorKey, OpenAnswers};
pub use network::Network;
pub use openapi::Addresses;
pub use operator::OperatorToken;
pub use retirement::{Retirement, Schedule, Successor};
pub use router::{operating_router, router};
pub use usage::UsageCounts;
pub use wire::Rendered;

/// The state that routes share. A call copies it a dozen times on its way through them, so it is one pointer.
#[derive(Clone)]
pub struct App(Arc<Parts>);

pub struct Parts {
    pub store: Store,
    pub market: Arc<Market>,
    pub chains: BTreeMap<ChainId, Arc<ChainHandle>>,
    pub quoter: Quoter,
    pub fast_fills: FastFills,
    pub reindexer: Reindexer,
    pub claims: Claims,
    pub permits: Permits,
    pub executions: Executions,
    /// The operator's commands.
    pub commands: Commands,
    pub env: Env,
    /// The solver's identity, which is in every order.
    pub solver_address: Address,
    /// Signs attestations of requests for third parties; none where that is not offered.
    pub attestation_key: Option<LocalSigner>,
    /// The key that opens the depositories, where that is known here.
    pub allocator: Option<Address>,
    /// This process among those that serve the database.
    pub instance: Instance,
    pub catalog: Arc<Catalog>,
    pub rendered: Rendered,
    pub addresses: Addresses,
    /// None where nobody may call as the operator.
    pub operator: Option<OperatorToken>,
    pub keys: Arc<Keys>,
    /// Webhook endpoints of keys.
    pub webhooks: Endpoints,
    /// Seals the cursors of listings.
    pub cursor_key: CursorKey,
    /// Exports and streams that are under way.
    pub open_answers: Arc<OpenAnswers>,
    /// The end of the older listing.
    pub retirement: Retirement,
    /// Calls under keys, for their owners to see.
    pub usage: Arc<UsageCounts>,
    /// None where the operator switched them off.
    pub limits: Option<Arc<Limits>>,
    /// Metrics and the whole of `/lives` are shown to every caller: on a local network.
    pub public_reports: bool,
    /// The metrics as they stand, in the text form Prometheus reads.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl From<Parts> for App {
    fn from(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Parts {
    pub fn now(&self) -> Timestamp {
        (self.env.clock)()
    }

    /// Takes note of a transaction that a client says it has sent, and returns at once.
    pub fn note_hint(&self, chain: ChainId, tx: B256, text: &str) {
        if let Some(handle) = self.chains.get(&chain) {
            handle.note_hint(tx, text);
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
