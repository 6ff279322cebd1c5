//! The service as its clients reach it: over HTTP, and dead at any moment.

use std::time::Duration;

use anyhow::{Context, Result};
use domain::api_key::KeyText;
use serde_json::Value;

/// Pause between two calls to a service that may be dead.
const RETRY: Duration = Duration::from_millis(150);
/// Calls before a caller gives up.
const TRIES: u32 = 20;

#[derive(Debug)]
pub(crate) struct Api {
    base_url: String,
    client: reqwest::Client,
}

impl Api {
    pub(crate) fn new(base_url: String) -> Result<Self> {
        let client = devnet::http::client().timeout(Duration::from_secs(10)).build()?;
        Ok(Self { base_url, client })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let response = self.client.get(format!("{}{path}", self.base_url)).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// Reads as the holder of a key.
    pub(crate) async fn get_as(&self, key: &KeyText, path: &str) -> Result<(u16, Value)> {
        let call = self.client.get(format!("{}{path}", self.base_url)).header("x-api-key", key.expose());
        let response = call.send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    pub(crate) async fn put(&self, path: &str, key: &KeyText, body: &Value) -> Result<(u16, Value)> {
        let call = self.client.put(format!("{}{path}", self.base_url)).header("x-api-key", key.expose());
        let response = call.json(body).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    async fn post(&self, path: &str, key: Option<&KeyText>, body: &Value) -> Result<(u16, Value)> {
        let mut call = self.client.post(format!("{}{path}", self.base_url));
        if let Some(key) = key {
            call = call.header("x-api-key", key.expose());
        }
        let response = call.json(body).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// Asks until there is an answer of the service itself, for a while. None if there was none.
    pub(crate) async fn persist(&self, path: &str, key: Option<&KeyText>, body: &Value) -> Option<(u16, Value)> {
        for _ in 0..TRIES {
            match self.post(path, key, body).await {
                Ok((code, answer)) if code < 500 => return Some((code, answer)),
                Ok(_) | Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
        None
    }

    /// Asks until there is a quote: the service may be restarting, or not know a chain's market yet.
    pub(crate) async fn quote(&self, key: Option<&KeyText>, body: &Value) -> Value {
        loop {
            if let Ok((200, quote)) = self.post("/quote/v2", key, body).await {
                return quote;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The part of a wallet's app balance that it can take out, in millionths of a USDC.
    pub(crate) async fn available(&self, wallet: alloy::primitives::Address) -> Result<i64> {
        let (code, body) = self.get(&format!("/app-fees/{wallet:#x}/balances")).await?;
        let dollars = body["availableBalanceUsd"].as_f64();
        let dollars = dollars.with_context(|| format!("no balance of {wallet}: {code} {body}"))?;
        Ok(format!("{dollars:.6}").replace('.', "").parse()?)
    }
}
