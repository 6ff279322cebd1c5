//! App fees of same-chain transactions. The fees went to the treasury in the user's own transaction; once that is
//! final, the apps are credited with the worth of the fees at that time.
//!
//! A balance is money: it is credited when more than half of the nodes show the transaction, and not at a better rate than we
//! exchange at. Otherwise an app fee would be a way to exchange and to bridge for nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::B256;
use domain::catalog::Currency;
use domain::ledger::{self, Entry};
use domain::money::{Amount, Price, Ratio};
use domain::outcome::Outcome;
use domain::pair::Pair;
use market::Snapshot;
use store::same_chain::SameChainId;
use store::{Tx, blocks, ledger as app_ledger, requests, same_chain};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::context::PayContext;
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::solver::Solver;
use market::hedge;

/// Transactions looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 64;

/// Books the fees of final transactions until told to stop. Those that cannot be booked yet are looked at again.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let pause = (handle.block_time() * 4).clamp(Duration::from_millis(500), Duration::from_secs(30));
    let mut after = SameChainId(0);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        after = match round(&solver, &handle, after).await {
            Ok(after) => after,
            Err(failure) => {
                warn!(chain.id = %handle.id(), error = %Chained(&failure), "same-chain app fees cannot be booked for now");
                after
            }
        };
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
    let standing = handle.health.standing.load(Ordering::Relaxed);
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
    let Some(request) = same_chain::unbooked(tx, id)? else { return Ok(()) };
    let request = requests::find(tx, request)?.ok_or(SolverError::InvariantViolated("a transaction of no request"))?;
    let quote = &request.quote;
    let currency = handle.chain.currency(&quote.ask.origin.address).filter(|it| handle.chain.is_fed(it));
    let Some(currency) = currency else {
        warn!(request.id = %request.id, "apps are not credited their fees: no feed prices the currency any more");
        return Ok(same_chain::book(tx, id, None)?);
    };
    let share = quote.figures.fees.app_total()?;
    // The transaction waits as long as the worth of its fees is unknown.
    let Some((price, rate, decimals)) = rate(handle, currency, share, context)? else { return Ok(()) };
    let outcome = Outcome::same_chain(quote, price, rate, decimals)?;
    let mut entries = match &outcome {
        Some(outcome) => outcome.same_chain_entries(id.0, request.id)?,
        None => Vec::new(),
    };
    // Accounts are locked in the order of their addresses.
    entries.sort_by_key(Entry::wallet);
    for entry in &entries {
        app_ledger::post(tx, entry, context.now)?;
    }
    Ok(same_chain::book(tx, id, outcome.as_ref())?)
}

/// The currency's price, the rate at which it is credited, and the decimals of the credit: as if it were exchanged for
/// USDC where balances are kept.
fn rate(
    handle: &ChainHandle,
    currency: &Currency,
    amount: Amount,
    context: &PayContext,
) -> Result<Option<(Price, Ratio, u8)>, SolverError> {
    let Some((home, there)) = context.balances().and_then(|home| context.on(home.id())) else { return Ok(None) };
    let (here, there) = (context.on(handle.id()).and_then(|(_, snapshot)| fresh(snapshot)), fresh(there));
    let (Some(here), Some(there), Some(usdc)) = (here, there, ledger::currency(&home.chain)) else { return Ok(None) };
    let fed = |snapshot: &Snapshot, of: &Currency| snapshot.fed(of.address.evm()?);
    let (Some(price), Some(usdc_price)) = (fed(here, currency), fed(there, usdc)) else { return Ok(None) };
    let pair = Pair::of(currency, usdc);
    let feeds = pair.rate((currency, price), (usdc, usdc_price))?;
    let pools = hedge((&handle.chain, currency, here), (&home.chain, usdc, there), amount);
    let charged = pair.relay_bps(&context.terms).saturating_add(pair.spread_bps(&context.terms));
    let kept = Ratio::bps(10_000u16.saturating_sub(charged));
    Ok(Some((price, pair.bounded(feeds, pools, &context.terms)?.times(kept)?, usdc.decimals)))
}

fn fresh(snapshot: Option<&Snapshot>) -> Option<&Snapshot> {
    snapshot.filter(|snapshot| snapshot.check_age().is_ok())
}
