//! Reasons why transactions failed, for requests and their traces: read off the path from deposit to fill, a few at a
//! time.
//!
//! Nothing waits for a reason. The deposit of a void fill goes back to its user with the reason that is known by then;
//! a reason that becomes known later is written beside it.

use std::sync::Arc;
use std::time::Duration;

use domain::fail::FailReason;
use domain::quote::Quote;
use domain::request::State;
use domain::revert::{Deed, Revert};
use domain::time::Timestamp;
use evm::Replayed;
use evm::blame::Blame;
use store::payments::{PaymentRow, Purpose};
use store::records::{Direction, Failure, Unexplained};
use store::refused_recipients::{self, Recipient};
use store::requests::Request;
use store::{Tx, contracts, events, records, requests};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::chain::blame;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::payments::gas::is_routed;
use crate::solver::Solver;

/// Transactions looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 16;
const ROUND_INTERVAL: Duration = Duration::from_secs(5);

pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    loop {
        if let Err(failure) = round(&solver, &handle).await {
            debug!(chain.id = %handle.id(), error = %Chained(&failure), "revert reasons cannot be read yet");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = handle.health.failed.notified() => {}
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
    }
}

async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<(), SolverError> {
    let chain = handle.id();
    for failed in solver.store.read(move |tx| records::unexplained(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let cause = match cause(solver, handle, &failed).await {
            Ok(cause) => cause,
            Err(SolverError::Chain(error)) => {
                debug!(chain.id = %chain, tx = %failed.record.tx, %error, "a failed transaction cannot be replayed now");
                None
            }
            Err(error) => return Err(error),
        };
        let (of, now, recipient_code) = (handle.clone(), solver.now(), solver.recipient_code.clone());
        let unit = move |tx: &mut Tx<'_>| {
            let Some((revert, blame)) = &cause else { return Ok(records::not_explained(tx, failed.id)?) };
            // The request is locked first, as everywhere: its end may be decided at this moment.
            let request = requests::lock(tx, failed.record.request)?;
            let reason = match (failed.payment, &request) {
                (Some((purpose, _)), Some(request)) => revert.reason(deed(&failed, purpose, &request.quote, &of)),
                // Same-chain transactions fail with one reason, whatever the revert says.
                (None, _) | (_, None) => FailReason::TransactionReverted,
            };
            let failure = Failure { reason, details: revert.to_string(), refused: *blame != Blame::Nobody };
            if records::explain(tx, failed.id, failed.record.block_hash, &failure)?
                && let Some(request) = request
            {
                remember_blamed(tx, &request.quote, *blame, now)?;
                // Native currency went straight to it, as to a wallet.
                if let (Blame::Recipient, Some(target)) = (blame, request.quote.ask.recipient.packed())
                    && failed.record.target == Some(target)
                {
                    contracts::note(tx, of.id(), target, now)?;
                    recipient_code.found_contract(of.id(), target);
                }
                tell(tx, &request, &failed, &failure, now)?;
            }
            Ok::<_, SolverError>(())
        };
        solver.store.write(unit).await?;
    }
    Ok(())
}

/// The way in which a transaction failed, and the party to blame if it was a fill. None if it is not known now.
async fn cause(
    solver: &Solver,
    handle: &ChainHandle,
    failed: &Unexplained,
) -> Result<Option<(Revert, Blame)>, SolverError> {
    let record = &failed.record;
    let replayed = Replayed {
        hash: record.tx,
        from: record.sender,
        to: record.target,
        value: record.value.units(),
        data: record.data.clone(),
        gas: failed.payment.map(|(_, gas)| gas),
    };
    let Some(revert) = handle.nodes.why_failed(&replayed).await? else { return Ok(None) };
    let id = record.request;
    let is_fill = matches!(failed.payment, Some((Purpose::Fill, _)));
    let request = match is_fill {
        true => solver.store.read::<_, SolverError>(move |tx| Ok(requests::find(tx, id)?)).await?,
        false => None,
    };
    let blame = match request {
        Some(request) => blame::of(handle, &replayed, record, &request.quote).await?,
        None => Blame::Nobody,
    };
    Ok(Some((revert, blame)))
}

/// Notes a recipient that is to blame for a failed fill. Calls run before the recipient is paid, and their author could
/// starve it of gas: then it is not noted.
pub(crate) fn remember_blamed(tx: &mut Tx<'_>, quote: &Quote, blame: Blame, now: Timestamp) -> Result<(), SolverError> {
    if blame == Blame::Recipient && quote.ask.options.calls.is_empty() {
        remember(tx, quote, now)?;
    }
    Ok(())
}

/// Notes a recipient that refused what was promised to it.
pub(super) fn remember(tx: &mut Tx<'_>, quote: &Quote, now: Timestamp) -> Result<(), SolverError> {
    let destination = &quote.ask.destination;
    if let (Some(currency), Some(address)) = (destination.address.packed(), quote.ask.recipient.packed()) {
        refused_recipients::note(tx, Recipient { chain: destination.chain, currency, address }, now)?;
    }
    Ok(())
}

/// The action that a failed transaction of ours was to do.
fn deed(failed: &Unexplained, purpose: Purpose, quote: &Quote, handle: &ChainHandle) -> Deed {
    let bare = match failed.record.target.is_some_and(|target| handle.chain.token(target).is_some()) {
        true => Deed::TokenTransfer,
        false => Deed::NativeTransfer,
    };
    match purpose {
        Purpose::Fill if !quote.ask.options.calls.is_empty() => Deed::Calls,
        Purpose::Fill if is_routed(quote) => Deed::Trade,
        Purpose::Relay => Deed::Calls,
        Purpose::Fill
        | Purpose::Refund
        | Purpose::Return
        | Purpose::Excess
        | Purpose::Claim
        | Purpose::Refill
        | Purpose::Payout
        | Purpose::Sweep => bare,
    }
}

/// Adds a reason to the request's trace and, if the request has ended without it, to its fail reason.
fn tell(
    tx: &mut Tx<'_>,
    request: &Request,
    failed: &Unexplained,
    failure: &Failure,
    now: Timestamp,
) -> Result<(), SolverError> {
    let (reason, details) = (failure.reason, &failure.details);
    info!(request.id = %request.id, chain.id = %failed.record.chain, tx = %failed.record.tx, %reason, "a transaction failed: {details}");
    let (chain, hash) = (failed.record.chain.0, failed.record.tx);
    let figures = serde_json::json!({ "chain": chain, "tx": hash, "reason": reason.as_str(), "details": details });
    events::append(tx, request.id, request.state, "failure-explained", &figures, now)?;
    let over = matches!(request.state, State::Refunding | State::Refunded | State::Failed);
    let tellable = match failed.payment {
        Some((Purpose::Fill | Purpose::Relay, _)) | None => {
            over && request.fail_reason == Some(FailReason::TransactionReverted)
        }
        Some((
            Purpose::Refund
            | Purpose::Return
            | Purpose::Excess
            | Purpose::Claim
            | Purpose::Refill
            | Purpose::Payout
            | Purpose::Sweep,
            _,
        )) => false,
    };
    if tellable {
        requests::set_details(tx, request.id, details)?;
        requests::set_reason(tx, request.id, reason, now)?;
    }
    Ok(())
}

/// The reason why a void fill failed, as far as it is known; the request gets its details at once.
pub fn reason(tx: &mut Tx<'_>, stored: &PaymentRow, request: Option<&Request>) -> Result<FailReason, SolverError> {
    let payment = &stored.payment;
    let last = payment.request.map(|id| records::last_failure(tx, id, payment.chain, Direction::Out));
    let Some(failure) = last.transpose()?.flatten() else { return Ok(FailReason::TransactionReverted) };
    if let Some(request) = request.filter(|request| !request.state.is_terminal()) {
        requests::set_details(tx, request.id, &failure.details)?;
    }
    Ok(failure.reason)
}
