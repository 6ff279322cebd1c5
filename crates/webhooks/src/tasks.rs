//! The tasks of a process that posts webhooks. Several may run on one Postgres and share the work, delivery by
//! delivery.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::delivery::Deliverer;
use crate::upkeep;

/// Delivers and keeps up until the token ends.
pub async fn run(deliverer: Deliverer, stop: CancellationToken) {
    let upkeep = upkeep::run(deliverer.store.clone(), deliverer.settings, deliverer.env, stop.clone());
    tokio::join!(Arc::new(deliverer).run(stop), upkeep);
}
