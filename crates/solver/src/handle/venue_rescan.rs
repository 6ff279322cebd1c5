//! The slow walk along the account's history, far behind the cursor: where it is, and when it is due again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use venue::Listed;

/// Time between two slow walks, and how far back each goes, unless the operator says otherwise.
pub const RESCAN_INTERVAL: Duration = Duration::from_secs(600);
pub const RESCAN_REACH: Duration = Duration::from_secs(6 * 3_600);

#[derive(Debug)]
pub struct VenueRescan {
    interval: Duration,
    reach: Duration,
    state: Mutex<State>,
}

/// No pass and no time: one is due at once. A downtime is when transfers are missed.
#[derive(Debug, Default)]
struct State {
    next: Option<Instant>,
    pass: Option<Pass>,
}

/// One walk from the head of the history to the end of its reach, over as many rounds as it takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The venue's own cursor of the page that comes next. None for the first.
    pub(crate) page: Option<String>,
    pub(crate) pages: usize,
    /// True once no page comes next.
    pub(crate) read_all: bool,
    /// Transfers of the pages read so far that are not known.
    pub(crate) queue: VecDeque<Listed>,
}

impl Default for VenueRescan {
    fn default() -> Self {
        Self::new(RESCAN_INTERVAL, RESCAN_REACH)
    }
}

impl VenueRescan {
    pub fn new(interval: Duration, reach: Duration) -> Self {
        Self { interval, reach, state: Mutex::default() }
    }

    pub(crate) fn reach_secs(&self) -> u64 {
        self.reach.as_secs()
    }

    /// The pass that is under way, or a new one when it is due. Whoever takes it gives it back.
    pub(crate) fn take(&self, now: Instant) -> Option<Pass> {
        let mut state = self.lock();
        match state.pass.take() {
            Some(pass) => Some(pass),
            None => state.next.is_none_or(|next| next <= now).then(Pass::default),
        }
    }

    /// Gives a pass back: the next round goes on with it, or the next pass is due after a while.
    pub(crate) fn put_back(&self, pass: Pass, now: Instant) {
        let mut state = self.lock();
        match pass.read_all && pass.queue.is_empty() {
            true => state.next = Some(now + self.interval),
            false => state.pass = Some(pass),
        }
    }

    /// Ends a pass that cannot go on.
    pub(crate) fn give_up(&self, now: Instant) {
        self.lock().next = Some(now + self.interval);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_on_until_it_has_read_all_and_the_next_is_due_after_a_while() {
        let (rescan, now) = (VenueRescan::new(Duration::from_secs(600), RESCAN_REACH), Instant::now());
        let first = rescan.take(now).unwrap();
        assert_eq!(first, Pass::default(), "one is due at the start");
        rescan.put_back(Pass { page: Some("50".to_owned()), pages: 1, ..first }, now);
        let second = rescan.take(now).unwrap();
        assert_eq!(second.pages, 1);
        rescan.put_back(Pass { read_all: true, ..second }, now);
        assert_eq!(rescan.take(now + Duration::from_secs(599)), None);
        assert_eq!(rescan.take(now + Duration::from_secs(600)), Some(Pass::default()));
    }

    #[test]
    fn a_pass_that_cannot_go_on_begins_again_later() {
        let (rescan, now) = (VenueRescan::default(), Instant::now());
        assert!(rescan.take(now).is_some());
        rescan.give_up(now);
        assert_eq!(rescan.take(now), None);
        assert!(rescan.take(now + RESCAN_INTERVAL).is_some());
    }
}
