//! Configuration of API key storage.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use store::sealing::MasterKey;

use super::{Config, Source};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeysConfig {
    /// Encrypts the texts of API keys in the database. Without it no key can be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key: Option<Source>,
}

impl Config {
    pub fn master_key(&self) -> Result<Option<MasterKey>> {
        let Some(source) = &self.keys.master_key else { return Ok(None) };
        let text = source.read(&self.folder).context("keys.master_key")?;
        MasterKey::from_hex(text.expose()).context("keys.master_key").map(Some)
    }
}
