//! Transfers into our account that clients say they have sent, by the venue's own hash, and rows that the venue shows
//! otherwise than before. Both are looked at again after a while, within bounds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::counter;
use venue::Digest;

/// Pending hints. One more takes the place of the one that was looked up most often.
const MAX_HINTS: usize = 256;
/// Hashes remembered, so that a repeated hint costs nothing. At this number all are forgotten.
const MAX_REMEMBERED: usize = 4_096;
/// Lookups of a transfer, each after twice the time of the one before: the last is hours after the hint.
const TRIES: u32 = 12;
/// Time after which a row in dispute is read again for the first time; twice as long after each, up to the longest. The
/// venue may have forgotten it for a moment only.
const FIRST_DISPUTE_PAUSE_SECS: u64 = 10;
const MAX_DISPUTE_PAUSE_SECS: u64 = 300;
const MAX_DISPUTES: usize = 1_024;
/// Time that a transfer which is listed and not shown may hold up the cursor: a person is told after it.
const MISSING_TIMEOUT_SECS: u64 = 3_600;
/// The longest time between two reads of a transfer that is missed.
const MAX_MISSED_PAUSE_SECS: u64 = 300;
/// Transfers that are missed at once. One more takes the place of the one that was missed first.
const MAX_MISSED: usize = 1_024;

/// Time for which a transfer that is no deposit is not read again, unless a client names it: the venue may still change
/// its word, and one that it rejected can be sent again.
const NO_DEPOSIT_FOR: Duration = Duration::from_secs(3_600);
/// Transfers that are no deposits and are remembered. One more takes the place of the one that was read first.
const MAX_NO_DEPOSITS: usize = 4_096;

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
        if waiting.seen.len() >= MAX_REMEMBERED {
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

/// Transfers that the venue lists and could not be read, and the second in which each was missed first. A transfer's
/// own time says nothing about that: after a downtime of ours all of them are old.
#[derive(Debug, Default)]
pub struct Missed(Mutex<BTreeMap<Digest, Miss>>);

#[derive(Clone, Copy, Debug)]
struct Miss {
    since_secs: u64,
    due_secs: u64,
    given_up: bool,
}

/// When the walk reads a transfer of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It was not missed so far.
    First,
    Again,
    Later,
    /// It is the slow walk's to find.
    Never,
}

impl Missed {
    /// Notes that a transfer could not be read. True once that has been so for too long to wait for it any more. It is
    /// read again after half the time that it has been missed for: one that is about to be executed waits little, and
    /// one that is never shown costs few calls.
    pub(crate) fn is_given_up(&self, hash: Digest, now_secs: u64) -> bool {
        let mut missed = lock(&self.0);
        if missed.len() >= MAX_MISSED && !missed.contains_key(&hash) {
            let first = missed.iter().min_by_key(|(_, miss)| miss.since_secs).map(|(hash, _)| *hash);
            first.map(|hash| missed.remove(&hash));
        }
        let new = Miss { since_secs: now_secs, due_secs: now_secs, given_up: false };
        let miss = missed.entry(hash).or_insert(new);
        let age = now_secs.saturating_sub(miss.since_secs);
        miss.due_secs = now_secs.saturating_add((age / 2).min(MAX_MISSED_PAUSE_SECS));
        miss.given_up = age > MISSING_TIMEOUT_SECS;
        miss.given_up
    }

    pub(crate) fn turn(&self, hash: Digest, now_secs: u64) -> Turn {
        match lock(&self.0).get(&hash) {
            None => Turn::First,
            Some(miss) if miss.given_up => Turn::Never,
            Some(miss) if miss.due_secs <= now_secs => Turn::Again,
            Some(_) => Turn::Later,
        }
    }

    pub(crate) fn read(&self, hash: Digest) {
        lock(&self.0).remove(&hash);
    }
}

/// Transfers that are listed and are no deposits, such as those that failed, and when each was read. Nothing in the
/// database says that they were looked at, and anybody can make as many as they like.
#[derive(Debug, Default)]
pub struct NoDeposits(Mutex<HashMap<Digest, Instant>>);

impl NoDeposits {
    pub(crate) fn note(&self, hash: Digest, now: Instant) {
        let mut known = lock(&self.0);
        if known.len() >= MAX_NO_DEPOSITS && !known.contains_key(&hash) {
            let first = known.iter().min_by_key(|(_, at)| **at).map(|(hash, _)| *hash);
            first.map(|hash| known.remove(&hash));
        }
        known.insert(hash, now);
    }

    /// True if it need not be read again now.
    pub(crate) fn has(&self, hash: Digest, now: Instant) -> bool {
        lock(&self.0).get(&hash).is_some_and(|at| now.saturating_duration_since(*at) < NO_DEPOSIT_FOR)
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

    /// A transfer that is hours old when it is missed first, because we were down, is waited for as long as any other.
    #[test]
    fn a_transfer_is_given_up_an_hour_after_it_was_missed_first() {
        let (missed, first) = (Missed::default(), 1_000_000);
        assert!(!missed.is_given_up(hash(1), first));
        assert!(!missed.is_given_up(hash(1), first + MISSING_TIMEOUT_SECS));
        assert!(missed.is_given_up(hash(1), first + MISSING_TIMEOUT_SECS + 1));
        assert!(!missed.is_given_up(hash(2), first + MISSING_TIMEOUT_SECS + 1), "each has an hour of its own");
        missed.read(hash(1));
        assert!(!missed.is_given_up(hash(1), first + MISSING_TIMEOUT_SECS + 2), "it was read meanwhile");
    }

    #[test]
    fn a_missed_transfer_is_read_ever_more_slowly_and_not_once_it_is_given_up() {
        let (missed, first) = (Missed::default(), 1_000_000);
        assert_eq!(missed.turn(hash(1), first), Turn::First);
        missed.is_given_up(hash(1), first);
        assert_eq!(missed.turn(hash(1), first), Turn::Again, "it may be executed at any moment");
        missed.is_given_up(hash(1), first + 10);
        assert_eq!(missed.turn(hash(1), first + 14), Turn::Later);
        assert_eq!(missed.turn(hash(1), first + 15), Turn::Again);
        let old = first + MISSING_TIMEOUT_SECS;
        missed.is_given_up(hash(1), old);
        assert_eq!(missed.turn(hash(1), old + MAX_MISSED_PAUSE_SECS - 1), Turn::Later);
        let last = old + MAX_MISSED_PAUSE_SECS;
        assert_eq!(missed.turn(hash(1), last), Turn::Again, "an hour alone gives nothing up: it is read once more");
        assert!(missed.is_given_up(hash(1), last));
        assert_eq!(missed.turn(hash(1), last + MISSING_TIMEOUT_SECS), Turn::Never);
        missed.read(hash(1));
        assert_eq!(missed.turn(hash(1), last), Turn::First);
    }

    /// Three transfers that are never shown and the round's own two calls stay within the reads of a minute.
    #[test]
    fn a_few_transfers_that_are_never_shown_leave_calls_to_the_walk() {
        let (missed, mut reads) = (Missed::default(), 0);
        for second in (0..60).step_by(5) {
            if missed.turn(hash(1), second) != Turn::Later {
                missed.is_given_up(hash(1), second);
                reads += 1;
            }
        }
        assert!((4..=8).contains(&reads), "{reads} of 12 rounds");
    }

    #[test]
    fn as_many_missed_transfers_are_remembered_as_there_is_room_for() {
        let missed = Missed::default();
        for (at, n) in (100..).zip(0..=MAX_MISSED) {
            missed.is_given_up(hash(n), at);
        }
        let later = 200 + MISSING_TIMEOUT_SECS;
        assert_eq!(lock(&missed.0).len(), MAX_MISSED);
        assert!(missed.is_given_up(hash(1), later) && !missed.is_given_up(hash(0), later), "the first was forgotten");
    }

    #[test]
    fn a_transfer_that_is_no_deposit_is_read_again_after_an_hour() {
        let (known, now) = (NoDeposits::default(), Instant::now());
        assert!(!known.has(hash(1), now));
        known.note(hash(1), now);
        assert!(known.has(hash(1), now + NO_DEPOSIT_FOR - Duration::from_secs(1)));
        assert!(!known.has(hash(1), now + NO_DEPOSIT_FOR) && !known.has(hash(2), now));
    }

    #[test]
    fn as_many_transfers_that_are_no_deposits_are_remembered_as_there_is_room_for() {
        let (known, now) = (NoDeposits::default(), Instant::now());
        known.note(hash(0), now);
        let later = now + Duration::from_secs(1);
        for n in 1..=MAX_NO_DEPOSITS {
            known.note(hash(n), later);
        }
        assert_eq!(lock(&known.0).len(), MAX_NO_DEPOSITS);
        assert!(!known.has(hash(0), later) && known.has(hash(MAX_NO_DEPOSITS), later));
    }
}
