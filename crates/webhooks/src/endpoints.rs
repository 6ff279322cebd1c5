//! Endpoints as their owners see and change them, by the API and by the command line.

use std::sync::Arc;

use domain::api_key::ApiKeyId;
use domain::time::Timestamp;
use domain::webhook::{EndpointName, Status, StatusFilter};
use store::sealing::{MasterKey, SealError};
use store::webhooks::{self, Endpoint, Filter, Logged, Put, Replay};
use store::{Store, StoreError, Tx};

use crate::address::Policy;
use crate::env::Env;
use crate::target::{Target, TargetError};

#[derive(Clone, Debug)]
pub struct Endpoints {
    pub store: Store,
    /// None where no key can be made, and so nobody asks.
    pub master: Option<Arc<MasterKey>>,
    pub policy: Policy,
    pub env: Env,
}

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("a key has at most {} endpoints", webhooks::MAX_ENDPOINTS)]
    TooMany,
    #[error("the key is revoked")]
    KeyEnded,
    #[error("no such endpoint")]
    NotFound,
    #[error("the endpoint is switched off")]
    SwitchedOff,
    #[error("no such delivery")]
    NoDelivery,
    #[error("the event of the delivery is gone")]
    NoEvent,
    #[error("keys.master_key is not configured")]
    NoMasterKey,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An endpoint in clear, but for the values of its headers.
#[derive(Clone, Debug)]
pub struct View {
    pub name: EndpointName,
    pub enabled: bool,
    /// None if it does not open with the configured master key, or is not allowed any more.
    pub url: Option<String>,
    pub header_names: Vec<String>,
    pub statuses: StatusFilter,
    pub disabled_because: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A change of an endpoint. Members that are left out stay as they are; a new endpoint needs its URL.
#[derive(Clone, Default)]
pub struct Change {
    pub url: Option<String>,
    pub enabled: Option<bool>,
    pub headers: Option<Vec<(String, String)>>,
    pub statuses: Option<Vec<Status>>,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

impl Endpoints {
    fn master(&self) -> Result<&MasterKey, EndpointError> {
        self.master.as_deref().ok_or(EndpointError::NoMasterKey)
    }

    fn view(&self, endpoint: Endpoint) -> Result<View, EndpointError> {
        let target = Target::open(&endpoint.sealed, endpoint.key, &endpoint.name, self.master()?, self.policy).ok();
        let names = |target: &Target| target.headers().iter().map(|(name, _)| name.to_string()).collect();
        Ok(View {
            url: target.as_ref().map(|target| target.url().to_string()),
            header_names: target.as_ref().map(names).unwrap_or_default(),
            name: endpoint.name,
            enabled: endpoint.enabled,
            statuses: endpoint.statuses,
            disabled_because: endpoint.disabled_because,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        })
    }

    async fn stored(&self, key: ApiKeyId, name: &EndpointName) -> Result<Option<Endpoint>, EndpointError> {
        let name = name.clone();
        Ok(self.store.read(move |tx| webhooks::find(tx, key, &name)).await?)
    }

    pub async fn get(&self, key: ApiKeyId, name: &EndpointName) -> Result<View, EndpointError> {
        self.view(self.stored(key, name).await?.ok_or(EndpointError::NotFound)?)
    }

    pub async fn list(&self, key: ApiKeyId) -> Result<Vec<View>, EndpointError> {
        let endpoints = self.store.read(move |tx| webhooks::endpoints(tx, key)).await?;
        endpoints.into_iter().map(|endpoint| self.view(endpoint)).collect()
    }

    /// Creates or changes an endpoint.
    pub async fn put(&self, key: ApiKeyId, name: &EndpointName, change: Change) -> Result<View, EndpointError> {
        let master = self.master()?;
        let known = self.stored(key, name).await?;
        // A target that is not allowed any more can still be replaced.
        let open = |known: &Endpoint| Target::open(&known.sealed, key, name, master, self.policy).ok();
        let target = known.as_ref().and_then(open);
        let url = change.url.or_else(|| target.as_ref().map(|target| target.url().to_string()));
        let url = url.ok_or(TargetError { field: "url", problem: "required".to_owned() })?;
        let headers = change.headers.or_else(|| target.as_ref().map(Target::header_texts)).unwrap_or_default();
        let target = Target::new(&url, &headers, self.policy)?;
        let mut nonce = [0; 12];
        (self.env.random)(&mut nonce);
        let statuses = change.statuses.map(StatusFilter::new);
        let settings = webhooks::Settings {
            enabled: change.enabled.or(known.as_ref().map(|known| known.enabled)).unwrap_or(true),
            statuses: statuses.or(known.map(|known| known.statuses)).unwrap_or_default(),
            sealed: target.seal(key, name, master, nonce)?,
        };
        let (stored_name, now) = (name.clone(), (self.env.clock)());
        match self.store.write(move |tx| webhooks::put(tx, key, &stored_name, &settings, now)).await? {
            Put::Stored(endpoint) => self.view(endpoint),
            Put::TooMany => Err(EndpointError::TooMany),
            Put::KeyEnded => Err(EndpointError::KeyEnded),
        }
    }

    pub async fn delete(&self, key: ApiKeyId, name: &EndpointName) -> Result<(), EndpointError> {
        let name = name.clone();
        let deleted = self.store.write(move |tx| webhooks::delete(tx, key, &name)).await?;
        if deleted { Ok(()) } else { Err(EndpointError::NotFound) }
    }

    /// Queues a test event and returns the id of its delivery.
    pub async fn test(&self, key: ApiKeyId, name: &EndpointName) -> Result<i64, EndpointError> {
        let (name, now) = (name.clone(), (self.env.clock)());
        let unit = move |tx: &mut Tx<'_>| {
            let Some(endpoint) = webhooks::find(tx, key, &name)? else { return Ok(None) };
            webhooks::test(tx, endpoint.id, now).map(Some)
        };
        let queued = self.store.write::<_, StoreError>(unit).await?;
        queued.ok_or(EndpointError::NotFound)?.ok_or(EndpointError::SwitchedOff)
    }

    /// Deliveries of a key, the newest first.
    pub async fn deliveries(&self, key: ApiKeyId, filter: Filter, most: u32) -> Result<Vec<Logged>, EndpointError> {
        Ok(self.store.read(move |tx| webhooks::list(tx, key, &filter, most)).await?)
    }

    /// Delivers again, under the same id. Returns the number of deliveries that are due again: none while this one is
    /// being posted.
    pub async fn replay(&self, key: ApiKeyId, delivery: i64) -> Result<u64, EndpointError> {
        let now = (self.env.clock)();
        match self.store.write(move |tx| webhooks::replay(tx, key, delivery, now)).await? {
            Replay::Due => Ok(1),
            Replay::UnderWay => Ok(0),
            Replay::Unknown => Err(EndpointError::NoDelivery),
            Replay::NoEndpoint => Err(EndpointError::SwitchedOff),
            Replay::NoEvent => Err(EndpointError::NoEvent),
        }
    }

    /// Delivers again whatever failed since a time. Returns the number, and whether to call again for more.
    pub async fn replay_failed(
        &self,
        key: ApiKeyId,
        endpoint: Option<EndpointName>,
        since: Timestamp,
    ) -> Result<(u64, bool), EndpointError> {
        let now = (self.env.clock)();
        let unit = move |tx: &mut Tx<'_>| webhooks::replay_failed(tx, key, endpoint.as_ref(), since, now);
        Ok(self.store.write(unit).await?)
    }
}
