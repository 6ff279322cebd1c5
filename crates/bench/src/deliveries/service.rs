//! The service as the owner of a key reaches it: endpoints, test events, quotes.

use std::net::SocketAddr;

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use causeway::commands::api_key;
use devnet::Account;
use domain::api_key::KeyText;
use harness::{World, ask};
use serde_json::{Value, json};

use crate::client::{Client, post_as};

/// Amount of each quote, in wei.
const VALUE: u64 = 10_000_000_000_000_000;

pub(crate) struct Posting {
    key: KeyText,
    listen: SocketAddr,
    base_url: String,
    http: reqwest::Client,
    owner: Address,
    chains: (u64, u64),
}

impl Posting {
    pub(crate) async fn new(world: &World, owner: &Account) -> Result<Self> {
        let config = &world.config;
        let [from, to, ..] = &config.chains[..] else { anyhow::bail!("the network has two chains at least") };
        Ok(Self {
            key: api_key::ensure(config, world.folder.path(), owner).await?,
            listen: config.listen,
            base_url: causeway::assemble::plain(&config.base_url),
            http: devnet::http::client().build()?,
            owner: owner.address,
            chains: (from.id, to.id),
        })
    }

    pub(crate) async fn connect(&self) -> Result<Client> {
        Client::connect(self.listen).await
    }

    async fn put(&self, endpoint: usize, body: &Value) -> Result<()> {
        let url = format!("{}/webhooks/endpoints/e-{endpoint}", self.base_url);
        let response = self.http.put(url).header("x-api-key", self.key.expose()).json(body).send().await?;
        let code = response.status().as_u16();
        ensure!(code == 200, "the endpoint is refused: {code} {}", response.text().await?);
        Ok(())
    }

    pub(crate) async fn set(&self, endpoint: usize, url: &str) -> Result<()> {
        self.put(endpoint, &json!({ "url": url })).await
    }

    /// Switches all endpoints on or off. What is queued for them stays.
    pub(crate) async fn enable_all(&self, endpoints: usize, enabled: bool) -> Result<()> {
        for endpoint in 0..endpoints {
            self.put(endpoint, &json!({ "enabled": enabled })).await?;
        }
        Ok(())
    }

    /// Queues a test event and returns the id of its delivery.
    pub(crate) async fn test(&self, client: &mut Client, endpoint: usize) -> Result<i64> {
        let call = post_as(&self.key, &format!("/webhooks/endpoints/e-{endpoint}/test"), "");
        let answer: Value = serde_json::from_slice(client.send(&call).await?)?;
        let id = answer["deliveryId"].as_str().context("a test without a delivery")?;
        Ok(id.parse()?)
    }

    /// Quotes of the key, by their request ids.
    pub(crate) async fn requests(&self, count: usize) -> Result<Vec<String>> {
        let mut client = self.connect().await?;
        let (from, to) = ((self.chains.0, Address::ZERO), (self.chains.1, Address::ZERO));
        let body = ask(self.owner, self.owner, from, to, U256::from(VALUE)).to_string();
        let call = post_as(&self.key, "/quote/v2", &body);
        let mut requests = Vec::with_capacity(count);
        for _ in 0..count {
            let quote: Value = serde_json::from_slice(client.send(&call).await?)?;
            let id = quote["steps"][0]["requestId"].as_str().context("a quote without a request")?;
            requests.push(id.to_owned());
        }
        Ok(requests)
    }
}
