//! The depository ledger: every final deposit, and every payment that left the depository, as enough nodes tell it.

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::ids::{ChainId, OrderId, PayoutNonce};
use domain::money::Amount;
use domain::time::Timestamp;
use evm::contracts::{Depository, Erc20};
use evm::{Execution, Head};
use store::blocks::Cursor;
use store::depository_ledger;
use store::payouts::{self, Kind, Payout, State};
use store::{Tx, settlements};
use tracing::error;

use crate::allocator::Allocator;
use crate::chain::PayoutChain;
use crate::error::AllocatorError;
use crate::{deposits, identity};

/// Blocks booked in one unit.
const MAX_RANGE_BLOCKS: u64 = 1_000;
/// Ranges booked in one round: a ledger that begins far back is caught up over several.
const MAX_RANGES_PER_ROUND: usize = 50;

/// Brings the ledger up to the last final block, and says which that is. None while it is still catching up.
pub(crate) async fn read(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<Option<Head>, AllocatorError> {
    let (chain, last) = (payout_chain.id(), payout_chain.last_final().await?);
    let cursor = allocator.store.read(move |tx| depository_ledger::cursor(tx, chain)).await?;
    let mut next = match cursor {
        Some(cursor) => {
            let there = payout_chain.nodes.quorum_number(payout_chain.quorum, cursor.number).await?;
            if there.hash != cursor.hash {
                return Err(AllocatorError::DeepFork { chain, finality: payout_chain.finality });
            }
            cursor.number + 1
        }
        None => begin(allocator, payout_chain, last).await?,
    };
    for _ in 0..MAX_RANGES_PER_ROUND {
        if next > last.number {
            // Nodes that fell behind: the ledger is ahead of what they call final, which is no basis for signing.
            return Ok((next == last.number + 1).then_some(last));
        }
        let end = last.number.min(next.saturating_add(MAX_RANGE_BLOCKS - 1));
        read_range(allocator, payout_chain, (next, end)).await?;
        next = end + 1;
    }
    Ok((next == last.number + 1).then_some(last))
}

/// Where an empty ledger begins: below the first deposit anyone knows of.
async fn begin(allocator: &Allocator, payout_chain: &PayoutChain, last: Head) -> Result<u64, AllocatorError> {
    let chain = payout_chain.id();
    let known = allocator.store.read(move |tx| depository_ledger::first_deposit(tx, chain)).await?;
    let configured = payout_chain.start_block.map(|block| block + 1);
    Ok([known, configured].into_iter().flatten().min().unwrap_or(last.number).min(last.number))
}

async fn read_range(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    (first, end): (u64, u64),
) -> Result<(), AllocatorError> {
    let (need, chain, watch) = (payout_chain.quorum, payout_chain.id(), payout_chain.watch());
    let head = payout_chain.nodes.quorum_number(need, end).await?;
    for (number, hash) in payout_chain.nodes.quorum_deposits(need, (first, end), &watch).await? {
        let block = payout_chain.nodes.quorum_block(need, hash, &watch).await?;
        if block.head.number != number {
            return Err(AllocatorError::InvariantViolated("a block has another number than its logs say"));
        }
        let deposits = deposits::of_block(payout_chain, &block);
        // Booking a deposit twice changes nothing, so that a round may end anywhere.
        let unit = move |tx: &mut Tx<'_>| {
            for deposit in &deposits {
                depository_ledger::insert(tx, deposit)?;
            }
            Ok::<_, AllocatorError>(())
        };
        allocator.store.write(unit).await?;
    }
    let mut executed = Vec::new();
    for execution in payout_chain.nodes.quorum_executions(need, (first, end), &watch).await? {
        let hash = execution.request;
        let known = allocator.store.read(move |tx| payouts::of_request(tx, hash)).await?.is_some();
        let tail = if known { None } else { named(payout_chain, &execution).await? };
        executed.push((execution, tail));
    }
    let (now, treasury) = (allocator.now(), allocator.treasury);
    let cursor = Cursor { number: head.number, hash: head.hash };
    let unit = move |tx: &mut Tx<'_>| {
        // Payments are added up with the cursor, so that each is added once.
        if depository_ledger::cursor(tx, chain)?.is_some_and(|cursor| cursor.number + 1 != first) {
            return Err(AllocatorError::InvariantViolated("two allocators write one ledger"));
        }
        for (execution, tail) in &executed {
            take_out(tx, chain, execution, tail.as_ref(), treasury, now)?;
        }
        Ok(depository_ledger::set_cursor(tx, chain, cursor)?)
    };
    allocator.store.write(unit).await
}

/// A payout's purpose by its transaction: the request, and the deposits whose keys follow it.
struct Named {
    nonce: PayoutNonce,
    keys: Vec<B256>,
}

/// The keys behind an `execute` are not signed; the nonce is, and it is their hash.
async fn named(payout_chain: &PayoutChain, execution: &Execution) -> Result<Option<Named>, AllocatorError> {
    let Some(seen) = payout_chain.nodes.quorum_tx(payout_chain.quorum, execution.tx).await? else { return Ok(None) };
    let input = seen.sent.input;
    let Ok(call) = Depository::executeCall::abi_decode(&input) else { return Ok(None) };
    if call.request.struct_hash() != execution.request {
        return Ok(None);
    }
    let tail = input.get(4 + call.abi_encoded_size()..).unwrap_or_default();
    if tail.len() % 32 != 0 {
        return Ok(None);
    }
    let keys = tail.chunks(32).map(B256::from_slice).collect();
    Ok(Some(Named { nonce: PayoutNonce(call.request.nonce.into()), keys }))
}

/// Money left the depository. If the ledger does not know why, it is told by the chain, or everything stops.
fn take_out(
    tx: &mut Tx<'_>,
    chain: ChainId,
    execution: &Execution,
    named: Option<&Named>,
    treasury: Address,
    now: Timestamp,
) -> Result<(), AllocatorError> {
    let paid = Paid::of(execution);
    if let Some(paid) = paid {
        let total = depository_ledger::total(tx, chain, paid.currency)?;
        let executed = total.executed.checked_add(paid.amount)?;
        depository_ledger::set_total(tx, chain, paid.currency, depository_ledger::Total { executed, ..total })?;
    }
    if let Some(id) = payouts::of_request(tx, execution.request)? {
        return Ok(payouts::set_tx(tx, id, execution.tx)?);
    }
    if let (Some(paid), Some(named)) = (paid, named)
        && adopt(tx, chain, paid, named, execution.tx, treasury, now)?
    {
        return Ok(());
    }
    error!(chain.id = %chain, tx = %execution.tx, "the depository paid out what this database has not signed for: nothing more is signed on chain {chain} until a person has looked");
    payouts::unrecognized(tx, chain, execution.request, execution.tx, execution.block)?;
    Ok(())
}

/// A payout that a lost database made: the chain says which deposits it was for, and they are booked as paid.
fn adopt(
    tx: &mut Tx<'_>,
    chain: ChainId,
    paid: Paid,
    named: &Named,
    executed_by: B256,
    treasury: Address,
    now: Timestamp,
) -> Result<bool, AllocatorError> {
    let is_nonce = |kind, subject| identity::nonce(kind, subject) == named.nonce;
    // A deposit's key, and behind it the order that was refunded, if it was one.
    let (kind, subject, keys, order) = match &named.keys[..] {
        [key] if is_nonce(Kind::Refund, *key) => (Kind::Refund, *key, &named.keys[..0], None),
        [key, order] if is_nonce(Kind::Refund, *key) => (Kind::Refund, *key, &named.keys[..0], Some(OrderId(*order))),
        [keys @ .., batch] if is_nonce(Kind::Batch, *batch) => (Kind::Batch, *batch, keys, None),
        _ => return Ok(false),
    };
    if kind == Kind::Batch && (identity::batch_key(keys) != subject || paid.to != treasury) {
        return Ok(false);
    }
    // One that was reserved here and executed elsewhere keeps its row.
    if payouts::is_reserved(tx, chain, named.nonce, paid.currency, paid.to, paid.amount)? {
        return Ok(true);
    }
    let keys = if keys.is_empty() { std::slice::from_ref(&subject) } else { keys };
    let (mut parts, mut sum) = (Vec::new(), Amount::ZERO);
    let mut held = Vec::new();
    for key in keys {
        let Some(deposit) = depository_ledger::lock(tx, *key)? else { return Ok(false) };
        let same = deposit.deposit.chain == chain && deposit.deposit.currency == paid.currency;
        let part = if kind == Kind::Batch { deposit.left() } else { paid.amount };
        if !same || part > deposit.left() {
            return Ok(false);
        }
        sum = sum.checked_add(part)?;
        parts.push((*key, part));
        held.push((deposit, part));
    }
    if sum != paid.amount {
        return Ok(false);
    }
    let payout = Payout {
        nonce: named.nonce,
        kind,
        subject,
        chain,
        currency: paid.currency,
        recipient: paid.to,
        amount: paid.amount,
    };
    let Some(id) = payouts::insert(tx, &payout, &parts, State::Executed, now)? else { return Ok(true) };
    payouts::set_tx(tx, id, executed_by)?;
    for (deposit, part) in held {
        match kind {
            Kind::Batch => depository_ledger::promise(tx, &deposit, part, Amount::ZERO)?,
            Kind::Refund | Kind::Excess => {
                depository_ledger::promise(tx, &deposit, Amount::ZERO, part)?;
                let order = order.filter(|order| deposit.deposit.order == Some(*order));
                let settlement = match order {
                    Some(order) => identity::refunded(&deposit.deposit, order),
                    None => identity::returned(&deposit.deposit),
                };
                depository_ledger::settle(tx, &settlement, now)?;
                settlements::impose_by_payout(tx, settlement.order, id)?;
                depository_ledger::set_returned(tx, &deposit.deposit)?;
            }
        }
        depository_ledger::set_settled(tx, deposit.deposit.key)?;
    }
    Ok(true)
}

/// One of the two call shapes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paid {
    currency: Address,
    to: Address,
    amount: Amount,
}

impl Paid {
    fn of(execution: &Execution) -> Option<Self> {
        let call = &execution.call;
        if call.data.is_empty() {
            return Some(Self { currency: Address::ZERO, to: call.to, amount: Amount::new(call.value) });
        }
        let transfer = Erc20::transferCall::abi_decode(&call.data).ok()?;
        let exact = call.data.len() == 68 && call.value == U256::ZERO;
        exact.then(|| Self { currency: call.to, to: transfer.to, amount: Amount::new(transfer.amount) })
    }
}
