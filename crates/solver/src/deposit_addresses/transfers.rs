//! Transfers to deposit addresses, found block by block behind the walk.
//!
//! A block costs two requests to each node, however many addresses there are: the transfers of listed tokens, and its
//! transactions. Which of them reached an address is looked up in the database, by the addresses in the block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use domain::money::Amount;
use evm::SeenTransfer;
use evm::agreement::{majority, second};
use serde_json::json;
use store::arrivals::{self, Arrival};
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use store::{Tx, blocks, requests};

use crate::deposit_addresses::settle;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::lifecycle::note;
use crate::solver::Solver;

/// Blocks searched in one round.
const BLOCKS_PER_ROUND: u64 = 32;
/// Blocks that are searched again after a reorg, of those that are kept.
const REWOUND_BLOCKS: u64 = 64;
const KEPT_BLOCKS: i64 = 512;
/// Transfers to deposit addresses kept of one block: more of them are an attack. Balances tell of the rest.
const MAX_TRANSFERS_PER_BLOCK: usize = 512;

/// Searches the blocks between the cursor and the walk. Returns the cursor; none where no address was given out.
pub(super) async fn search(solver: &Arc<Solver>, handle: &Arc<ChainHandle>) -> Result<Option<Cursor>, SolverError> {
    let chain = handle.id();
    let Some(mut at) = solver.store.read(move |tx| deposit_addresses::cursor(tx, chain)).await? else {
        return Ok(None);
    };
    let last = (*handle.health.taken.borrow()).min(at.number.saturating_add(BLOCKS_PER_ROUND));
    if !is_ours(solver, handle, at).await? {
        at = on_our_chain(solver, handle, at).await?;
    }
    while at.number < last {
        let number = at.number.saturating_add(1);
        let Some(hash) = hash_of(solver, handle, number).await? else { break };
        let seen = handle.nodes.seconded_transfers(hash, &handle.watch).await?;
        let found = found(solver, handle, hash, seen).await?;
        let next = Cursor { number, hash };
        keep(solver, handle, next, found).await?;
        at = next;
    }
    Ok(Some(at))
}

/// The hash of a block of ours, or of most nodes where it is no longer kept.
async fn hash_of(solver: &Solver, handle: &ChainHandle, number: u64) -> Result<Option<B256>, SolverError> {
    let chain = handle.id();
    let kept = solver
        .store
        .read(move |tx| Ok::<_, SolverError>((blocks::hash_of(tx, chain, number)?, blocks::cursor(tx, chain)?)));
    match kept.await? {
        (Some(hash), _) => Ok(Some(hash)),
        (None, Some(walk)) if number <= walk.number => {
            Ok(Some(handle.nodes.quorum_number(majority(handle.nodes.len()), number).await?.hash))
        }
        (None, _) => Ok(None),
    }
}

async fn is_ours(solver: &Solver, handle: &ChainHandle, at: Cursor) -> Result<bool, SolverError> {
    let chain = handle.id();
    let read = move |tx: &mut Tx<'_>| {
        let walked = blocks::cursor(tx, chain)?.is_some_and(|walk| at.number <= walk.number);
        Ok::<_, SolverError>(walked && blocks::hash_of(tx, chain, at.number)?.is_none_or(|hash| hash == at.hash))
    };
    solver.store.read(read).await
}

/// The cursor, moved well back if a reorg took its block away. Reading blocks again is harmless.
async fn on_our_chain(solver: &Solver, handle: &ChainHandle, at: Cursor) -> Result<Cursor, SolverError> {
    let chain = handle.id();
    let unit = move |tx: &mut Tx<'_>| {
        let Some(walk) = blocks::cursor(tx, chain)? else { return Ok(at) };
        let ours = blocks::hash_of(tx, chain, at.number)?;
        if at.number <= walk.number && ours.is_none_or(|hash| hash == at.hash) {
            return Ok(at);
        }
        let highest = at.number.min(walk.number).saturating_sub(REWOUND_BLOCKS);
        let kept = blocks::recent(tx, chain, KEPT_BLOCKS)?;
        let to = kept.iter().filter(|kept| kept.number <= highest).max_by_key(|kept| kept.number);
        let Some(&to) = to.or_else(|| kept.iter().min_by_key(|kept| kept.number)) else { return Ok(at) };
        arrivals::forget_above(tx, chain, to.number)?;
        deposit_addresses::set_cursor(tx, chain, to)?;
        Ok::<_, SolverError>(to)
    };
    solver.store.write(unit).await
}

/// The transfers that reached a deposit address. What a transaction asked for in native currency counts if its receipt
/// says that it succeeded.
async fn found(
    solver: &Solver,
    handle: &ChainHandle,
    block: B256,
    mut seen: Vec<SeenTransfer>,
) -> Result<Vec<(DepositAddress, SeenTransfer)>, SolverError> {
    let to: BTreeSet<Address> = seen.iter().map(|transfer| transfer.to).collect();
    let (chain, to) = (handle.id(), to.into_iter().collect::<Vec<_>>());
    let given = solver.store.read(move |tx| deposit_addresses::among(tx, chain, &to)).await?;
    let given: BTreeMap<Address, DepositAddress> = given.into_iter().map(|it| (it.address, it)).collect();
    // A token that the solver does not hold could neither be filled nor sent back.
    let is_held = |currency| handle.chain.token(currency).is_some_and(|currency| currency.held);
    seen.retain(|transfer| given.contains_key(&transfer.to) && is_held(transfer.currency));
    seen.truncate(MAX_TRANSFERS_PER_BLOCK);
    let mut found = Vec::with_capacity(seen.len());
    for transfer in seen {
        let Some(given) = given.get(&transfer.to) else { continue };
        if transfer.log_index.is_none() {
            let tx = handle.nodes.quorum_tx(second(handle.nodes.len()), transfer.tx).await?;
            if !tx.is_some_and(|tx| tx.sent.success && tx.head.hash == block) {
                continue;
            }
        }
        found.push((given.clone(), transfer));
    }
    Ok(found)
}

/// Keeps the transfers of a block, and moves the cursor past it in the same commit.
async fn keep(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    block: Cursor,
    found: Vec<(DepositAddress, SeenTransfer)>,
) -> Result<(), SolverError> {
    let (handle, context) = (handle.clone(), solver.context());
    let unit = move |tx: &mut Tx<'_>| {
        for (given, transfer) in &found {
            let Some(request) = requests::lock(tx, given.request)? else { continue };
            let amount = Amount::new(transfer.amount);
            let arrival = Arrival {
                chain: handle.id(),
                address: given.address,
                currency: transfer.currency,
                amount,
                tx: Some(transfer.tx),
                log_index: transfer.log_index.map_or(Ok(arrivals::NATIVE), i64::try_from).unwrap_or(i64::MAX),
                sender: Some(transfer.from),
                direct: transfer.direct,
                block_number: block.number,
                block_hash: block.hash,
                ripe_at: settle::ripe_at(&handle, &request.quote, transfer.currency, amount, block.number),
                created_at: context.now,
            };
            if arrivals::put(tx, &arrival)? {
                let figures = json!({ "tx": transfer.tx, "amount": amount.to_string(), "block": block.number });
                note(tx, &request, "transfer-seen", &figures, &context)?;
            }
        }
        Ok::<_, SolverError>(deposit_addresses::set_cursor(tx, handle.id(), block)?)
    };
    solver.store.write(unit).await
}
