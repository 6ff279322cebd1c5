//! Finality on the venue: time, and the venue's word once more.
//!
//! A deposit was recorded because the venue showed it twice. When its time is over it is read again: one that is shown
//! otherwise, or not at all, does not become final. So it is neither sent back nor free of the risk budget, and a
//! person is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::alarm::Alarm;
use domain::deposit::State;
use domain::time::Timestamp;
use evm::{Head, SeenDeposit};
use metrics::counter;
use store::deposits::{Deposit, DepositId, DepositRow};
use store::{Tx, deposits, venue_txs};
use tracing::debug;
use venue::{Digest, VenueError};

use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::VenueChain;
use crate::payments::venue_tx::{deposit, sender};
use crate::solver::Solver;

/// Deposits looked at in one round.
const MAX_ROWS_PER_ROUND: i64 = 1_024;
/// Deposits read in one round: reading shares the quota with the walk.
const MAX_READS_PER_ROUND: usize = 16;

/// The deposits that may become final now.
pub(super) async fn verified(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    head: Head,
) -> Result<BTreeSet<i64>, SolverError> {
    let (chain, mut same) = (handle.id(), BTreeSet::new());
    let Some(last) = head.number.checked_sub(handle.settings.finality) else { return Ok(same) };
    let read = move |tx: &mut Tx<'_>| {
        let mut named = Vec::new();
        for stored in deposits::ripe(tx, chain, State::Confirmed, last, MAX_ROWS_PER_ROUND)? {
            let name = venue_txs::digest(tx, stored.deposit.tx)?.and_then(|text| text.parse::<Digest>().ok());
            named.push((stored, name));
        }
        Ok::<_, SolverError>(named)
    };
    let ripe = solver.store.read(read).await?;
    let due = ripe.into_iter().filter(|(stored, _)| venue.disputes.is_due(stored.id.0, head.time));
    for (stored, name) in due.take(MAX_READS_PER_ROUND) {
        let shown = match shown(solver, venue, name).await {
            Ok(shown) => shown,
            // It says something that cannot be read.
            Err(SolverError::Venue(VenueError::Invalid(_) | VenueError::Json(_) | VenueError::TooLarge(_))) => None,
            Err(SolverError::Venue(error)) => {
                debug!(%error, "deposits on the venue wait to be read once more");
                return Ok(same);
            }
            Err(error) => return Err(error),
        };
        if shown.is_some_and(|(seen, time)| is_same(&stored.deposit, &seen, time)) {
            venue.disputes.ended(stored.id.0);
            same.insert(stored.id.0);
        } else {
            dispute(handle, venue, &stored, head);
        }
    }
    Ok(same)
}

/// The deposit as the venue shows it now, and its time. None where it shows none.
async fn shown(
    solver: &Solver,
    venue: &VenueChain,
    name: Option<Digest>,
) -> Result<Option<(SeenDeposit, Timestamp)>, SolverError> {
    let Some(name) = name else { return Ok(None) };
    let Some(tx) = venue.client.transaction(name).await? else { return Ok(None) };
    let Some(from) = sender(&tx) else { return Ok(None) };
    let Some(wallet) = solver.venue_accounts.read(venue, from, solver.now()).await? else { return Ok(None) };
    let time = i64::try_from(tx.queued_at / 1_000).unwrap_or_default();
    Ok(deposit(venue, &tx, wallet).map(|seen| (seen, Timestamp::from_secs(time))))
}

/// True if a deposit is as it was recorded.
fn is_same(stored: &Deposit, seen: &SeenDeposit, time: Timestamp) -> bool {
    let parties = (stored.depositor, stored.payer, stored.sender) == (seen.depositor, seen.payer, seen.sender);
    let money = (stored.currency, stored.amount.units()) == (seen.currency, seen.amount);
    parties && money && stored.claim.map(|order| order.0) == seen.id.candidate() && stored.block_time == time
}

fn dispute(handle: &ChainHandle, venue: &VenueChain, stored: &DepositRow, head: Head) {
    let DepositId(id) = stored.id;
    if venue.disputes.begun(stored.id.0, head.time) {
        counter!("causeway_deposits_doubtful_total", "chain" => handle.id().to_string()).increment(1);
    }
    let what = format!(
        "the venue no longer shows deposit {id} ({}) as it was recorded: it does not become final",
        stored.deposit.tx
    );
    handle.health.alarms.raise(Alarm::DepositDoubtful, what);
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, Bytes, U256};
    use domain::ids::OrderId;
    use domain::money::Amount;
    use evm::Id;

    use super::*;

    fn taken_in() -> (Deposit, SeenDeposit, Timestamp) {
        let (order, who, time) = (B256::repeat_byte(7), Address::with_last_byte(5), Timestamp::from_secs(100));
        let stored = Deposit {
            chain: domain::venue::CHAIN,
            tx: B256::repeat_byte(1),
            ordinal: 0,
            log_index: 0,
            block_number: 101,
            block_hash: B256::ZERO,
            block_time: time,
            order_id: Some(OrderId(order)),
            claim: Some(OrderId(order)),
            depositor: who,
            payer: who,
            sender: who,
            currency: Address::ZERO,
            amount: Amount::new(U256::from(1_000_000)),
            ripe_at: 101,
        };
        let seen = SeenDeposit {
            tx: stored.tx,
            tx_index: 0,
            ordinal: 0,
            log_index: 0,
            id: Id::Event(order),
            depositor: who,
            payer: who,
            sender: who,
            currency: Address::ZERO,
            amount: U256::from(1_000_000),
            to: None,
            input: Bytes::new(),
            value: U256::from(1_000_000),
            fee: None,
        };
        (stored, seen, time)
    }

    #[test]
    fn a_deposit_that_is_shown_otherwise_is_another_one() {
        let (stored, seen, time) = taken_in();
        assert!(is_same(&stored, &seen, time));
        let other = Address::with_last_byte(6);
        for (what, changed, time) in [
            ("the amount", SeenDeposit { amount: U256::from(999_999), ..seen.clone() }, time),
            ("the currency", SeenDeposit { currency: other, ..seen.clone() }, time),
            ("the sender", SeenDeposit { depositor: other, payer: other, sender: other, ..seen.clone() }, time),
            ("the memo", SeenDeposit { id: Id::None, ..seen.clone() }, time),
            ("another order", SeenDeposit { id: Id::Event(B256::repeat_byte(8)), ..seen.clone() }, time),
            ("the time", seen.clone(), Timestamp::from_secs(101)),
        ] {
            assert!(!is_same(&stored, &changed, time), "{what}");
        }
    }
}
