//! Deposits as blocks show them.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use domain::deposit::Facts;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::Quote;
use evm::{Block, Head, SeenDeposit};
use store::arrivals::{self, BehindDeposit};
use store::depository_ledger::Deposit;
use store::relays;

use crate::allocator::Allocator;
use crate::chain::PayoutChain;
use crate::error::AllocatorError;
use crate::identity;

/// The deposits of a block that count: in currencies we list.
pub(crate) fn of_block(payout_chain: &PayoutChain, block: &Block) -> Vec<Deposit> {
    let listed = |seen: &&SeenDeposit| !seen.amount.is_zero() && payout_chain.chain.token(seen.currency).is_some();
    block.deposits.iter().filter(listed).map(|seen| deposit(payout_chain, block.head, seen)).collect()
}

fn deposit(payout_chain: &PayoutChain, head: Head, seen: &SeenDeposit) -> Deposit {
    Deposit {
        key: identity::deposit_key(&payout_chain.chain.name, seen.tx, seen.log_index),
        chain: payout_chain.id(),
        tx: seen.tx,
        ordinal: seen.ordinal,
        block_number: head.number,
        block_hash: head.hash,
        block_time: head.timestamp(),
        order: seen.id.candidate().map(OrderId),
        return_key: domain::deposit::key(payout_chain.id(), seen.tx, seen.ordinal),
        depositor: seen.depositor,
        payer: seen.payer,
        sender: seen.sender,
        currency: seen.currency,
        amount: Amount::new(seen.amount),
    }
}

/// Whether the deposit stands where the ledger says, and says what the ledger says.
pub(crate) async fn is_there(payout_chain: &PayoutChain, deposit: &Deposit) -> Result<bool, AllocatorError> {
    let number = payout_chain.nodes.quorum_number(payout_chain.quorum, deposit.block_number).await?;
    if number.hash != deposit.block_hash {
        return Ok(false);
    }
    let watch = payout_chain.watch();
    let block = payout_chain.nodes.quorum_block(payout_chain.quorum, deposit.block_hash, &watch).await?;
    Ok(of_block(payout_chain, &block).contains(deposit))
}

/// The senders of the money, where it came through a deposit address: whoever swept that is the deposit's sender.
pub(crate) async fn senders(allocator: &Allocator, deposit: &Deposit) -> Result<BTreeSet<Address>, AllocatorError> {
    let Some(order) = deposit.order else { return Ok(BTreeSet::new()) };
    let Deposit { chain, currency, amount, block_number: block, .. } = *deposit;
    let asked = BehindDeposit { chain, order, currency, amount, block };
    let behind = allocator.store.read(move |tx| arrivals::behind(tx, &asked)).await?;
    Ok(behind.unwrap_or_default().senders)
}

/// Whether the relay of an order's request brought a deposit: its user has signed for it.
pub(crate) async fn is_relayed(
    allocator: &Allocator,
    deposit: &Deposit,
    quote: &Quote,
) -> Result<bool, AllocatorError> {
    let (request, at) = (quote.id, (deposit.chain, deposit.tx));
    let Some(proxy) = allocator.chains.get(&deposit.chain).map(|it| it.chain.approval_proxy) else { return Ok(false) };
    Ok(allocator.store.read(move |tx| relays::brought(tx, request, at, proxy)).await?)
}

/// The facts of a deposit that the rules judge, as the ledger has them.
pub(crate) fn facts(allocator: &Allocator, deposit: &Deposit, relayed: bool) -> Facts {
    let payout_chain = allocator.payout_chain(deposit.chain);
    Facts {
        chain: deposit.chain,
        currency: deposit.currency,
        amount: deposit.amount,
        payer: deposit.payer,
        sender: deposit.sender,
        swept: payout_chain.is_some_and(|chain| chain.wallets.contains(&deposit.sender)),
        relayed,
        block_time: deposit.block_time,
    }
}
