//! Group commit: when quotes wait for each other.
//!
//! A commit costs nearly the same for one quote as for twenty: the sync, the pages at the end of each index, the
//! threads that are woken. Under load that was a tenth of the whole time of a quote. So where quotes crowd, the writer
//! waits for more of them before it begins the next commit. A lone quote never waits, and neither does money.

use std::time::{Duration, Instant};

/// The time the next batch may wait for more quotes.
const GROUP_WAIT: Duration = Duration::from_micros(1500);
/// The quotes in one commit that make a crowd: several callers ask at once.
const GROUP_SIZE: usize = 4;
/// The size a group must reach for its wait to be worth it. A few callers who each wait for their answer bring no more,
/// however long the wait.
const WORTHWHILE_GROUP: usize = 12;
/// After this many misses in a row, nobody is made to wait for a while.
const MISSES: u32 = 2;
const RETRY_GROUPS_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    crowded: bool,
    waited: bool,
    misses: u32,
    rests_until: Option<Instant>,
}

impl GroupCommit {
    /// The time to wait before the next batch.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.waited = self.crowded && self.rests_until.is_none_or(|until| now >= until);
        self.waited.then_some(GROUP_WAIT)
    }

    /// Records that this many quotes shared a commit.
    pub(crate) fn committed(&mut self, quotes: usize, now: Instant) {
        self.crowded = quotes >= GROUP_SIZE;
        if !self.waited {
            return;
        }
        self.misses = if quotes < WORTHWHILE_GROUP { self.misses + 1 } else { 0 };
        if self.misses >= MISSES {
            self.misses = 0;
            self.rests_until = Some(now + RETRY_GROUPS_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_quote_does_not_wait() {
        let (mut group_commit, now) = (GroupCommit::default(), Instant::now());
        for quotes in [1, 2, GROUP_SIZE - 1] {
            assert_eq!(group_commit.wait(now), None);
            group_commit.committed(quotes, now);
        }
        assert_eq!(group_commit.wait(now), None);
    }

    #[test]
    fn a_crowd_waits_as_long_as_it_is_worth_it() {
        let (mut group_commit, now) = (GroupCommit::default(), Instant::now());
        group_commit.committed(GROUP_SIZE, now);
        assert_eq!(group_commit.wait(now), Some(GROUP_WAIT));
        group_commit.committed(WORTHWHILE_GROUP, now);
        assert_eq!(group_commit.wait(now), Some(GROUP_WAIT));
        for _ in 0..MISSES {
            assert_eq!(group_commit.wait(now), Some(GROUP_WAIT));
            group_commit.committed(WORTHWHILE_GROUP - 1, now);
        }
        assert_eq!(group_commit.wait(now), None, "it rests");
        group_commit.committed(GROUP_SIZE, now);
        assert_eq!(group_commit.wait(now + RETRY_GROUPS_AFTER), Some(GROUP_WAIT), "and tries again");
        group_commit.committed(1, now + RETRY_GROUPS_AFTER);
        assert_eq!(group_commit.wait(now + RETRY_GROUPS_AFTER + RETRY_GROUPS_AFTER), None, "the crowd is gone");
    }
}
