//! The account of a call, and the keys that are its own.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::api_key::{ApiKey, ApiKeyId};
use domain::ids::RequestId;
use store::{key_owners, keys, requests};

use crate::Dashboard;
use crate::account::Account;
use crate::failure::Failure;

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        parts.extensions.get::<Self>().cloned().ok_or(Failure::SignIn)
    }
}

impl Dashboard {
    /// The keys of an account, the newest of its revoked ones last.
    pub(crate) async fn keys_of(&self, account: &Account) -> Result<Vec<ApiKey>, Failure> {
        let address = account.address;
        Ok(self.app.store.read(move |tx| key_owners::keys_of(tx, address)).await?)
    }

    /// A key of this account. One of another account is as unknown as one that does not exist.
    pub(crate) async fn own_key(&self, account: &Account, id: &str) -> Result<Arc<ApiKey>, Failure> {
        let (address, id) = (account.address, id.parse::<ApiKeyId>().map_err(|_| Failure::NotFound)?);
        let unit = move |tx: &mut store::Tx<'_>| {
            let owned = key_owners::owns(tx, address, id)?;
            if owned { keys::find(tx, id) } else { Ok(None) }
        };
        self.app.store.read(unit).await?.map(Arc::new).ok_or(Failure::NotFound)
    }

    /// The key that a request was quoted with, if it is the account's own.
    pub(crate) async fn own_key_of(&self, account: &Account, id: RequestId) -> Result<Option<Arc<ApiKey>>, Failure> {
        let address = account.address;
        let unit = move |tx: &mut store::Tx<'_>| {
            let key = requests::find(tx, id)?.and_then(|request| request.quote.ask.key);
            let Some(key) = key else { return Ok::<_, store::StoreError>(None) };
            if key_owners::owns(tx, address, key)? { keys::find(tx, key) } else { Ok(None) }
        };
        Ok(self.app.store.read(unit).await?.map(Arc::new))
    }
}
