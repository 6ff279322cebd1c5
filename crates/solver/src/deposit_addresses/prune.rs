//! Addresses at which nothing ever arrived. They are forgotten like quotes that nobody paid, once the end of their order
//! has passed on their chain.
//!
//! An address that is forgotten is out of reach for what is sent to it later. So its balances are read once more before
//! that, in every currency that could be swept: a node may have hidden a transfer, or the service may have been down for
//! long.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use domain::time::Timestamp;
use evm::At;
use store::Tx;
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use tracing::debug;

use crate::deposit_addresses::balances::note_balance;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Addresses looked at in one round, each in every currency of the chain.
const ADDRESSES_PER_ROUND: u16 = 50;
/// Time for which an address is kept whose balances cannot be read.
const RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// Forgets some addresses. True if there may be more.
pub(super) async fn round(solver: &Solver, handle: &Arc<ChainHandle>, at: Cursor) -> Result<bool, SolverError> {
    let chain = handle.id();
    let Some(snapshot) = solver.market.latest(chain) else { return Ok(false) };
    // A promise is kept until the chain says that it has ended, however far ahead our own clock is.
    let before = Timestamp::from_secs(i64::try_from(snapshot.time).unwrap_or_default()).min(solver.now());
    let read = move |tx: &mut Tx<'_>| deposit_addresses::forgettable(tx, chain, before, ADDRESSES_PER_ROUND);
    let old = solver.store.read(read).await?;
    if old.is_empty() {
        return Ok(false);
    }
    let held = handle.chain.currencies().filter(|currency| currency.held);
    let currencies: Vec<Address> = held.map(domain::catalog::Currency::evm_address).collect();
    let pairs = old.iter().flat_map(|given| currencies.iter().map(|currency| (given.address, *currency)));
    let asked: Vec<(Address, Address)> = pairs.collect();
    let balances = handle.nodes.seconded_balances(handle.chain.multicall3, &asked, At::Hash(at.hash)).await?;
    let more = old.len() == usize::from(ADDRESSES_PER_ROUND);
    for (given, there) in old.into_iter().zip(balances.chunks(currencies.len().max(1))) {
        let there = currencies.iter().copied().zip(there.iter().copied()).collect();
        settle(solver, handle, at, given, there).await?;
    }
    Ok(more)
}

/// Ends the time of one address, by its balances.
async fn settle(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    given: DepositAddress,
    there: Vec<(Address, Option<U256>)>,
) -> Result<(), SolverError> {
    let (handle, context) = (handle.clone(), solver.context());
    let unit = move |tx: &mut Tx<'_>| {
        if there.iter().all(|(_, balance)| *balance == Some(U256::ZERO)) {
            let forgotten = deposit_addresses::forget(tx, &given)?;
            debug!(address = %given.address, forgotten, "the time of a deposit address is over");
            return Ok(());
        }
        for (currency, balance) in &there {
            if let Some(balance) = balance.filter(|balance| !balance.is_zero()) {
                note_balance(tx, &handle, at, &given, *currency, balance, &context)?;
            }
        }
        deposit_addresses::watch_until(tx, given.address, context.now.plus(RETRY_AFTER))?;
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await
}
