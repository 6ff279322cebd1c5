//! Same-chain transactions, found on the chain by the request that they name.
//!
//! Anyone can name any request, so a transaction counts only if it is, to the byte, the one that was quoted. If
//! another sender than the user sends it, its success completes the request, at the sender's cost; its failure is
//! ignored.

use std::sync::Arc;

use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::Quote;
use domain::request::{Event, State};
use evm::{Block, Head, NamedTx};
use serde::Serialize;
use store::payments::PaymentRow;
use store::records::{Direction, Record};
use store::{Tx, records, requests, same_chain};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::orders::advance::advance;
use crate::quoting::steps;
use crate::solver::Solver;

/// A quoted transaction that is in a block.
#[derive(Clone, Debug)]
pub struct SameChainTx {
    tx: NamedTx,
    success: bool,
    fee: Amount,
}

/// The quoted transactions of a block, as most nodes show them, and whether one is left because they do not agree yet.
/// Nearly every block has none and costs nothing.
pub async fn find(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    block: &Block,
) -> Result<(Vec<SameChainTx>, bool), SolverError> {
    if block.named.is_empty() {
        return Ok((Vec::new(), false));
    }
    let (named, of) = (block.named.clone(), handle.clone());
    let quoted = move |tx: &mut Tx<'_>| {
        let mut quoted = Vec::new();
        for named in &named {
            let request = requests::find(tx, named.request)?;
            let waits = |state| matches!(state, State::Waiting | State::Depositing | State::Success | State::Failed);
            if request.is_some_and(|request| waits(request.state) && is_quoted(&request.quote, &of, named)) {
                quoted.push(named.clone());
            }
        }
        Ok::<_, SolverError>(quoted)
    };
    let (mut found, mut open) = (Vec::new(), false);
    for tx in solver.store.read(quoted).await? {
        // A node may announce a block before it has indexed the receipt; the block is read again.
        match handle.nodes.majority_tx(tx.hash).await {
            Ok(Some(agreed)) if agreed.head.hash == block.head.hash => {
                found.push(SameChainTx { success: agreed.sent.success, fee: Amount::new(agreed.sent.fee), tx });
            }
            Ok(_) | Err(_) => open = true,
        }
    }
    Ok((found, open))
}

/// True if a transaction is the quoted one. Both forms are tried: a recipient that was known to be a contract when it
/// was quoted is sent native currency in another way.
fn is_quoted(quote: &Quote, handle: &ChainHandle, named: &NamedTx) -> bool {
    let here = quote.terms.is_none() && quote.ask.origin.chain == handle.id();
    let is = |to_contract| {
        let act = steps::same_chain(quote, &handle.chain, handle.treasury, to_contract);
        act.is_some_and(|act| {
            (act.message.to, act.message.value, &act.message.data) == (named.to, named.value, &named.input)
        })
    };
    here && (is(false) || is(true))
}

/// Applies one same-chain transaction.
pub fn apply(
    tx: &mut Tx<'_>,
    head: Head,
    handle: &ChainHandle,
    done: &SameChainTx,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    // A same-chain request has no order; its own id stands in the order's place.
    let Some(mut request) = requests::lock_order(tx, OrderId(done.tx.request.0))? else { return Ok(Vec::new()) };
    if !done.success && request.quote.ask.user.packed() != Some(done.tx.from) {
        return Ok(Vec::new());
    }
    records::put(
        tx,
        &Record {
            request: request.id,
            direction: Direction::In,
            chain: handle.id(),
            tx: done.tx.hash,
            sender: done.tx.from,
            target: Some(done.tx.to),
            value: Amount::new(done.tx.value),
            data: done.tx.input.clone(),
            fee: Some(done.fee),
            block_number: head.number,
            block_hash: head.hash,
            block_time: head.timestamp(),
            succeeded: done.success,
            gone: false,
            failure: None,
        },
    )?;
    // A success that stands outweighs a failure, in whichever order they come.
    if !done.success && records::has_succeeded(tx, request.id, Direction::In)? {
        return Ok(Vec::new());
    }
    if done.success && !request.quote.figures.fees.app.is_empty() {
        same_chain::put(tx, request.id, handle.id(), done.tx.hash, head.number)?;
    }
    let figures = Figures { chain: handle.id().0, tx: done.tx.hash, block: head.number };
    advance(tx, &mut request, Event::Executed { success: done.success }, &figures, context)
}

#[derive(Serialize)]
struct Figures {
    chain: u64,
    tx: alloy::primitives::B256,
    block: u64,
}
