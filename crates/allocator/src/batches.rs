//! Batches: settled deposits of one currency on one chain, paid to the treasury together once they are worth it.

use std::time::Duration;

use alloy::primitives::{Address, B256};
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;
use store::depository_ledger::{self, Held};
use store::payouts::{self, Kind, Payout, State};
use store::{StoreError, Tx};
use tracing::{info, warn};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::{Cap, PayoutChain};
use crate::error::AllocatorError;
use crate::identity;

/// Deposits in one batch at the most: their keys travel in the calldata.
pub(crate) const MAX_BATCH_DEPOSITS: i64 = 128;
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn intend(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<(), AllocatorError> {
    for (&currency, &cap) in &payout_chain.caps {
        if let Some((count, sum)) = batch(allocator, payout_chain, currency, cap).await? {
            info!(chain.id = %payout_chain.id(), %currency, count, %sum, "a batch of {count} deposits is to be reimbursed");
            allocator.crash("payout.intended");
        }
    }
    Ok(())
}

async fn batch(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    currency: Address,
    cap: Cap,
) -> Result<Option<(usize, Amount)>, AllocatorError> {
    let (chain, now) = (payout_chain.id(), allocator.now());
    let read = move |tx: &mut Tx<'_>| {
        let (mut room, mut waiting) = (room(tx, chain, currency, cap, now)?, false);
        for open in payouts::open(tx, chain, MAX_ROWS_PER_ROUND)? {
            if open.payout.currency != currency || open.state != State::Intended {
                continue;
            }
            match open.payout.kind {
                // One at a time.
                Kind::Batch => waiting = true,
                // Money that goes back to somebody has its part of the cap before we have ours.
                Kind::Refund | Kind::Excess => room = room.saturating_sub(open.payout.amount),
            }
        }
        let held = if waiting {
            Vec::new()
        } else {
            depository_ledger::reimbursable(tx, chain, currency, MAX_BATCH_DEPOSITS)?
        };
        Ok::<_, AllocatorError>((held, room))
    };
    let (held, room) = allocator.store.read(read).await?;
    let Some(oldest) = held.first().map(|held| held.deposit.block_time) else { return Ok(None) };
    let (keys, sum) = choose(&held, room)?;
    if keys.is_empty() {
        warn!(chain.id = %chain, %currency, %room, "the cap leaves no room for the next payout");
        return Ok(None);
    }
    let old = now.millis().saturating_sub(oldest.millis()) >= millis(allocator.terms.batch_age);
    if !old && !is_worth_it(allocator, payout_chain, currency, sum) {
        return Ok(None);
    }
    let recipient = allocator.treasury;
    let unit = move |tx: &mut Tx<'_>| reserve(tx, chain, currency, recipient, &keys, now);
    allocator.store.write(unit).await
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The amount that may still be signed for. Signing checks it again.
pub(crate) fn room(
    tx: &mut Tx<'_>,
    chain: ChainId,
    currency: Address,
    cap: Cap,
    now: Timestamp,
) -> Result<Amount, AllocatorError> {
    let before = |span: Duration| Timestamp::from_millis(now.millis().saturating_sub(millis(span)));
    let (mut hour, mut day) = (Amount::ZERO, Amount::ZERO);
    for (at, amount) in payouts::signed_since(tx, chain, currency, before(DAY))? {
        day = day.checked_add(amount)?;
        if at > before(HOUR) {
            hour = hour.checked_add(amount)?;
        }
    }
    Ok(cap.hour.saturating_sub(hour).min(cap.day.saturating_sub(day)))
}

/// The oldest that fit. One that is too large for now does not hold up the others.
fn choose(held: &[Held], room: Amount) -> Result<(Vec<B256>, Amount), AllocatorError> {
    let (mut keys, mut sum) = (Vec::new(), Amount::ZERO);
    for held in held {
        let more = sum.checked_add(held.left())?;
        if more <= room && !held.left().is_zero() {
            keys.push(held.deposit.key);
            sum = more;
        }
    }
    Ok((keys, sum))
}

/// The price only says when, never how much: advice is good enough.
fn is_worth_it(allocator: &Allocator, payout_chain: &PayoutChain, currency: Address, sum: Amount) -> bool {
    let worth = (allocator.advice.batch_worth)(payout_chain.id(), currency, sum);
    worth.is_some_and(|worth| worth >= allocator.terms.batch_usd)
}

/// Takes what is left of each deposit, in one unit: the promise is written before anything is signed.
fn reserve(
    tx: &mut Tx<'_>,
    chain: ChainId,
    currency: Address,
    recipient: Address,
    keys: &[B256],
    now: Timestamp,
) -> Result<Option<(usize, Amount)>, AllocatorError> {
    let (mut parts, mut sum) = (Vec::new(), Amount::ZERO);
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    for key in &keys {
        let held =
            depository_ledger::lock(tx, *key)?.ok_or(AllocatorError::InvariantViolated("a deposit left the ledger"))?;
        let left = held.left();
        if !held.settled || left.is_zero() || held.deposit.currency != currency || held.deposit.chain != chain {
            return Ok(None);
        }
        depository_ledger::promise(tx, &held, left, Amount::ZERO)?;
        sum = sum.checked_add(left)?;
        parts.push((*key, left));
    }
    let subject = identity::batch_key(&keys);
    let nonce = identity::nonce(Kind::Batch, subject);
    let payout = Payout { nonce, kind: Kind::Batch, subject, chain, currency, recipient, amount: sum };
    let inserted = payouts::insert(tx, &payout, &parts, State::Intended, now)?;
    // Promises without their payout must not stay.
    inserted.ok_or(AllocatorError::Store(StoreError::ManyRows(0)))?;
    Ok(Some((parts.len(), sum)))
}
