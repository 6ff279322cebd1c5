//! What became of payouts. Only a final block says: a used nonce is an executed payout, and a signature whose time has
//! passed there, its nonce unused, can be replaced by another under the same nonce.

use std::sync::Arc;

use alloy::primitives::{B256, U256};
use alloy::sol_types::SolCall;
use evm::contracts::Depository;
use evm::{At, Head};
use metrics::counter;
use store::payments::Purpose;
use store::payouts::{self, Kind, State, Stored};
use store::vault;
use store::{Tx, payments};
use tracing::{error, info, warn};

use super::{Desk, MOST};
use crate::error::SolverError;
use crate::solver::Solver;

/// Transactions of one payout that may fail before a person has to look.
pub const MOST_VOIDS: u64 = 3;

/// Signatures of one payout that may run out unused: its recipient does not take it.
const MOST_SIGNATURES: u32 = 3;

pub async fn conclude(solver: &Arc<Solver>, desk: &Desk, last: Head) -> Result<(), SolverError> {
    let chain = desk.id();
    for stored in solver.store.read(move |tx| payouts::open(tx, chain, MOST)).await? {
        let used = is_used(desk, stored.payout.nonce, last).await?;
        let now = solver.now();
        let unit = move |tx: &mut Tx<'_>| {
            let Some(stored) = payouts::lock(tx, stored.id)? else { return Ok(()) };
            if used {
                return executed(tx, &stored, now);
            }
            let Some(live) = payouts::live(tx, stored.id)? else { return Ok(()) };
            // While its transaction may still be mined it is left alone: it will fail there, and be void by proof.
            let sent = payments::live(tx, Purpose::Payout, stored.payout.nonce)?.is_some();
            if stored.state != State::Signed || last.time <= live.expiration || sent {
                return Ok(());
            }
            payouts::expire(tx, stored.id)?;
            let hopeless = payouts::signatures(tx, stored.id)? >= MOST_SIGNATURES;
            if hopeless || payments::voids(tx, Purpose::Payout, stored.payout.nonce)? >= MOST_VOIDS {
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

fn executed(tx: &mut Tx<'_>, stored: &Stored, now: domain::time::Timestamp) -> Result<(), SolverError> {
    let payout = &stored.payout;
    payouts::expire(tx, stored.id)?;
    payouts::set_state(tx, stored.id, State::Executed, None, now)?;
    if payout.kind == Kind::Refund
        && let Some(held) = vault::lock(tx, payout.subject)?
    {
        vault::set_returned(tx, &held.deposit)?;
    }
    info!(chain.id = %payout.chain, payout = stored.id.0, amount = %payout.amount, "the depository has paid out");
    counter!("causeway_payouts_total", "chain" => payout.chain.to_string()).increment(1);
    Ok(())
}

/// Whether the depository has paid this out, as of a final block.
pub async fn is_used(desk: &Desk, nonce: B256, last: Head) -> Result<bool, SolverError> {
    let call = Depository::usedNoncesCall { nonce: U256::from_be_bytes(nonce.0) }.abi_encode();
    let answer = desk.nodes.witness_call(desk.agreeing, desk.depository(), call.into(), At::Hash(last.hash)).await?;
    Depository::usedNoncesCall::abi_decode_returns(&answer)
        .map_err(|_| SolverError::Broken("the depository does not say which nonces are used"))
}
