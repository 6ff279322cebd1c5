//! Payments that are given up: a transaction that does nothing uses up their nonce, and the lane goes on.
//!
//! The transaction that is mined in the end decides. Nothing here says that a payment did not happen.

use std::time::Duration;

use domain::payment::State;
use domain::relay;
use domain::request::State as RequestState;
use domain::time::Timestamp;
use store::payments::{Payment, PaymentId, PaymentRow, Purpose, Subject};
use store::{StoreError, Tx, relays, requests};

use crate::handle::ChainHandle;

/// Time after which a payment that no node takes is given up.
const UNTAKEN_TIMEOUT: Duration = Duration::from_secs(300);
/// The same for a raw call. Its contents are a stranger's, and so is the reason for which nobody takes it.
const UNTAKEN_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a raw call may be refused for a reason that is not understood, or by some nodes only.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(10);
/// Time before its order ends at which an unmined fill is given up.
const LAST_MINUTES_SECS: i64 = 300;

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.millis().saturating_sub(since.millis())).unwrap_or_default())
}

/// True for a relay of a call that its caller chose, and no permit of a quote.
pub(super) fn is_raw_call(handle: &ChainHandle, payment: &Payment) -> bool {
    payment.purpose() == Purpose::Relay && handle.is_raw_call(payment.target)
}

/// True if no node has taken a payment for so long that it blocks its lane.
pub(super) fn is_untaken(handle: &ChainHandle, head: &PaymentRow, now: Timestamp) -> bool {
    let timeout = if is_raw_call(handle, &head.payment) { UNTAKEN_CALL_TIMEOUT } else { UNTAKEN_TIMEOUT };
    head.state == State::Decided && elapsed(head.created_at, now) > timeout
}

/// A refusal of nodes to take a relay, which none of them holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Every node refuses it, for a reason that no waiting mends.
    pub for_good: bool,
    pub raw_call: bool,
    pub block_time: Duration,
    pub now: Timestamp,
}

/// True if a refused relay is given up, and notes that it was. Others wait behind it: only one that a reorg took back,
/// and whose deposit may be paid out already, is tried for as long as any payment.
pub(super) fn give_up_refused(tx: &mut Tx<'_>, stored: &PaymentRow, refused: Refused) -> Result<bool, StoreError> {
    let Subject::Relay(id) = stored.payment.subject else { return Ok(false) };
    let Some(request) = requests::lock(tx, id)? else { return Ok(false) };
    let Some(since) = relays::held_until(tx, id)? else { return Ok(false) };
    let timeout = match refused {
        _ if !is_unpaid(request.state) => UNTAKEN_TIMEOUT,
        Refused { for_good: true, .. } => Duration::ZERO,
        Refused { raw_call: true, block_time, .. } => REFUSED_TIMEOUT.max(block_time.saturating_mul(3)),
        // A permit was tried and is of a form that nodes take: it is more likely the node.
        Refused { raw_call: false, .. } => UNTAKEN_TIMEOUT,
    };
    if elapsed(since, refused.now) < timeout {
        return Ok(false);
    }
    // The nonce costs us gas: its account waits a while, like one whose relay failed in a block.
    relays::apply(tx, id, relay::Event::Refused, refused.now)?;
    Ok(true)
}

/// True if nothing was decided for a relay's deposit yet.
const fn is_unpaid(state: RequestState) -> bool {
    matches!(state, RequestState::Waiting | RequestState::Depositing)
}

/// The fills of a queue whose orders end within minutes, and the relays whose signatures end before they can be mined.
pub(super) fn ending(
    tx: &mut Tx<'_>,
    queue: &[PaymentRow],
    time: Timestamp,
    block_time: Duration,
) -> Result<Vec<PaymentId>, StoreError> {
    let mut ending = Vec::new();
    for stored in queue {
        let ends = match stored.payment.subject {
            Subject::Relay(request) => is_relay_ending(tx, request, time, block_time)?,
            _ => is_fill_ending(tx, &stored.payment, time)?,
        };
        if ends {
            ending.push(stored.id);
        }
    }
    Ok(ending)
}

fn is_fill_ending(tx: &mut Tx<'_>, payment: &Payment, time: Timestamp) -> Result<bool, StoreError> {
    let Some(id) = payment.request else { return Ok(false) };
    let Some(request) = requests::find(tx, id)? else { return Ok(false) };
    let deadline = request.quote.terms.as_ref().map_or(i64::MAX, |terms| i64::from(terms.deadline));
    let open = matches!(request.state, RequestState::Pending | RequestState::Submitted);
    Ok(open && time.secs() > deadline.saturating_sub(LAST_MINUTES_SECS))
}

/// One that a reorg took back, and whose deposit may be paid out, had better try: a transaction that fails costs less.
fn is_relay_ending(
    tx: &mut Tx<'_>,
    request: domain::ids::RequestId,
    time: Timestamp,
    block_time: Duration,
) -> Result<bool, StoreError> {
    let unpaid = requests::find(tx, request)?.is_some_and(|request| is_unpaid(request.state));
    let stored = relays::find(tx, request)?.filter(|_| unpaid);
    Ok(stored.is_some_and(|stored| is_too_late(stored.relay.deadline, time, block_time)))
}

/// True if the next block comes too late for a signature, or may: where one is a little late, so is the relay in it.
pub(crate) fn is_too_late(deadline: Timestamp, time: Timestamp, block_time: Duration) -> bool {
    time.plus(block_time.saturating_add(block_time / 2)) >= deadline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_has_to_last_for_the_next_block() {
        let at = Timestamp::from_secs;
        for (block_secs, left_secs, too_late) in [
            (2, 30, false),
            (2, 4, false),
            (2, 3, true),
            (2, 0, true),
            (12, 36, false),
            (12, 18, true),
            (12, 19, false),
        ] {
            let said = is_too_late(at(1_000 + left_secs), at(1_000), Duration::from_secs(block_secs));
            assert_eq!(said, too_late, "{left_secs} s left, and a block every {block_secs} s");
        }
    }
}
