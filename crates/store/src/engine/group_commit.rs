//! When quotes wait for each other.
//!
//! A commit takes nearly the same for one quote as for twenty: the sync, the pages at the end of each index, the threads
//! that are woken. Under load that was a tenth of all that a quote took. So where quotes crowd, the writer lets more of
//! them come before it begins the next commit. A caller that comes alone never waits, and neither does money.

use std::time::{Duration, Instant};

/// How long the next batch may wait for company.
const GROUP_WAIT: Duration = Duration::from_micros(1500);
/// So many quotes in one commit are a crowd: several callers ask at once.
const GROUP_SIZE: usize = 4;
/// What waiting has to gather to be worth it. A few callers who each wait for their answer bring no more however long
/// they are waited for.
const WORTHWHILE_GROUP: usize = 12;
/// After so many times in a row that were not worth it, nobody is made to wait for a while.
const MISSES: u32 = 2;
const RETRY_GROUPS_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct GroupCommit {
    crowded: bool,
    waited: bool,
    misses: u32,
    rests_until: Option<Instant>,
}

impl GroupCommit {
    /// How long to wait before the next batch.
    pub fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.waited = self.crowded && self.rests_until.is_none_or(|until| now >= until);
        self.waited.then_some(GROUP_WAIT)
    }

    /// So many quotes shared a commit.
    pub fn committed(&mut self, quotes: usize, now: Instant) {
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
    fn who_comes_alone_does_not_wait() {
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
