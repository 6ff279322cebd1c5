//! Sending what was signed: a payment of a filler lane like every other, so that nonces, bumps, reorgs and crashes are
//! nobody's business here.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::{OrderId, RequestId};
use domain::money::Amount;
use evm::contracts::Depository;
use evm::{At, ChainError, Refusal};
use store::payments::{PaymentRow, Subject};
use store::payouts::{self, Kind, PayoutRow, Signature, State};
use store::requests::Request;
use store::{Tx, depository_ledger, deposits, payments, requests};
use tracing::{debug, warn};

use super::outcome::MAX_VOIDS;
use super::signing::request;
use super::{MAX_ROWS_PER_ROUND, PayoutChain};
use crate::context::PayContext;
use crate::error::SolverError;
use crate::orders::children;
use crate::payments::call::PaymentCall;
use crate::payments::lane::{self, Unassigned, first_offer};
use crate::solver::Solver;

/// Gas of a payout, and what each key in its calldata adds.
const PAYOUT_GAS: u64 = 250_000;
const GAS_PER_KEY: u64 = 1_500;
/// A signature with less time left than this is not sent any more.
const MIN_SECS_LEFT: u64 = 60;

pub async fn send(solver: &Arc<Solver>, payout_chain: &PayoutChain) -> Result<(), SolverError> {
    let chain = payout_chain.id();
    let read = move |tx: &mut Tx<'_>| {
        let mut ready = Vec::new();
        for stored in payouts::open(tx, chain, MAX_ROWS_PER_ROUND)? {
            let waits = stored.state == State::Signed && payments::live(tx, &subject(&stored))?.is_none();
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
    let time = payout_chain.nodes.quorum_header(payout_chain.quorum, 0).await?.time;
    for (parts, order, stored, signature) in ready {
        if signature.expiration < time.saturating_add(MIN_SECS_LEFT) {
            continue;
        }
        let keys: Vec<B256> = parts.into_iter().map(|(key, _)| key).collect();
        let Some(data) = calldata(&stored, order, &signature, &keys) else { continue };
        if !would_pass(payout_chain, &stored, &data).await? {
            continue;
        }
        let gas = PAYOUT_GAS.saturating_add(GAS_PER_KEY.saturating_mul(keys.len() as u64));
        let context = solver.context();
        let paid = solver.store.write(move |tx| pay(tx, &stored, &data, gas, &context)).await?;
        if let Some(payment) = paid {
            solver.hand_over(vec![payment]);
            solver.crash("payout.sent");
            // The lanes may be those of another process.
            solver.store.wake().await?;
        }
    }
    Ok(())
}

/// The call, the keys of its deposits, and what it is known by: a database that was lost is rebuilt from these. What
/// refunds an order ends with its id, like every other transaction that ends one.
fn calldata(stored: &PayoutRow, order: Option<OrderId>, signature: &Signature, keys: &[B256]) -> Option<Bytes> {
    let bytes = signature.bytes.clone()?;
    let request = request(&stored.payout, signature.expiration);
    let mut data = Depository::executeCall { request, signature: bytes.into() }.abi_encode();
    if stored.payout.kind == Kind::Batch {
        data.extend_from_slice(&keys.concat());
    }
    data.extend_from_slice(stored.payout.subject.as_slice());
    data.extend_from_slice(order.as_ref().map_or(&[], |order| order.0.as_slice()));
    Some(data.into())
}

/// A payout that would fail now is not worth its gas; its signature may still be good later.
async fn would_pass(payout_chain: &PayoutChain, stored: &PayoutRow, data: &Bytes) -> Result<bool, SolverError> {
    let from = payout_chain.handle.addresses().first().copied().unwrap_or_default();
    let simulated =
        payout_chain.handle.nodes.simulate(from, payout_chain.depository(), U256::ZERO, data.clone(), At::Latest).await;
    match simulated {
        Ok(_) => Ok(true),
        Err(ChainError::Refused { refusal: Refusal::Reverted(data), .. }) => {
            warn!(chain.id = %payout_chain.id(), payout = stored.id.0, %data, "a payout would fail and is not sent");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives the payout to a lane, once. None where no lane can take it now.
fn pay(
    tx: &mut Tx<'_>,
    stored: &PayoutRow,
    data: &Bytes,
    gas: u64,
    context: &PayContext,
) -> Result<Option<PaymentRow>, SolverError> {
    let chain = stored.payout.chain;
    let signed = payouts::lock(tx, stored.id)?.is_some_and(|stored| stored.state == State::Signed);
    let failed = payments::voids(tx, &subject(stored))? >= MAX_VOIDS;
    if !signed || failed || payments::live(tx, &subject(stored))?.is_some() {
        return Ok(None);
    }
    let Some((handle, Some(snapshot))) = context.on(chain) else { return Ok(None) };
    let Some(fees) = first_offer(handle, snapshot).filter(|_| handle.refusing().is_none()) else { return Ok(None) };
    // The depository's money leaves, and of ours only gas.
    let call = PaymentCall {
        target: handle.chain.depository,
        value: Amount::ZERO,
        data: data.clone(),
        gas,
        currency: Address::ZERO,
        amount: Amount::ZERO,
        through_spend_limiter: false,
    };
    let request = concerned(tx, stored)?;
    let settles = request.as_ref().map_or(OrderId(stored.payout.subject), |request| request.order_id);
    let payment = Unassigned {
        subject: Subject::Payout { nonce: stored.payout.nonce, settles },
        request: request.map_or(RequestId(B256::ZERO), |request| request.id),
        recipient: stored.payout.recipient,
        call,
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

/// A payout's payment is found by its nonce, whatever it settles.
pub fn subject(stored: &PayoutRow) -> Subject {
    Subject::Payout { nonce: stored.payout.nonce, settles: OrderId(stored.payout.subject) }
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

/// The request that a payout ends, held until the unit ends: that of the order it refunds, or the one that a deposit which
/// paid for none has become.
pub fn concerned(tx: &mut Tx<'_>, stored: &PayoutRow) -> Result<Option<Request>, SolverError> {
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
