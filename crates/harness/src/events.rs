//! Events of requests without the chains that would make them: for tests and benchmarks of their delivery.

use anyhow::Result;
use causeway::config::Config;
use domain::ids::RequestId;
use domain::request::State;
use serde_json::Value;
use store::requests::{self, Request};
use store::webhooks;
use store::{Store, StoreError, Tx};

/// Requests in one unit: a service on the same file waits for it.
const REQUESTS_PER_UNIT: usize = 50;

/// Publishes these states of requests, in units as the solver's: event rows and deliveries in one commit. The requests
/// themselves stay as they are, so that a service does nothing about them.
pub async fn publish(config: &Config, requests: &[String], states: &[State]) -> Result<()> {
    let store = Store::open(&causeway::assemble::database(config)?)?;
    let clock = causeway::env::system_env().clock;
    let ids = requests.iter().map(|id| id.parse::<RequestId>()).collect::<Result<Vec<_>, _>>()?;
    for &state in states {
        for chunk in ids.chunks(REQUESTS_PER_UNIT) {
            let (chunk, now) = (chunk.to_vec(), clock());
            let unit = move |tx: &mut Tx<'_>| {
                for id in &chunk {
                    let found = requests::find(tx, *id)?.ok_or(StoreError::ManyRows(0))?;
                    let locked = requests::lock_order(tx, found.order_id)?.ok_or(StoreError::ManyRows(0))?;
                    webhooks::publish(tx, &Request { state, ..locked }, "published", &Value::Null, now)?;
                }
                Ok::<_, StoreError>(())
            };
            store.write(unit).await?;
        }
    }
    store.close().await;
    Ok(())
}
