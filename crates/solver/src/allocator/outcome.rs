//! What became of payouts. Only a final block says: a used nonce is an executed payout, and a signature whose time has
//! passed there, its nonce unused, can be replaced by another under the same nonce.

use std::sync::Arc;

use alloy::primitives::{B256, U256};
use alloy::sol_types::SolCall;
use domain::request::{Event, State as RequestState};
use evm::contracts::Depository;
use evm::{AgreedTx, At, Head};
use metrics::counter;
use serde_json::json;
use store::payouts::{self, Kind, PayoutRow, State};
use store::{Tx, depository_ledger, payments, records};
use tracing::{error, info, warn};

use super::sending::{concerned, subject};
use super::{MAX_ROWS_PER_ROUND, PayoutChain};
use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::orders::advance::advance;
use crate::payments::mined::sent_record;
use crate::solver::Solver;

/// Transactions of one payout that may fail before a person has to look.
pub const MAX_VOIDS: u64 = 3;

/// Signatures of one payout that may run out unused: its recipient does not take it.
const MAX_SIGNATURES: u32 = 3;

pub async fn conclude(solver: &Arc<Solver>, payout_chain: &PayoutChain, last: Head) -> Result<(), SolverError> {
    let chain = payout_chain.id();
    for stored in solver.store.read(move |tx| payouts::open(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let used = is_used(payout_chain, stored.payout.nonce, last).await?;
        let by = if used { executor(solver, payout_chain, &stored).await? } else { None };
        let (handle, context) = (payout_chain.handle.clone(), solver.context());
        let now = context.now;
        let unit = move |tx: &mut Tx<'_>| {
            let Some(stored) = payouts::lock(tx, stored.id)? else { return Ok(()) };
            if used {
                return executed(tx, &handle, &stored, by.as_ref(), &context);
            }
            let Some(live) = payouts::live(tx, stored.id)? else { return Ok(()) };
            // While its transaction may still be mined it is left alone: it will fail there, and be void by proof.
            let sent = payments::live(tx, &subject(&stored))?.is_some();
            if stored.state != State::Signed || last.time <= live.expiration || sent {
                return Ok(());
            }
            payouts::expire(tx, stored.id)?;
            let hopeless = payouts::signatures(tx, stored.id)? >= MAX_SIGNATURES;
            if hopeless || payments::voids(tx, &subject(&stored))? >= MAX_VOIDS {
                error!(chain.id = %chain, payout = stored.id.0, "a payout failed again and again and waits for a person");
                return Ok(payouts::set_state(tx, stored.id, State::Parked, Some("it fails on the chain"), now)?);
            }
            warn!(chain.id = %chain, payout = stored.id.0, "a signature was not used in time; the payout is signed again");
            Ok::<_, SolverError>(payouts::set_state(
                tx,
                stored.id,
                State::Intended,
                Some("its signature expired"),
                now,
            )?)
        };
        solver.store.write(unit).await?;
    }
    Ok(())
}

/// The transaction that executed a payout which ends a request: not always ours, since whoever sees a signature may use
/// it.
async fn executor(
    solver: &Arc<Solver>,
    payout_chain: &PayoutChain,
    stored: &PayoutRow,
) -> Result<Option<AgreedTx>, SolverError> {
    let id = stored.id;
    match solver.store.read(move |tx| payouts::tx_of(tx, id)).await? {
        Some(hash) if stored.payout.kind == Kind::Refund => {
            Ok(payout_chain.nodes.quorum_tx(payout_chain.quorum, hash).await?)
        }
        _ => Ok(None),
    }
}

fn executed(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    stored: &PayoutRow,
    by: Option<&AgreedTx>,
    context: &PayContext,
) -> Result<(), SolverError> {
    let payout = &stored.payout;
    // The request first, as everywhere.
    let request = concerned(tx, stored)?;
    payouts::expire(tx, stored.id)?;
    payouts::set_state(tx, stored.id, State::Executed, None, context.now)?;
    if payout.kind == Kind::Refund
        && let Some(held) = depository_ledger::lock(tx, payout.subject)?
    {
        depository_ledger::set_returned(tx, &held.deposit)?;
    }
    info!(chain.id = %payout.chain, payout = stored.id.0, amount = %payout.amount, "the depository has paid out");
    counter!("causeway_payouts_total", "chain" => payout.chain.to_string()).increment(1);
    // Ours was seen when it was mined.
    let Some(mut request) = request.filter(|request| request.state == RequestState::Refunding) else { return Ok(()) };
    if let Some(by) = by {
        records::put(tx, &sent_record(handle, by.head, &by.sent, request.id, true))?;
    }
    let figures =
        json!({ "tx": by.map(|by| by.sent.hash), "amount": payout.amount.to_string(), "payout": stored.id.0 });
    advance(tx, &mut request, Event::RefundMined, &figures, context)?;
    Ok(())
}

/// Whether the depository has paid this out, as of a final block.
pub async fn is_used(payout_chain: &PayoutChain, nonce: B256, last: Head) -> Result<bool, SolverError> {
    let call = Depository::usedNoncesCall { nonce: U256::from_be_bytes(nonce.0) }.abi_encode();
    let answer = payout_chain
        .nodes
        .quorum_call(payout_chain.quorum, payout_chain.depository(), call.into(), At::Hash(last.hash))
        .await?;
    Depository::usedNoncesCall::abi_decode_returns(&answer)
        .map_err(|_| SolverError::InvariantViolated("the depository does not say which nonces are used"))
}
