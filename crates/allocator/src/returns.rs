//! Deposits that pay for no order and are too large to be returned from our own funds, or that could not be: they go
//! back out of the depository, to whom they name.

use domain::deposit::{self as rules, Facts, Verdict};
use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::Quote;
use domain::time::Timestamp;
use store::depository_ledger::{self, Deposit, Held};
use store::payouts::{self, Kind, Payout, State};
use store::{StoreError, Tx, relays, settlements, sweeps};
use tracing::{error, info};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::PayoutChain;
use crate::deposits::{facts, is_relayed, is_there, senders};
use crate::error::AllocatorError;
use crate::identity;

pub(crate) async fn intend(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    for held in allocator.store.read(move |tx| depository_ledger::unreturned(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let plan = match payout_chain.caps.get(&held.deposit.currency) {
            Some(&cap) => plan(allocator, payout_chain, &held).await.map(|plan| (plan, cap.hour)),
            None => Ok((Plan::Later("its currency has no cap"), Amount::ZERO)),
        };
        let (plan, most) = match plan {
            // A block that nobody can read keeps only its own deposits waiting.
            Err(error) if error.is_transient() => (Plan::Later("it cannot be looked at now"), Amount::ZERO),
            plan => plan?,
        };
        let why = match plan {
            // Anyone can deposit as much as they like under no order: it must not stand in the way of the rest.
            Plan::Pay(amount) if amount > most => "it is more than the cap of its currency allows in an hour",
            Plan::Pay(amount) => {
                let now = allocator.now();
                let payout = payout(&held.deposit, amount);
                let unit = move |tx: &mut Tx<'_>| reserve(tx, &payout, now);
                if allocator.store.write(unit).await? {
                    info!(chain.id = %chain, tx = %held.deposit.tx, %amount, "a deposit goes back out of the depository");
                    allocator.crash("payout.intended");
                }
                continue;
            }
            Plan::Later(why) => {
                let (key, now) = (held.deposit.key, allocator.now());
                allocator.store.write(move |tx| depository_ledger::postpone(tx, key, why, now)).await?;
                continue;
            }
            Plan::Refuse(why) => why,
        };
        error!(chain.id = %chain, tx = %held.deposit.tx, "a deposit waits for a person to return it: {why}");
        let (key, now) = (held.deposit.key, allocator.now());
        allocator.store.write(move |tx| depository_ledger::refuse(tx, key, why, now)).await?;
    }
    Ok(())
}

enum Plan {
    Pay(Amount),
    Later(&'static str),
    Refuse(&'static str),
}

async fn plan(allocator: &Allocator, payout_chain: &PayoutChain, held: &Held) -> Result<Plan, AllocatorError> {
    let deposit = &held.deposit;
    let advice = &allocator.advice;
    if allocator.cannot_pay(payout_chain, deposit.depositor) || (advice.is_custodial)(deposit.depositor) {
        return Ok(Plan::Refuse("whom it names cannot be paid"));
    }
    if advice.blocks(deposit.parties().into_iter().chain(senders(allocator, deposit).await?)) {
        return Ok(Plan::Refuse("it is from a blocked wallet"));
    }
    if !is_there(payout_chain, deposit).await? {
        return Ok(Plan::Refuse("it is not on the chain"));
    }
    match whose(allocator, deposit).await? {
        Whose::Nobodys => {}
        Whose::Undecided => return Ok(Plan::Later("the order it names may still need it")),
        Whose::TheOrders => return Ok(Plan::Refuse("it has paid for the order it names")),
    }
    let Some(cost) = cost(allocator, deposit).await? else {
        return Ok(Plan::Later("the cost of sending it is not known"));
    };
    let amount = held.left().saturating_sub(cost);
    Ok(if amount.is_zero() { Plan::Refuse(depository_ledger::WORTHLESS) } else { Plan::Pay(amount) })
}

/// The gas that comes off a deposit which goes back, in its currency. None while no price is known.
pub(crate) async fn cost(allocator: &Allocator, deposit: &Deposit) -> Result<Option<Amount>, AllocatorError> {
    let (chain, order, sender, hash) = (deposit.chain, deposit.order, deposit.sender, deposit.tx);
    let read = move |tx: &mut Tx<'_>| {
        let Some(order) = order else { return Ok((false, None)) };
        Ok::<_, StoreError>((sweeps::brought(tx, chain, order, sender)?, relays::at_our_cost(tx, order, chain, hash)?))
    };
    // Whoever has us sweep an address, or send a relay, pays for it, as often as they like.
    let brought = match allocator.store.read(read).await? {
        (true, _) => (allocator.advice.sweep_cost)(chain, deposit.currency)?,
        (false, Some(burnt)) => (allocator.advice.relay_cost)(chain, deposit.currency, burnt)?,
        (false, None) => Some(Amount::ZERO),
    };
    let (Some(transfer), Some(brought)) = ((allocator.advice.refund_cost)(chain, deposit.currency)?, brought) else {
        return Ok(None);
    };
    // The depository's call costs about twice a transfer.
    Ok(Some(transfer.checked_add(transfer)?.checked_add(brought)?))
}

/// The facts of a deposit as if somebody else had sent it: a stranger's calls run in fills of ours, and may sweep too
/// little of a strict address. That pays for nothing, and must not wait for the end of the order.
async fn unswept(allocator: &Allocator, deposit: &Deposit, quote: &Quote) -> Result<Facts, AllocatorError> {
    let relayed = is_relayed(allocator, deposit, quote).await?;
    Ok(Facts { swept: false, ..facts(allocator, deposit, relayed) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// It names no order that we know, could not have paid for it, or another one has.
    Nobodys,
    /// The order it names is not settled yet.
    Undecided,
    TheOrders,
}

/// Whether a deposit pays for no order there is.
pub(crate) async fn is_nobodys(allocator: &Allocator, deposit: &Deposit) -> Result<bool, AllocatorError> {
    Ok(matches!(whose(allocator, deposit).await?, Whose::Nobodys))
}

async fn whose(allocator: &Allocator, deposit: &Deposit) -> Result<Whose, AllocatorError> {
    let Some(order) = deposit.order else { return Ok(Whose::Nobodys) };
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, AllocatorError>((
            depository_ledger::quote_of(tx, order)?,
            depository_ledger::settlement_for(tx, order)?,
        ))
    };
    let (quote, settlement) = allocator.store.read(read).await?;
    let Some(quote) = quote.filter(|quote| quote.order().is_some_and(|known| known.id() == order)) else {
        return Ok(Whose::Nobodys);
    };
    let facts = unswept(allocator, deposit, &quote).await?;
    Ok(match (rules::judge(&quote, &facts)?, settlement) {
        (Verdict::Unrecognized { .. }, _) => Whose::Nobodys,
        (Verdict::Fill { .. } | Verdict::Refund { .. }, Some(other)) if other.deposit != deposit.key => Whose::Nobodys,
        (Verdict::Fill { .. } | Verdict::Refund { .. }, Some(_)) => Whose::TheOrders,
        (Verdict::Fill { .. } | Verdict::Refund { .. }, None) => {
            if came_second(allocator, deposit, order, &quote).await? || has_ended(allocator, order, &quote).await? {
                Whose::Nobodys
            } else {
                Whose::Undecided
            }
        }
    })
}

/// Whether an earlier block has a deposit that pays for the same order. The order is that one's.
async fn came_second(
    allocator: &Allocator,
    deposit: &Deposit,
    order: OrderId,
    quote: &Quote,
) -> Result<bool, AllocatorError> {
    for other in allocator.store.read(move |tx| depository_ledger::under(tx, order, MAX_ROWS_PER_ROUND)).await? {
        let earlier = other.deposit.block_number < deposit.block_number;
        if !earlier {
            continue;
        }
        let facts = unswept(allocator, &other.deposit, quote).await?;
        if !matches!(rules::judge(quote, &facts)?, Verdict::Unrecognized { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the order's time is over, by a final block of the chain it pays on, and nothing was paid for it: then
/// nothing will be.
async fn has_ended(allocator: &Allocator, order: OrderId, quote: &Quote) -> Result<bool, AllocatorError> {
    let Some(terms) = &quote.terms else { return Ok(true) };
    let Some(there) = allocator.payout_chain(terms.payout.chain) else { return Ok(false) };
    if allocator.store.read(move |tx| settlements::outcome(tx, order)).await?.is_some() {
        return Ok(false);
    }
    Ok(there.last_final().await?.time > u64::from(terms.deadline))
}

pub(crate) fn payout(deposit: &Deposit, amount: Amount) -> Payout {
    Payout {
        nonce: identity::nonce(Kind::Refund, deposit.key),
        kind: Kind::Refund,
        subject: deposit.key,
        chain: deposit.chain,
        currency: deposit.currency,
        recipient: deposit.depositor,
        amount,
    }
}

fn reserve(tx: &mut Tx<'_>, payout: &Payout, now: Timestamp) -> Result<bool, AllocatorError> {
    let Some(held) = depository_ledger::lock(tx, payout.subject)? else { return Ok(false) };
    // The row that excludes every other ending of this deposit.
    if held.settled || !depository_ledger::settle(tx, &identity::returned(&held.deposit), now)? {
        return Ok(false);
    }
    depository_ledger::promise(tx, &held, Amount::ZERO, payout.amount)?;
    depository_ledger::set_returning(tx, payout.subject)?;
    let inserted = payouts::insert(tx, payout, &[(payout.subject, payout.amount)], State::Intended, now)?;
    let id = inserted.ok_or(AllocatorError::InvariantViolated("a deposit goes back twice"))?;
    // Nobody returns it from our own funds as well.
    if !settlements::take_by_payout(tx, OrderId(held.deposit.return_key), id)? {
        return Err(AllocatorError::InvariantViolated(
            "a deposit that goes back out of the depository was returned already",
        ));
    }
    Ok(true)
}
