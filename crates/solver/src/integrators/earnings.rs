//! App fees of same-chain transactions. The fees went to the treasury in the user's own transaction; once that is
//! final, the apps are credited with the worth of the fees at that time. App fees of fills whose worth was not known
//! when the fill was decided are credited here as well.
//!
//! A balance is money: it is credited when more than half of the nodes show the transaction, and not at a better rate
//! than we exchange at. Otherwise an app fee would be a way to exchange and to bridge for nothing.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use domain::ledger::{self, Entry};
use domain::outcome::Outcome;
use domain::same_chain_tx::{Event, step};
use store::outcomes::Booked;
use store::payments::PaymentId;
use store::same_chain::SameChainId;
use store::{Tx, blocks, ledger as app_ledger, outcomes, requests, same_chain};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::holds::sponsorship;
use crate::solver::Solver;

/// Transactions looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 64;

/// Books the fees of final transactions until told to stop. Those that cannot be booked yet are looked at again.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let pause = (handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    // Fills are looked at in one loop, where balances live.
    let home = ledger::currency(&handle.chain).is_some();
    let (mut after, mut after_fill) = (SameChainId(0), PaymentId(0));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        match round(&solver, &handle, after).await {
            Ok(last) => after = last,
            Err(failure) => {
                warn!(chain.id = %handle.id(), error = %Chained(&failure), "same-chain app fees cannot be booked for now");
            }
        }
        if !home {
            continue;
        }
        match catch_up(&solver, after_fill).await {
            Ok(last) => after_fill = last,
            Err(failure) => {
                warn!(error = %Chained(&failure), "late app fees of fills cannot be booked for now");
            }
        }
    }
}

/// Looks at the transactions after one, and returns the one to continue after: the first again after the last, because
/// some have to wait.
async fn round(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    after: SameChainId,
) -> Result<SameChainId, SolverError> {
    let (chain, finality) = (handle.id(), handle.settings.finality);
    // The cursor may stand on a block that only one node has.
    let standing = handle.health.standing();
    let ripe = move |tx: &mut Tx<'_>| {
        let last = blocks::cursor(tx, chain)?.and_then(|cursor| cursor.number.min(standing).checked_sub(finality));
        last.map_or(Ok(Vec::new()), |last| same_chain::ripe(tx, chain, last, after, MAX_ROWS_PER_ROUND))
    };
    let ripe = solver.store.read(ripe).await?;
    for &(id, hash) in &ripe {
        match settle(solver, handle, id, hash).await {
            Ok(()) => {}
            Err(failure @ SolverError::Store(_)) => return Err(failure),
            // One transaction does not hold up the others.
            Err(failure) => {
                warn!(chain.id = %handle.id(), tx = %hash, error = %Chained(&failure), "same-chain app fees have to wait");
            }
        }
    }
    Ok(ripe.last().map_or(SameChainId(0), |(id, _)| *id))
}

async fn settle(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    id: SameChainId,
    hash: B256,
) -> Result<(), SolverError> {
    let seen = handle.nodes.majority_tx(hash).await?;
    if !seen.is_some_and(|seen| seen.sent.success) {
        return Ok(());
    }
    let (handle, context) = (handle.clone(), solver.context());
    solver.store.write(move |tx| credit(tx, &handle, id, &context)).await
}

fn credit(tx: &mut Tx<'_>, handle: &ChainHandle, id: SameChainId, context: &PayContext) -> Result<(), SolverError> {
    let Some((request, state)) = same_chain::lock(tx, id)? else { return Ok(()) };
    if step(state, Event::Booked).is_err() {
        // A reorg took it away since it was found, or it was booked.
        return Ok(());
    }
    let request = requests::find(tx, request)?.ok_or(SolverError::InvariantViolated("a transaction of no request"))?;
    let quote = &request.quote;
    let currency = handle.chain.currency(&quote.ask.origin.address).filter(|it| handle.chain.is_fed(it));
    let Some(currency) = currency else {
        warn!(request.id = %request.id, "apps are not credited their fees: no feed prices the currency any more");
        return Ok(same_chain::book(tx, id, None)?);
    };
    let share = quote.figures.fees.app_total()?;
    // The transaction waits as long as the worth of its fees is unknown.
    let Some(rate) = context.credit_rate(handle.id(), currency.evm_address(), share)? else { return Ok(()) };
    let outcome = Outcome::same_chain(quote, rate)?;
    let entries = outcome.as_ref().map_or(Ok(Vec::new()), |outcome| outcome.same_chain_entries(id.0, request.id))?;
    post(tx, entries, context)?;
    Ok(same_chain::book(tx, id, outcome.as_ref())?)
}

fn post(tx: &mut Tx<'_>, mut entries: Vec<Entry>, context: &PayContext) -> Result<(), SolverError> {
    // Accounts are locked in the order of their addresses.
    entries.sort_by_key(Entry::wallet);
    for entry in &entries {
        app_ledger::post(tx, entry, context.now)?;
    }
    Ok(())
}

/// Credits app fees of final fills after one, whose worth was not known when the fill was decided, and returns the one
/// to continue after.
async fn catch_up(solver: &Arc<Solver>, after: PaymentId) -> Result<PaymentId, SolverError> {
    let late = solver.store.read(move |tx| outcomes::unpriced_after(tx, after, MAX_ROWS_PER_ROUND)).await?;
    let last = late.last().map_or(PaymentId(0), |booked| booked.payment);
    for booked in late {
        let (context, request) = (solver.context(), booked.request);
        match solver.store.write(move |tx| credit_late(tx, &booked, &context)).await {
            Ok(()) => {}
            Err(failure @ SolverError::Store(_)) => return Err(failure),
            // One fill does not hold up the others.
            Err(failure) => warn!(request.id = %request, error = %Chained(&failure), "late app fees have to wait"),
        }
    }
    Ok(last)
}

/// Credits the app fees of a final fill that were unpriced so far, if their worth is known now.
pub(crate) fn credit_late(tx: &mut Tx<'_>, booked: &Booked, context: &PayContext) -> Result<(), SolverError> {
    let request = requests::find(tx, booked.request)?.ok_or(SolverError::InvariantViolated("a fill of no request"))?;
    let terms = request.quote.terms.as_ref();
    let fed = terms.map(|terms| &terms.deposit).and_then(|key| {
        let chain = &context.on(key.chain)?.0.chain;
        let currency = chain.currency(&key.address).filter(|it| chain.is_fed(it))?;
        Some((key.chain, currency.evm_address()))
    });
    let rate = match fed {
        None => {
            warn!(request.id = %request.id, "apps are not credited their fees: no feed prices the currency any more");
            None
        }
        Some((chain, currency)) => {
            let share = request.quote.figures.fees.app_total()?;
            let Some(rate) = context.credit_rate(chain, currency, share)? else { return Ok(()) };
            Some(rate)
        }
    };
    let outcome = booked.outcome.clone().priced(rate)?;
    if !outcomes::set_priced(tx, booked.payment, &outcome)? {
        return Ok(());
    }
    let known = booked.outcome.app_entries(booked.payment.0, booked.request)?;
    let mut entries = outcome.app_entries(booked.payment.0, booked.request)?;
    entries.retain(|entry| !known.contains(entry));
    post(tx, entries.clone(), context)?;
    sponsorship::hold_fees(tx, &outcome, &entries, context)
}
