//! The part of the service that reading a query needs.

use std::collections::HashMap;
use std::sync::Arc;

use domain::api_key::{ApiKey, KeyText};
use domain::catalog::Catalog;
use store::Store;

use super::filter::bad;
use crate::App;
use crate::error::ApiError;
use crate::keys::Keys;

/// API keys that one query may name: the dashboard names all that an account is shown.
const MAX_KEYS: u32 = store::key_owners::MAX_KEYS + store::key_owners::MAX_REVOKED;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub catalog: &'a Catalog,
    pub store: &'a Store,
    pub keys: &'a Keys,
}

impl<'a> From<&'a App> for Lookup<'a> {
    fn from(app: &'a App) -> Self {
        Self { catalog: &app.catalog, store: &app.store, keys: &app.keys }
    }
}

impl Lookup<'_> {
    /// The keys that filters name, by their text or their id.
    pub(crate) async fn keys<'a>(
        &self,
        named: impl Iterator<Item = &'a String>,
    ) -> Result<HashMap<String, Option<Arc<ApiKey>>>, ApiError> {
        let mut found = HashMap::new();
        for text in named {
            if found.contains_key(text) {
                continue;
            }
            if u32::try_from(found.len()).is_ok_and(|count| count == MAX_KEYS) {
                return Err(bad("apiKey", format!("at most {MAX_KEYS} keys")));
            }
            let key = match (text.parse(), text.parse::<KeyText>()) {
                (Ok(id), _) => self.store.read(move |tx| store::keys::find(tx, id)).await?.map(Arc::new),
                (Err(_), Ok(secret)) => self.keys.read(&secret).await?,
                (Err(_), Err(_)) => None,
            };
            found.insert(text.clone(), key);
        }
        Ok(found)
    }
}
