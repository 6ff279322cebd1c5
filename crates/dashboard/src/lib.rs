//! The dashboard: web pages for integrators and operators, rendered on the server.
//!
//! A page reads the store, or calls the service's own routes within the process on behalf of one of its account's keys;
//! then it renders. It has no rules about money of its own and asks no node while it is read. Reading works without
//! JavaScript; signing needs a wallet, and so a script.

mod access;
mod account;
mod alarms;
mod assets;
mod calls;
mod chart;
mod cookies;
mod decimal;
mod failure;
mod guard;
mod json;
mod layout;
mod markup;
mod ownership;
mod pages;
mod qr;
mod rates;
mod routes;
mod seal;
mod sign_in;
mod siwe;
mod test_wallet;
mod times;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use api::{App, InProcess};
use domain::time::Timestamp;
use evm::LocalSigner;
use store::{Store, StoreError, secrets, sessions};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use url::Url;

pub use access::Access;
pub use routes::{ROUTES, RouteFacts, router};

use crate::cookies::Cookies;
use crate::rates::Rates;
use crate::seal::Seal;

/// Time between two deletions of ended sessions.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);
/// Ended sessions are kept for longer than a nonce can be signed, so that none opens two.
const ENDED_KEPT: Duration = Duration::from_secs(3_600);
/// Contract wallets that are asked at the same time whether they signed.
const MAX_CONTRACT_SIGN_INS: usize = 4;

/// Settings of the dashboard, from the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Accounts that see and do what operators may.
    pub operators: BTreeSet<Address>,
    /// The time for which a session is good.
    pub session: Duration,
    /// A wallet that anybody may use: on networks of test chains only.
    pub test_wallet: Option<LocalSigner>,
}

/// The state that pages share.
#[derive(Clone)]
pub struct Dashboard(Arc<Parts>);

pub struct Parts {
    pub(crate) app: App,
    pub(crate) api: InProcess,
    pub(crate) settings: Settings,
    pub(crate) seal: Seal,
    pub(crate) cookies: Cookies,
    pub(crate) rates: Rates,
    /// The public address, whose host and origin messages and forms must name.
    pub(crate) base_url: Url,
    pub(crate) contract_sign_ins: Semaphore,
    /// Held while the test wallet sends.
    pub(crate) test_wallet_turn: Mutex<()>,
}

/// The dashboard cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("base_url is not a URL with a host")]
    BaseUrl,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Dashboard {
    /// `api` calls the routes of `app`.
    pub async fn new(app: App, api: InProcess, settings: Settings) -> Result<Self, StartError> {
        let base_url = Url::parse(&app.addresses.base_url).ok().filter(Url::has_host).ok_or(StartError::BaseUrl)?;
        let mut fresh = B256::ZERO;
        (app.env.random)(fresh.as_mut_slice());
        let secret = app.store.write(move |tx| secrets::shared(tx, "dashboard", fresh)).await?;
        let cookies = Cookies::new(base_url.scheme() == "https");
        Ok(Self(Arc::new(Parts {
            app,
            api,
            settings,
            seal: Seal::new(secret),
            cookies,
            rates: Rates::default(),
            base_url,
            contract_sign_ins: Semaphore::new(MAX_CONTRACT_SIGN_INS),
            test_wallet_turn: Mutex::new(()),
        })))
    }
}

impl Parts {
    pub(crate) fn now(&self) -> Timestamp {
        self.app.now()
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.app.env.random)(&mut bytes);
        bytes
    }
}

impl Deref for Dashboard {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Deletes ended sessions, a few hundred at a time, until the token ends.
pub async fn prune_sessions(store: Store, clock: fn() -> Timestamp, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(PRUNE_INTERVAL)).await.is_some() {
        let kept = i64::try_from(ENDED_KEPT.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(clock().millis().saturating_sub(kept));
        if let Err(error) = store.write(move |tx| sessions::prune(tx, before)).await {
            warn!(%error, "ended sessions could not be deleted");
        }
    }
}
