//! Native balances of deposit addresses: currency that a contract sends leaves no log and no transaction to the
//! address.
//!
//! A bounded number of addresses is looked at after each block, one after the other and then from the first again. A
//! plain transfer is found in its block and waits for none of this.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use domain::ids::ChainId;
use domain::money::Amount;
use evm::At;
use serde_json::json;
use store::arrivals::{self, Arrival};
use store::blocks::{self, Cursor};
use store::deposit_addresses::{self, DepositAddress};
use store::requests::Request;
use store::{StoreError, Tx, requests, sweeps};

use crate::context::PayContext;
use crate::deposit_addresses::settle;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::lifecycle::{note, remember};
use crate::solver::Solver;

/// Addresses looked at after a block.
const ADDRESSES_PER_BLOCK: u16 = 200;

/// Looks at the next addresses behind `after`. Returns the last of them, or zero to begin anew.
pub(super) async fn look(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    after: Address,
) -> Result<Address, SolverError> {
    let (chain, now) = (handle.id(), solver.now());
    let read = move |tx: &mut Tx<'_>| deposit_addresses::expecting_native(tx, chain, after, now, ADDRESSES_PER_BLOCK);
    let expecting = solver.store.read(read).await?;
    let Some(last) = expecting.last().map(|given| given.address) else { return Ok(Address::ZERO) };
    let asked: Vec<(Address, Address)> = expecting.iter().map(|given| (given.address, Address::ZERO)).collect();
    let balances = handle.nodes.seconded_balances(handle.chain.multicall3, &asked, At::Hash(at.hash)).await?;
    for (given, balance) in expecting.into_iter().zip(balances) {
        match balance {
            Some(balance) if !balance.is_zero() => unexplained(solver, handle, at, given, balance).await?,
            Some(_) | None => {}
        }
    }
    Ok(last)
}

/// Keeps the part of a balance that no known transfer explains.
async fn unexplained(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    at: Cursor,
    given: DepositAddress,
    balance: U256,
) -> Result<(), SolverError> {
    let (handle, context) = (handle.clone(), solver.context());
    let unit = move |tx: &mut Tx<'_>| note_balance(tx, &handle, at, &given, Address::ZERO, balance, &context);
    solver.store.write(unit).await.map(drop)
}

/// The block at which balances of a chain are read: where transfers are searched for, the one up to which they are
/// known, because a later one would be counted twice. None while the chain has no block yet.
pub(super) fn known_block(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Cursor>, StoreError> {
    match deposit_addresses::cursor(tx, chain)? {
        Some(searched) => Ok(Some(searched)),
        None => blocks::cursor(tx, chain),
    }
}

/// Keeps a balance that was found on a chain for which nobody may have been given an address yet.
pub(super) fn note_found(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    at: Cursor,
    given: &DepositAddress,
    currency: Address,
    balance: U256,
    context: &PayContext,
) -> Result<bool, SolverError> {
    if deposit_addresses::cursor(tx, handle.id())?.is_none() {
        deposit_addresses::set_cursor(tx, handle.id(), at)?;
    }
    note_balance(tx, handle, at, given, currency, balance, context)
}

/// The request that an address was given out for, locked. An address that was forgotten is remembered with it: there is
/// money now.
fn request_of(tx: &mut Tx<'_>, given: &DepositAddress, context: &PayContext) -> Result<Option<Request>, SolverError> {
    match requests::lock(tx, given.request)? {
        Some(request) => Ok(Some(request)),
        None => remember(tx, given.address, context.terms.deposit_addresses.watch, context),
    }
}

/// Keeps an arrival for the part of a balance that is not known yet. False if all of it is, or is being swept.
pub(crate) fn note_balance(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    at: Cursor,
    given: &DepositAddress,
    currency: Address,
    balance: U256,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let Some(request) = request_of(tx, given, context)? else { return Ok(false) };
    let chain = handle.id();
    if sweeps::is_live(tx, chain, given.address, currency)? {
        return Ok(false);
    }
    let known = arrivals::waiting_at(tx, chain, given.address, currency)?;
    let known = known.iter().fold(U256::ZERO, |sum, arrival| sum.saturating_add(arrival.amount.units()));
    let amount = Amount::new(balance.saturating_sub(known));
    if amount.is_zero() {
        return Ok(false);
    }
    let arrival = Arrival {
        chain,
        address: given.address,
        currency,
        amount,
        tx: None,
        log_index: arrivals::NATIVE,
        sender: None,
        direct: false,
        block_number: at.number,
        block_hash: at.hash,
        ripe_at: settle::ripe_at(handle, &request.quote, currency, amount, at.number),
        created_at: context.now,
    };
    arrivals::put(tx, &arrival)?;
    let figures = json!({ "amount": amount.to_string(), "block": at.number, "currency": currency });
    note(tx, &request, "balance-seen", &figures, context)?;
    Ok(true)
}
