//! Transfers into our account that clients say they have sent, by the venue's own hash, and rows that the venue shows
//! otherwise than before. Both are looked at again after a while, within bounds.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::counter;
use venue::Digest;

/// Pending hints. One more takes the place of the one that was looked up most often.
const MAX_HINTS: usize = 256;
/// Hashes remembered, so that a repeated hint costs nothing. At this number all are forgotten.
const REMEMBERED: usize = 4_096;
/// Lookups of a transfer, each after twice the time of the one before: the last is hours after the hint.
const TRIES: u32 = 12;
/// Time after which a row in dispute is read again for the first time; twice as long after each, up to the longest. The
/// venue may have forgotten it for a moment only.
const FIRST_DISPUTE_PAUSE_SECS: u64 = 10;
const MAX_DISPUTE_PAUSE_SECS: u64 = 300;
const MAX_DISPUTES: usize = 1_024;

#[derive(Debug, Default)]
pub struct VenueHints {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: Vec<VenueHint>,
    seen: HashSet<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VenueHint {
    pub(crate) hash: Digest,
    tried: u32,
    due: Instant,
}

impl VenueHints {
    /// Queues a hint without waiting. The list of transfers usually has it before it is looked up.
    pub(crate) fn note(&self, hash: Digest, now: Instant, pause: Duration) {
        let mut waiting = lock(&self.waiting);
        if waiting.seen.len() >= REMEMBERED {
            waiting.seen.clear();
        }
        if !waiting.seen.insert(hash) {
            return;
        }
        if waiting.queue.len() >= MAX_HINTS {
            counter!("causeway_hints_dropped_total").increment(1);
            let most = waiting.queue.iter().enumerate().max_by_key(|(_, hint)| hint.tried).map(|(at, _)| at);
            most.map(|at| waiting.queue.swap_remove(at));
        }
        waiting.queue.push(VenueHint { hash, tried: 0, due: now + pause * 2 });
    }

    /// The hint that has been due for the longest.
    pub(crate) fn next(&self, now: Instant) -> Option<VenueHint> {
        let mut waiting = lock(&self.waiting);
        let due = waiting.queue.iter().enumerate().filter(|(_, hint)| hint.due <= now);
        let at = due.min_by_key(|(_, hint)| hint.due).map(|(at, _)| at)?;
        Some(waiting.queue.swap_remove(at))
    }

    /// Queues a hint again that was looked up in vain.
    pub(crate) fn again(&self, hint: VenueHint, now: Instant, pause: Duration) {
        let tried = hint.tried + 1;
        let mut waiting = lock(&self.waiting);
        if tried < TRIES && waiting.queue.len() < MAX_HINTS {
            let due = now + pause.saturating_mul(2u32.saturating_pow(tried + 1));
            waiting.queue.push(VenueHint { tried, due, ..hint });
        }
    }
}

/// Rows in dispute, and the time at which each is read again.
#[derive(Debug, Default)]
pub struct Disputes(Mutex<BTreeMap<i64, Dispute>>);

#[derive(Clone, Copy, Debug)]
struct Dispute {
    due_secs: u64,
    pause_secs: u64,
    /// False where it was only put off.
    disputed: bool,
}

impl Disputes {
    pub(crate) fn is_due(&self, id: i64, now_secs: u64) -> bool {
        lock(&self.0).get(&id).is_none_or(|dispute| dispute.due_secs <= now_secs)
    }

    /// Notes a dispute. True for the first time.
    pub(crate) fn begun(&self, id: i64, now_secs: u64) -> bool {
        !self.pause(id, now_secs, true)
    }

    /// Puts a row off that could not be judged, so that those behind it have their turn.
    pub(crate) fn put_off(&self, id: i64, now_secs: u64) {
        self.pause(id, now_secs, false);
    }

    /// Whether the row was in dispute before.
    fn pause(&self, id: i64, now_secs: u64, disputed: bool) -> bool {
        let mut disputes = lock(&self.0);
        if disputes.len() >= MAX_DISPUTES {
            disputes.clear();
        }
        let known = disputes.get(&id).copied();
        let pause_secs = match known {
            Some(known) => known.pause_secs.saturating_mul(2).min(MAX_DISPUTE_PAUSE_SECS),
            None => FIRST_DISPUTE_PAUSE_SECS,
        };
        let before = known.is_some_and(|known| known.disputed);
        let due_secs = now_secs.saturating_add(pause_secs);
        disputes.insert(id, Dispute { due_secs, pause_secs, disputed: disputed || before });
        before
    }

    pub(crate) fn ended(&self, id: i64) {
        lock(&self.0).remove(&id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY_INTERVAL: Duration = Duration::from_secs(5);

    fn hash(n: usize) -> Digest {
        format!("{n:080x}").parse().unwrap()
    }

    #[test]
    fn a_hint_is_looked_up_again_and_again_until_it_is_given_up() {
        let (hints, mut now, mut looked) = (VenueHints::default(), Instant::now(), 0);
        hints.note(hash(1), now, RETRY_INTERVAL);
        hints.note(hash(1), now, RETRY_INTERVAL);
        assert_eq!(hints.next(now), None, "the list has its turn first");
        for _ in 0..20_000 {
            now += RETRY_INTERVAL;
            if let Some(hint) = hints.next(now) {
                looked += 1;
                hints.again(hint, now, RETRY_INTERVAL);
            }
        }
        assert_eq!(looked, TRIES);
    }

    #[test]
    fn a_full_queue_gives_up_the_hint_that_was_tried_most() {
        let (hints, now) = (VenueHints::default(), Instant::now());
        for n in 0..MAX_HINTS {
            hints.note(hash(n), now, RETRY_INTERVAL);
        }
        let later = now + RETRY_INTERVAL * 2;
        let tried = hints.next(later).unwrap();
        hints.again(tried, later, RETRY_INTERVAL);
        hints.note(hash(MAX_HINTS), later, RETRY_INTERVAL);
        let due = std::iter::from_fn(|| hints.next(later + RETRY_INTERVAL * 100));
        let left: Vec<_> = due.map(|hint| hint.hash).collect();
        assert_eq!(left.len(), MAX_HINTS);
        assert!(left.contains(&hash(MAX_HINTS)) && !left.contains(&tried.hash));
    }

    #[test]
    fn a_dispute_is_told_once_and_read_again_later() {
        let (disputes, id) = (Disputes::default(), 7);
        assert!(disputes.is_due(id, 100) && disputes.begun(id, 100));
        assert!(!disputes.is_due(id, 109) && disputes.is_due(id, 110));
        assert!(!disputes.begun(id, 110));
        assert!(!disputes.is_due(id, 129) && disputes.is_due(id, 130));
        for _ in 0..20 {
            assert!(!disputes.begun(id, 1_000));
        }
        let last = 1_000 + MAX_DISPUTE_PAUSE_SECS;
        assert!(!disputes.is_due(id, last - 1) && disputes.is_due(id, last));
        disputes.ended(id);
        assert!(disputes.is_due(id, 1_001));
    }

    #[test]
    fn a_row_that_was_put_off_may_still_be_in_dispute_for_the_first_time() {
        let (disputes, id) = (Disputes::default(), 7);
        disputes.put_off(id, 100);
        assert!(!disputes.is_due(id, 109) && disputes.is_due(id, 110));
        assert!(disputes.begun(id, 110));
        disputes.put_off(id, 130);
        assert!(!disputes.begun(id, 170), "it was told");
    }
}
