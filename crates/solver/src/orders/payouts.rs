//! Payouts on their way through the solver: a lane sends what the allocator has signed, and a request that a payout
//! ends is told once the allocator has seen it executed.
//!
//! The allocator may run in another process. It writes rows and wakes the worker, and the worker looks every few
//! blocks. A payout is a payment of a filler lane like every other, so nonces, bumps, reorgs and crashes are the lane's
//! business.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::payout::{Kind, MAX_VOIDS, State};
use domain::request::{Event, State as RequestState};
use evm::contracts::{CallRequest, Depository};
use evm::{AgreedTx, At, ChainError, Refusal};
use serde_json::json;
use store::payments::{PaymentRow, Subject};
use store::payouts::{self, PayoutRow, Signature};
use store::requests::Request;
use store::{Tx, depository_ledger, deposits, payments, records, requests};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::orders::advance::advance;
use crate::orders::children;
use crate::payments::call::PaymentCall;
use crate::payments::lane::{self, Unassigned, first_offer};
use crate::payments::mined::sent_record;
use crate::solver::Solver;

/// Rows looked at in one round. The rest has its turn in the next.
const MAX_ROWS_PER_ROUND: i64 = 64;
/// Gas of a payout, and what each key in its calldata adds.
const PAYOUT_GAS: u64 = 250_000;
const GAS_PER_KEY: u64 = 1_500;
/// A signature with less time left than this is not sent any more.
const MIN_SECS_LEFT: u64 = 60;

pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let pause = (handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    let mut woken = solver.store.woken();
    let mut trouble = String::new();
    loop {
        // A payout that cannot be sent must not keep a request from its end.
        let (sent, told) = (send(&solver, &handle).await, tell(&solver, &handle).await);
        match sent.and(told) {
            Ok(()) => trouble.clear(),
            Err(error) => {
                let text = Chained(&error).to_string();
                // The same trouble every few seconds is one line.
                if text != trouble {
                    warn!(chain.id = %handle.id(), error = %text, "payouts of chain {} wait", handle.id());
                    trouble = text;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = woken.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn send(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<(), SolverError> {
    let chain = handle.id();
    if handle.refusing().is_some() {
        return Ok(());
    }
    let read = move |tx: &mut Tx<'_>| {
        let mut ready = Vec::new();
        for stored in payouts::open(tx, chain, MAX_ROWS_PER_ROUND)? {
            let waits =
                stored.state == State::Signed && payments::live(tx, &stored.payout.payment_subject())?.is_none();
            if let (true, Some(signature)) = (waits, payouts::live(tx, stored.id)?) {
                let order = refunded(tx, &stored)?;
                ready.push((payouts::parts(tx, stored.id)?, order, stored, signature));
            }
        }
        Ok::<_, SolverError>(ready)
    };
    let ready = solver.store.read(read).await?;
    if ready.is_empty() {
        return Ok(());
    }
    // One node that lags must not have an expired signature sent.
    let time = handle.nodes.quorum_header(handle.nodes.len() / 2 + 1, 0).await?.time;
    for (parts, order, stored, signature) in ready {
        if signature.expiration < time.saturating_add(MIN_SECS_LEFT) {
            continue;
        }
        let keys: Vec<B256> = parts.into_iter().map(|(key, _)| key).collect();
        let Some(data) = calldata(&stored, order, &signature, &keys) else { continue };
        if !would_pass(handle, &stored, &data).await? {
            continue;
        }
        let gas = PAYOUT_GAS.saturating_add(GAS_PER_KEY.saturating_mul(keys.len() as u64));
        let (call, context) = (call(handle, data, gas), solver.context());
        let paid = solver.store.write(move |tx| pay(tx, &stored, &signature, &call, &context)).await?;
        if let Some(payment) = paid {
            solver.hand_over(vec![payment]);
            solver.crash("payout.sent");
        }
    }
    Ok(())
}

/// The call, the keys of its deposits, and the key it is known by: a database that was lost is rebuilt from these. The
/// refund of an order ends with the order's id, like every other transaction that ends one.
fn calldata(stored: &PayoutRow, order: Option<OrderId>, signature: &Signature, keys: &[B256]) -> Option<Bytes> {
    let bytes = signature.bytes.clone()?;
    let payout = &stored.payout;
    let amount = payout.amount.units();
    let request = CallRequest::payout(payout.currency, payout.recipient, amount, payout.nonce.0, signature.expiration);
    let mut data = Depository::executeCall { request, signature: bytes.into() }.abi_encode();
    if stored.payout.kind == Kind::Batch {
        data.extend_from_slice(&keys.concat());
    }
    data.extend_from_slice(stored.payout.subject.as_slice());
    data.extend_from_slice(order.as_ref().map_or(&[], |order| order.0.as_slice()));
    Some(data.into())
}

/// The depository's money leaves, and of ours only gas.
fn call(handle: &ChainHandle, data: Bytes, gas: u64) -> PaymentCall {
    PaymentCall {
        target: handle.chain.depository,
        value: Amount::ZERO,
        data,
        gas,
        currency: Address::ZERO,
        amount: Amount::ZERO,
        through_spend_limiter: false,
        relayer: None,
    }
}

/// A payout that would fail now is not worth its gas; its signature may still be good later.
async fn would_pass(handle: &ChainHandle, stored: &PayoutRow, data: &Bytes) -> Result<bool, SolverError> {
    let from = handle.addresses().first().copied().unwrap_or_default();
    let simulated = handle.nodes.simulate(from, handle.chain.depository, U256::ZERO, data.clone(), At::Latest).await;
    match simulated {
        Ok(_) => Ok(true),
        Err(ChainError::Refused { refusal: Refusal::Reverted(data), .. }) => {
            warn!(chain.id = %handle.id(), payout = stored.id.0, %data, "a payout would fail and is not sent");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives the payout to a lane, once. None where no lane can take it now.
fn pay(
    tx: &mut Tx<'_>,
    stored: &PayoutRow,
    signature: &Signature,
    call: &PaymentCall,
    context: &PayContext,
) -> Result<Option<PaymentRow>, SolverError> {
    let chain = stored.payout.chain;
    // The request first, as everywhere.
    let request = concerned(tx, stored)?;
    let signed = payouts::lock(tx, stored.id)?.is_some_and(|stored| stored.state == State::Signed);
    let subject = stored.payout.payment_subject();
    let failed = payments::voids(tx, &subject)? >= MAX_VOIDS;
    // The allocator may have signed again meanwhile.
    let same = payouts::live(tx, stored.id)?.is_some_and(|live| live.ordinal == signature.ordinal);
    if !signed || !same || failed || payments::live(tx, &subject)?.is_some() {
        return Ok(None);
    }
    let Some((handle, Some(snapshot))) = context.on(chain) else { return Ok(None) };
    let (Ok(fees), None) = (first_offer(handle, snapshot), handle.refusing()) else { return Ok(None) };
    let settles = request.as_ref().map_or(OrderId(stored.payout.subject), |request| request.order_id);
    let payment = Unassigned {
        subject: Subject::Payout { nonce: stored.payout.nonce, settles },
        request: request.map(|request| request.id),
        recipient: stored.payout.recipient,
        call: call.clone(),
        fees,
    };
    match lane::choose(tx, handle, snapshot, &payment)? {
        Ok(chosen) => Ok(Some(lane::assign(tx, chosen, handle, payment, context)?)),
        Err(reason) => {
            debug!(chain.id = %chain, payout = stored.id.0, "no lane can send the payout now: {reason}");
            Ok(None)
        }
    }
}

/// Ends the requests of executed payouts, each in one unit with its record.
async fn tell(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<(), SolverError> {
    let chain = handle.id();
    for stored in solver.store.read(move |tx| payouts::untold(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let by = match executor(solver, handle, &stored).await {
            Ok(by) => by,
            // Nodes that disagree about one transaction do not hold up the other requests.
            Err(SolverError::NoQuorum(why)) => {
                debug!(chain.id = %chain, payout = stored.id.0, %why, "the request of a payout is told later");
                continue;
            }
            Err(error) => return Err(error),
        };
        let (handle, context) = (handle.clone(), solver.context());
        let unit = move |tx: &mut Tx<'_>| executed(tx, &handle, &stored, by.as_ref(), &context);
        solver.hand_over(solver.store.write(unit).await?);
    }
    Ok(())
}

/// The transaction that executed a payout: not always ours, since whoever sees a signature may use it.
async fn executor(
    solver: &Arc<Solver>,
    handle: &ChainHandle,
    stored: &PayoutRow,
) -> Result<Option<AgreedTx>, SolverError> {
    let id = stored.id;
    match solver.store.read(move |tx| payouts::tx_of(tx, id)).await? {
        Some(hash) => Ok(handle.nodes.quorum_tx(handle.nodes.len() / 2 + 1, hash).await?),
        None => Ok(None),
    }
}

fn executed(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    stored: &PayoutRow,
    by: Option<&AgreedTx>,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    // The request first, as everywhere.
    let request = concerned(tx, stored)?;
    if !payouts::tell(tx, stored.id)? {
        return Ok(Vec::new());
    }
    // A payment of ours was seen when it was mined.
    let Some(mut request) = request.filter(|request| request.state == RequestState::Refunding) else {
        return Ok(Vec::new());
    };
    if let Some(by) = by {
        records::put(tx, &sent_record(handle, by.head, &by.sent, request.id, true))?;
    }
    let figures =
        json!({ "tx": by.map(|by| by.sent.hash), "amount": stored.payout.amount.to_string(), "payout": stored.id.0 });
    advance(tx, &mut request, Event::RefundMined, &figures, context)
}

/// The order that a payout refunds, if it does.
fn refunded(tx: &mut Tx<'_>, stored: &PayoutRow) -> Result<Option<OrderId>, SolverError> {
    if stored.payout.kind != Kind::Refund {
        return Ok(None);
    }
    let (held, settlement) = (
        depository_ledger::find(tx, stored.payout.subject)?,
        depository_ledger::settlement_of(tx, stored.payout.subject)?,
    );
    let settled = held.zip(settlement).filter(|(held, settlement)| settlement.order.0 != held.deposit.return_key);
    Ok(settled.map(|(_, settlement)| settlement.order))
}

/// The request that a payout ends, locked: that of the order it refunds, or the child that an unmatched deposit became.
fn concerned(tx: &mut Tx<'_>, stored: &PayoutRow) -> Result<Option<Request>, SolverError> {
    if stored.payout.kind != Kind::Refund {
        return Ok(None);
    }
    if let Some(order) = refunded(tx, stored)? {
        return Ok(requests::lock_order(tx, order)?);
    }
    let Some(held) = depository_ledger::find(tx, stored.payout.subject)? else { return Ok(None) };
    let deposit = deposits::find(tx, held.deposit.chain, held.deposit.tx, held.deposit.ordinal)?;
    match deposit {
        Some(deposit) => Ok(requests::lock(tx, children::id(&deposit))?),
        None => Ok(None),
    }
}
