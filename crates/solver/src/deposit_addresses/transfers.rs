//! Transfers to deposit addresses, found block by block behind the walk.
//!
//! A block costs two requests to each node, however many addresses there are: the transfers of listed tokens, and its
//! transactions. Which of them reached an address is looked up in the database, by the addresses in the block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use domain::money::Amount;
use evm::SeenTransfer;
use evm::agreement::{majority, second};
use serde_json::json;
use store::arrivals::{self, Arrival};
use store::blocks::Cursor;
use store::deposit_addresses::{self, DepositAddress};
use store::requests::Request;
use store::{Tx, blocks, requests};

use crate::context::PayContext;
use crate::deposit_addresses::settle;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::lifecycle::{note, remember};
use crate::solver::Solver;

/// Blocks searched in one round.
const BLOCKS_PER_ROUND: u64 = 32;
/// Blocks that are searched again after a reorg, of those that are kept.
const REWOUND_BLOCKS: u64 = 64;
const KEPT_BLOCKS: i64 = 512;
/// Transfers of one currency to one address kept of a block, the largest: more of them are an attack, and the balance
/// is swept whatever is known of it.
const MAX_TRANSFERS_PER_PLACE: usize = 32;
/// Native transfers of a block whose receipts are read, one of every address before the second of any. Balances tell of
/// the rest.
const MAX_RECEIPTS_PER_BLOCK: usize = 512;
const TRANSFERS_PER_COMMIT: usize = 256;

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
    let seen = chosen(seen);
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

/// The transfers of a block that are kept. Every address is bounded by itself: whoever sends dust to one of them a
/// thousand times crowds out nobody else, and not the largest transfer to that one either.
fn chosen(mut seen: Vec<SeenTransfer>) -> Vec<SeenTransfer> {
    let place = |transfer: &SeenTransfer| (transfer.to, transfer.currency);
    seen.sort_by(|one, other| place(one).cmp(&place(other)).then(other.amount.cmp(&one.amount)));
    let mut ranked: Vec<(usize, SeenTransfer)> = Vec::with_capacity(seen.len());
    let (mut last, mut rank) = (None, 0);
    for transfer in seen {
        rank = if last == Some(place(&transfer)) { rank + 1 } else { 0 };
        last = Some(place(&transfer));
        if rank < MAX_TRANSFERS_PER_PLACE {
            ranked.push((rank, transfer));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut receipts = 0;
    let is_kept = |transfer: &SeenTransfer| {
        receipts += usize::from(transfer.log_index.is_none());
        transfer.log_index.is_some() || receipts <= MAX_RECEIPTS_PER_BLOCK
    };
    ranked.into_iter().map(|(_, transfer)| transfer).filter(is_kept).collect()
}

/// Keeps the transfers of a block, and moves the cursor past it in the commit of the last. Keeping one twice is
/// harmless.
async fn keep(
    solver: &Solver,
    handle: &Arc<ChainHandle>,
    block: Cursor,
    found: Vec<(DepositAddress, SeenTransfer)>,
) -> Result<(), SolverError> {
    let mut parts: Vec<Vec<_>> = found.chunks(TRANSFERS_PER_COMMIT).map(<[_]>::to_vec).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let (handle, context) = (handle.clone(), solver.context());
        solver.store.write(move |tx: &mut Tx<'_>| put_all(tx, &handle, block, &part, &context)).await?;
    }
    let (handle, context) = (handle.clone(), solver.context());
    let unit = move |tx: &mut Tx<'_>| {
        put_all(tx, &handle, block, &last, &context)?;
        Ok::<_, SolverError>(deposit_addresses::set_cursor(tx, handle.id(), block)?)
    };
    solver.store.write(unit).await
}

pub(crate) fn put_all(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    block: Cursor,
    found: &[(DepositAddress, SeenTransfer)],
    context: &PayContext,
) -> Result<(), SolverError> {
    for (given, transfer) in found {
        let Some(request) = request_of(tx, given, context)? else { continue };
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
            ripe_at: settle::ripe_at(handle, &request.quote, transfer.currency, amount, block.number),
            created_at: context.now,
        };
        if arrivals::put(tx, &arrival)? {
            let figures = json!({ "tx": transfer.tx, "amount": amount.to_string(), "block": block.number });
            note(tx, &request, "transfer-seen", &figures, context)?;
        }
    }
    Ok(())
}

/// The request that an address was given out for, locked. One that was forgotten is there again, however little has
/// come: the list is asked about whoever sends dust, too, and anybody may sweep a strict address. Its native balance is
/// not looked at before it is swept: a transfer to each of many old addresses must not delay those that are looked at.
fn request_of(tx: &mut Tx<'_>, given: &DepositAddress, context: &PayContext) -> Result<Option<Request>, SolverError> {
    match requests::lock(tx, given.request)? {
        Some(request) => Ok(Some(request)),
        None => remember(tx, given.address, Duration::ZERO, context),
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::*;

    fn transfer(to: u64, units: u64, log_index: Option<u64>) -> SeenTransfer {
        let address = |n: u64| Address::left_padding_from(&n.to_be_bytes());
        SeenTransfer {
            tx: B256::left_padding_from(&units.to_be_bytes()),
            log_index,
            currency: if log_index.is_some() { Address::repeat_byte(0x0c) } else { Address::ZERO },
            from: Address::repeat_byte(0x5e),
            direct: true,
            to: address(to),
            amount: U256::from(units),
        }
    }

    fn to(kept: &[SeenTransfer], who: u64) -> Vec<U256> {
        let who = Address::left_padding_from(&who.to_be_bytes());
        kept.iter().filter(|transfer| transfer.to == who).map(|transfer| transfer.amount).collect()
    }

    #[test]
    fn dust_at_one_address_crowds_out_no_transfer_to_another() {
        let dust = (0..5_000).map(|n| transfer(1, 1 + n % 7, Some(n)));
        let others = (2..2_000).map(|n| transfer(n, 1_000, Some(10_000 + n)));
        let kept = chosen(dust.chain(others).chain([transfer(1, 9_000_000, Some(20_000))]).collect());
        assert_eq!(to(&kept, 1).len(), MAX_TRANSFERS_PER_PLACE);
        assert_eq!(to(&kept, 1)[0], U256::from(9_000_000), "the payment behind the dust");
        assert!((2..2_000).all(|n| to(&kept, n).len() == 1));
    }

    #[test]
    fn native_transfers_have_their_receipts_read_in_turn() {
        let dust = (0..5_000).map(|n| transfer(9_000, 1 + n, None));
        let others = (1..=300).map(|n| transfer(n, 1_000, None));
        let kept = chosen(dust.chain(others).collect());
        assert!((1..=300).all(|n| to(&kept, n).len() == 1) && kept.len() <= MAX_RECEIPTS_PER_BLOCK);
        let many = chosen((1..=2_000).map(|n| transfer(n, 1_000, None)).collect());
        assert_eq!(many.len(), MAX_RECEIPTS_PER_BLOCK, "balances tell of the rest");
    }
}
