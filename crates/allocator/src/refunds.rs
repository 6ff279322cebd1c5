//! Refunds of orders that are not for our own funds: too large, beyond the risk budget, or more than we have. They go
//! out of the depository once their deposit is final, to whom the order names.
//!
//! The order's settlement row is taken in the unit that reserves the payout: from there on nothing else can end it.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use domain::deposit::{self as rules, Verdict};
use domain::ids::{ChainId, OrderId};
use domain::money::Amount;
use domain::order::Order;
use domain::quote::Quote;
use domain::request::State as RequestState;
use domain::time::Timestamp;
use serde_json::json;
use store::depository_ledger::{self, Deposit, Held};
use store::payments::Subject;
use store::payouts::{self, Payout, PayoutId, State};
use store::{Tx, chain_states, deposits, dues, events, payments, requests, settlements};
use tracing::{error, info};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::PayoutChain;
use crate::deposits::{facts, is_relayed, is_there, senders};
use crate::error::AllocatorError;
use crate::returns::{cost, payout};
use crate::{evidence, identity};

pub(crate) async fn intend(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    for held in allocator.store.read(move |tx| depository_ledger::refundable(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let Some(order) = held.deposit.order else { continue };
        let why = match plan(allocator, payout_chain, &held, order).await? {
            Plan::Pay(payout) => {
                let (amount, now) = (payout.amount, allocator.now());
                let known: BTreeSet<ChainId> = allocator.chains.keys().copied().collect();
                let unit = move |tx: &mut Tx<'_>| reserve(tx, &payout, order, &known, now);
                if allocator.store.write(unit).await? {
                    info!(chain.id = %chain, tx = %held.deposit.tx, %order, %amount, "an order is refunded out of the depository");
                    allocator.crash("payout.intended");
                }
                continue;
            }
            Plan::Later => continue,
            Plan::Refuse(why) => why,
        };
        error!(chain.id = %chain, tx = %held.deposit.tx, %order, "a refund waits for a person: {why}");
        let (key, now) = (held.deposit.key, allocator.now());
        let unit = move |tx: &mut Tx<'_>| {
            let reason = format!("it is not paid out of the depository: {why}");
            dues::explain(tx, &Subject::Refund(order), &reason)?;
            depository_ledger::refuse(tx, key, why, now)
        };
        allocator.store.write(unit).await?;
    }
    Ok(())
}

enum Plan {
    Pay(Payout),
    Later,
    Refuse(&'static str),
}

async fn plan(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    held: &Held,
    order: OrderId,
) -> Result<Plan, AllocatorError> {
    let deposit = &held.deposit;
    let Some(cap) = payout_chain.caps.get(&deposit.currency) else {
        return Ok(Plan::Refuse("its currency has no cap"));
    };
    if !is_there(payout_chain, deposit).await? {
        return Ok(Plan::Refuse("the deposit is not on the chain"));
    }
    let recipient = match recipient(allocator, payout_chain, deposit, order).await? {
        Ok(recipient) => recipient,
        Err(why) => return Ok(Plan::Refuse(why)),
    };
    if allocator.cannot_pay(payout_chain, recipient) {
        return Ok(Plan::Refuse("whom the order names cannot be paid"));
    }
    let advice = &allocator.advice;
    if (advice.is_custodial)(recipient) {
        return Ok(Plan::Refuse("whom the order names is an exchange"));
    }
    let Some(cost) = cost(allocator, deposit).await? else { return Ok(Plan::Later) };
    let Some(wasted) = wasted_on(allocator, payout_chain, order, deposit.currency).await? else {
        return Ok(Plan::Later);
    };
    let amount = held.left().saturating_sub(cost).saturating_sub(wasted);
    if amount.is_zero() {
        return Ok(Plan::Refuse(depository_ledger::WORTHLESS));
    }
    if amount > cap.hour {
        return Ok(Plan::Refuse("it is more than the cap of its currency allows in an hour"));
    }
    Ok(Plan::Pay(Payout { recipient, ..payout(deposit, amount) }))
}

/// The gas of fills that failed, which comes off as it does off a refund from our own funds.
async fn wasted_on(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    order: OrderId,
    currency: Address,
) -> Result<Option<Amount>, AllocatorError> {
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, AllocatorError>((depository_ledger::quote_of(tx, order)?, payments::wasted(tx, &Subject::Fill(order))?))
    };
    let (quote, fees) = allocator.store.read(read).await?;
    let Some(quote) = quote else { return Ok(None) };
    Ok((allocator.advice.wasted)(payout_chain.id(), currency, &quote, &fees)?)
}

/// To whom the deposit of an order goes back, by the order that the deposit's own id is the hash of. An inner error
/// says why it goes back to nobody.
pub(crate) async fn recipient(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    deposit: &Deposit,
    id: OrderId,
) -> Result<Result<Address, &'static str>, AllocatorError> {
    let quote = allocator.store.read(move |tx| depository_ledger::quote_of(tx, id)).await?;
    let order = quote.as_ref().and_then(Quote::order);
    let order = match evidence::belongs(allocator, deposit, id, order.as_ref()) {
        Ok(order) => order,
        Err(why) => return Ok(Err(why)),
    };
    let Some(quote) = &quote else { return Ok(Err("the order is not known")) };
    let relayed = is_relayed(allocator, deposit, quote).await?;
    if matches!(rules::judge(quote, &facts(allocator, deposit, relayed))?, Verdict::Unrecognized { .. }) {
        return Ok(Err("the deposit does not pay for the order"));
    }
    let recipient = match named(order, deposit, &payout_chain.chain.name) {
        Ok(recipient) => recipient,
        Err(why) => return Ok(Err(why)),
    };
    // Asked when it is decided and again when it is signed: the list may have grown.
    let behind = senders(allocator, deposit).await?;
    let named = quote.ask.parties().filter_map(|(_, who)| who.evm());
    let parties = named.chain(deposit.parties()).chain(behind).chain([recipient]);
    Ok(if allocator.advice.blocks(parties) { Err("it is from or to a blocked wallet") } else { Ok(recipient) })
}

/// A refund here and in what was deposited is one that every order of ours lists.
fn named(order: &Order, deposit: &Deposit, chain: &str) -> Result<Address, &'static str> {
    let input = order.inputs.first().ok_or("an order without input")?;
    let same = |route: &&domain::order::Refund| route.chain == chain && route.currency.evm() == Some(deposit.currency);
    let route = input.refunds.iter().find(same).ok_or("the order lists no refund in what was deposited")?;
    let named = route.recipient.evm().ok_or("not an address of this kind of chain")?;
    Ok(if named.is_zero() { deposit.depositor } else { named })
}

/// Whether one of the order's chains takes no payments: one that this database does not know of may be the order's.
fn is_refused(
    tx: &mut Tx<'_>,
    chain: ChainId,
    quote: &Quote,
    known: &BTreeSet<ChainId>,
) -> Result<bool, AllocatorError> {
    let concerned = BTreeSet::from([chain, quote.ask.origin.chain, quote.ask.destination.chain]);
    for &chain in concerned.intersection(known) {
        if chain_states::refusing(tx, chain)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes the order and the deposit, or neither.
fn reserve(
    tx: &mut Tx<'_>,
    payout: &Payout,
    order: OrderId,
    known: &BTreeSet<ChainId>,
    now: Timestamp,
) -> Result<bool, AllocatorError> {
    let Some(request) = requests::lock_order(tx, order)? else { return Ok(false) };
    if is_refused(tx, payout.chain, &request.quote, known)? {
        return Ok(false);
    }
    let open = matches!(request.state, RequestState::Refunding | RequestState::Refunded);
    if !open || !dues::is_left_to_depository(tx, &Subject::Refund(order))? {
        return Ok(false);
    }
    let Some(held) = depository_ledger::lock(tx, payout.subject)? else { return Ok(false) };
    let tied = deposits::of_order(tx, order)?.is_some_and(|tied| {
        (tied.deposit.chain, tied.deposit.tx, tied.deposit.ordinal)
            == (held.deposit.chain, held.deposit.tx, held.deposit.ordinal)
    });
    let taken = settlements::outcome(tx, order)?.is_some();
    if !tied || taken || held.settled || !depository_ledger::settle(tx, &identity::refunded(&held.deposit, order), now)?
    {
        return Ok(false);
    }
    depository_ledger::promise(tx, &held, Amount::ZERO, payout.amount)?;
    depository_ledger::set_returning(tx, payout.subject)?;
    let inserted = payouts::insert(tx, payout, &[(payout.subject, payout.amount)], State::Intended, now)?;
    let id: PayoutId = inserted.ok_or(AllocatorError::InvariantViolated("a deposit goes back twice"))?;
    if !settlements::take_by_payout(tx, order, id)? {
        return Err(AllocatorError::InvariantViolated("an order was settled twice in one unit"));
    }
    dues::remove(tx, &Subject::Refund(order))?;
    let figures = json!({ "amount": payout.amount.to_string(), "recipient": payout.recipient, "payout": id.0 });
    events::append(tx, request.id, request.state, "refund-from-depository", &figures, now)?;
    Ok(true)
}
