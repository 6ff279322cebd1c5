//! Tx hints: transactions that clients say they have sent, looked up off the hot path, a few at a time.
//!
//! A hint decides nothing. Only the walk along the chain takes in money, with or without a hint; the hint is written
//! into the trace of the request it names, and the walk is told to look for new blocks now.

use std::sync::Arc;
use std::time::Instant;

use alloy::primitives::B256;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::request::State;
use evm::HeardTx;
use serde_json::{Value, json};
use store::{Tx, events, requests, webhooks};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::handle::tx_hints::ROUND_INTERVAL;
use crate::solver::Solver;

/// Rule name of a hint in a request's trace.
const RULE: &str = "announced";

pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    loop {
        for hint in handle.tx_hints.due(Instant::now()) {
            match look_up(&solver, &handle, hint.tx).await {
                Ok(true) => {}
                Ok(false) => handle.tx_hints.again(hint),
                Err(failure) => {
                    debug!(chain.id = %handle.id(), tx = %hint.tx, error = %Chained(&failure), "cannot look up a tx hint");
                    handle.tx_hints.again(hint);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = handle.tx_hints.more.notified() => {}
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
    }
}

/// Looks a transaction up. True if a node knows it.
async fn look_up(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, hash: B256) -> Result<bool, SolverError> {
    let Some(heard) = handle.nodes.heard(hash).await? else { return Ok(false) };
    let mined = heard.block_hash.is_some();
    let figures = json!({ "chain": handle.id().0, "tx": hash, "mined": mined });
    announce(solver, handle.id(), names(handle, &heard), figures).await?;
    if mined {
        handle.nodes.look().await;
    }
    Ok(true)
}

/// Writes a hint into the trace of the first request that it names, once, and posts `waiting`: its transaction is known
/// before its deposit is.
pub(super) async fn announce(
    solver: &Solver,
    chain: ChainId,
    names: Vec<Name>,
    figures: Value,
) -> Result<(), SolverError> {
    let now = solver.now();
    let unit = move |tx: &mut Tx<'_>| {
        for name in &names {
            let order = match name {
                Name::Order(order) => Some(*order),
                Name::Request(id) => requests::find(tx, *id)?.map(|request| request.order_id),
            };
            let Some(order) = order else { continue };
            let Some(request) = requests::lock_order(tx, order)? else { continue };
            let here = request.quote.ask.origin.chain == chain;
            if here && request.state == State::Waiting && !events::has(tx, request.id, RULE)? {
                webhooks::publish(tx, &request, RULE, &figures, now)?;
            }
            break;
        }
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await
}

/// An id that a transaction may carry; it has to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Request(RequestId),
    Order(OrderId),
}

/// Ids in a transaction. A deposit carries the order id as the last 32 bytes of its calldata, in a call of the
/// depository or appended to a transfer; transactions through our other contracts carry the request id.
fn names(handle: &ChainHandle, heard: &HeardTx) -> Vec<Name> {
    let Some(to) = heard.to else { return Vec::new() };
    let named = handle.watch.entry.and_then(|entry| entry.request_in(to, &heard.input)).map(Name::Request);
    let deposits = to == handle.chain.depository || handle.chain.token(to).is_some();
    let last = heard.input.last_chunk::<32>().filter(|_| deposits);
    named.into_iter().chain(last.map(|word| Name::Order(OrderId(B256::from(*word))))).collect()
}
