//! The API key of the local network: made once, and the same at every start as long as its database lives.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use domain::api_key::{KeyLimits, KeyText};
use store::Store;
use store::keys::{self, KeyHash};

use crate::commands::keys::{New, create, open};
use crate::config::Config;
use crate::{local, outside};

/// The key an earlier run left, or a new one.
pub async fn ensure(config: &Config, folder: &Path) -> Result<KeyText> {
    let store = open(config)?;
    let text = find_or_create(config, &store, folder).await;
    store.close().await;
    text
}

async fn find_or_create(config: &Config, store: &Store, folder: &Path) -> Result<KeyText> {
    let path = folder.join("keys").join("api-key");
    let left = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<KeyText>().ok());
    if let Some(text) = left {
        let (hash, now) = (KeyHash::of(&text), outside::clock());
        if store.read(move |tx| keys::by_hash(tx, hash, now)).await?.is_some() {
            return Ok(text);
        }
    }
    let new = New { name: "local".to_owned(), limits: KeyLimits::new(true), may_force_refund: true };
    let (_, text) = create(config, store, new).await?;
    local::private(&path)?.write_all(format!("{}\n", text.expose()).as_bytes())?;
    Ok(text)
}
