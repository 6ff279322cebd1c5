//! When quotes wait for each other.
//!
//! A commit takes nearly the same for one quote as for twenty: the sync, the pages at the end of each index, the threads
//! that are woken. Under load that was a tenth of all that a quote took. So where quotes crowd, the writer lets more of
//! them come before it begins the next commit. A caller that comes alone never waits, and neither does money.

use std::time::{Duration, Instant};

/// How long the next batch may wait for company.
const COMPANY: Duration = Duration::from_micros(1500);
/// So many quotes in one commit are a crowd: several callers ask at once.
const CROWD: usize = 4;
/// What waiting has to gather to be worth it. A few callers who each wait for their answer bring no more however long
/// they are waited for.
const WORTH: usize = 12;
/// After so many times in a row that were not worth it, nobody is made to wait for a while.
const MISSES: u32 = 2;
const REST: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Pace {
    crowded: bool,
    waited: bool,
    misses: u32,
    rests_until: Option<Instant>,
}

impl Pace {
    /// How long to wait before the next batch.
    pub fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.waited = self.crowded && self.rests_until.is_none_or(|until| now >= until);
        self.waited.then_some(COMPANY)
    }

    /// So many quotes shared a commit.
    pub fn committed(&mut self, quotes: usize, now: Instant) {
        self.crowded = quotes >= CROWD;
        if !self.waited {
            return;
        }
        self.misses = if quotes < WORTH { self.misses + 1 } else { 0 };
        if self.misses >= MISSES {
            self.misses = 0;
            self.rests_until = Some(now + REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_alone_does_not_wait() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for quotes in [1, 2, CROWD - 1] {
            assert_eq!(pace.wait(now), None);
            pace.committed(quotes, now);
        }
        assert_eq!(pace.wait(now), None);
    }

    #[test]
    fn a_crowd_waits_as_long_as_it_is_worth_it() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.committed(CROWD, now);
        assert_eq!(pace.wait(now), Some(COMPANY));
        pace.committed(WORTH, now);
        assert_eq!(pace.wait(now), Some(COMPANY));
        for _ in 0..MISSES {
            assert_eq!(pace.wait(now), Some(COMPANY));
            pace.committed(WORTH - 1, now);
        }
        assert_eq!(pace.wait(now), None, "it rests");
        pace.committed(CROWD, now);
        assert_eq!(pace.wait(now + REST), Some(COMPANY), "and tries again");
        pace.committed(1, now + REST);
        assert_eq!(pace.wait(now + REST + REST), None, "the crowd is gone");
    }
}
