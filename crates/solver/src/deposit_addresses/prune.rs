//! Addresses at which nothing ever arrived. They are forgotten like quotes that nobody paid, once the end of their
//! order has passed on their chain.
//!
//! Transfers to an address that is forgotten are still found in their blocks, on its own chain; of everything else a
//! reindex alone knows. So its balances are read once more before that, on every chain where the address is the same
//! and in every currency that could be swept: a node may have hidden a transfer, somebody may have paid on another
//! chain, or the service may have been down for long.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use domain::ids::ChainId;
use domain::time::Timestamp;
use evm::At;
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use store::{StoreError, Tx};
use tracing::debug;

use crate::deposit_addresses::balances::{known_block, note_found};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::solver::Solver;

/// Addresses looked at in one round, each in every currency of every chain that has it.
const ADDRESSES_PER_ROUND: u16 = 50;
/// Time for balances on another chain. Sweeps of this one wait for them.
const ELSEWHERE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which an address is kept whose balances cannot be read.
const RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// The balance of an address in one currency of one chain. None where it cannot be read.
#[derive(Clone, Debug)]
struct Balance {
    handle: Arc<ChainHandle>,
    at: Cursor,
    currency: Address,
    units: Option<U256>,
}

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
    let mut there: Vec<Vec<Balance>> = vec![Vec::new(); old.len()];
    read_balances(handle, at, &old, &mut there).await?;
    for (other, at) in elsewhere(solver, handle).await? {
        let read = tokio::time::timeout(ELSEWHERE_TIMEOUT, read_balances(&other, at, &old, &mut there)).await;
        if !matches!(read, Ok(Ok(()))) {
            // They are kept for another day: a chain that is down must not keep this one from its other work.
            debug!(chain.id = %other.id(), "balances of old deposit addresses cannot be read");
            let unread = Balance { handle: other, at, currency: Address::ZERO, units: None };
            there.iter_mut().for_each(|balances| balances.push(unread.clone()));
        }
    }
    let more = old.len() == usize::from(ADDRESSES_PER_ROUND);
    for (given, there) in old.into_iter().zip(there) {
        settle(solver, given, there).await?;
    }
    Ok(more)
}

/// The other chains on which addresses of this one are the same, each at a block whose balances can be read. A chain
/// without any block yet is left out: nothing of it is known.
pub(crate) async fn elsewhere(
    solver: &Solver,
    handle: &ChainHandle,
) -> Result<Vec<(Arc<ChainHandle>, Cursor)>, SolverError> {
    let (own, factory) = (handle.id(), handle.chain.deposit_address_factory);
    let is_same = |other: &&Arc<ChainHandle>| other.id() != own && other.chain.deposit_address_factory == factory;
    let others: Vec<Arc<ChainHandle>> = solver.chains.values().filter(is_same).cloned().collect();
    let ids: Vec<ChainId> = others.iter().map(|other| other.id()).collect();
    let read = move |tx: &mut Tx<'_>| {
        ids.iter().map(|chain| known_block(tx, *chain)).collect::<Result<Vec<Option<Cursor>>, StoreError>>()
    };
    let blocks = solver.store.read(read).await?;
    Ok(others.into_iter().zip(blocks).filter_map(|(other, block)| Some((other, block?))).collect())
}

/// Reads the balances of addresses on a chain, in every currency that could be swept there.
async fn read_balances(
    handle: &Arc<ChainHandle>,
    at: Cursor,
    old: &[DepositAddress],
    there: &mut [Vec<Balance>],
) -> Result<(), SolverError> {
    let held = handle.chain.currencies().filter(|currency| currency.held);
    let currencies: Vec<Address> = held.map(domain::catalog::Currency::evm_address).collect();
    let pairs = old.iter().flat_map(|given| currencies.iter().map(|currency| (given.address, *currency)));
    let asked: Vec<(Address, Address)> = pairs.collect();
    let balances = handle.nodes.seconded_balances(handle.chain.multicall3, &asked, At::Hash(at.hash)).await?;
    for (there, balances) in there.iter_mut().zip(balances.chunks(currencies.len().max(1))) {
        let read = currencies.iter().zip(balances);
        there.extend(read.map(|(&currency, &units)| Balance { handle: handle.clone(), at, currency, units }));
    }
    Ok(())
}

/// Ends the time of one address, by its balances.
async fn settle(solver: &Solver, given: DepositAddress, there: Vec<Balance>) -> Result<(), SolverError> {
    let context = solver.context();
    let unit = move |tx: &mut Tx<'_>| {
        if there.iter().all(|balance| balance.units == Some(U256::ZERO)) {
            let forgotten = deposit_addresses::forget(tx, &given, context.now)?;
            debug!(address = %given.address, forgotten, "the time of a deposit address is over");
            return Ok(());
        }
        for Balance { handle, at, currency, units } in &there {
            if let Some(units) = units.filter(|units| !units.is_zero()) {
                note_found(tx, handle, *at, &given, *currency, units, &context)?;
            }
        }
        deposit_addresses::watch_until(tx, given.address, context.now.plus(RETRY_AFTER))?;
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await
}
