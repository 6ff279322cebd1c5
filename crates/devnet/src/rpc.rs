//! JSON-RPC over HTTP for driving the chains, the node's own methods included.
//!
//! Connections are not kept: a handle is used from many short-lived test runtimes, and a pooled connection dies with
//! the runtime that opened it.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

#[derive(Clone, Debug)]
pub(crate) struct Rpc {
    client: reqwest::Client,
    url: Url,
}

impl Rpc {
    pub(crate) fn new(url: Url) -> Result<Self> {
        let client = crate::http::client().pool_max_idle_per_host(0).timeout(Duration::from_secs(60));
        Ok(Self { client: client.build().context("cannot build an HTTP client")?, url })
    }

    pub(crate) async fn call<T: DeserializeOwned>(&self, method: &str, params: impl Serialize) -> Result<T> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer: Value = self.post(&body).await.with_context(|| format!("{method} on {}", self.url))?;
        result(answer).and_then(|value| Ok(serde_json::from_value(value)?)).with_context(|| method.to_owned())
    }

    /// Several calls in one request; all are run, the first error is returned.
    pub(crate) async fn batch(&self, calls: impl IntoIterator<Item = (&str, Value)>) -> Result<Vec<Value>> {
        let body: Vec<Value> = calls
            .into_iter()
            .enumerate()
            .map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .collect();
        let answers: Vec<Value> = self.post(&body).await.with_context(|| format!("a batch on {}", self.url))?;
        answers.into_iter().map(result).collect()
    }

    async fn post<T: DeserializeOwned>(&self, body: &impl Serialize) -> reqwest::Result<T> {
        self.client.post(self.url.clone()).json(body).send().await?.json().await
    }
}

fn result(mut answer: Value) -> Result<Value> {
    match answer.get("error") {
        Some(error) => Err(anyhow!("the node says: {}", error["message"].as_str().unwrap_or("unknown error"))),
        None => Ok(answer["result"].take()),
    }
}
