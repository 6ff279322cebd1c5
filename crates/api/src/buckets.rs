//! Token buckets, one per client and kind of call: full at first, burst one window, refilled evenly.
//!
//! A bucket is one number, the moment at which it will be full again, so that rates may differ from client to client
//! and change while it is in use. How many buckets there are is bounded: the fullest ones are forgotten first.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::api_key::Rate;

/// Callers wait for each other only where their buckets share a shard.
const SHARDS: usize = 16;
/// Buckets kept in all.
const MAX_BUCKETS: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Buckets<K> {
    began: Instant,
    shards: [Mutex<HashMap<K, Duration>>; SHARDS],
    most_per_shard: usize,
    hasher: RandomState,
}

/// The call may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub left: u32,
    /// Until nothing of the allowance is missing.
    pub full_in: Duration,
}

/// The call came too early by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Empty {
    pub wait: Duration,
    pub full_in: Duration,
}

impl<K: Copy + Eq + Hash> Buckets<K> {
    pub(crate) fn new(now: Instant) -> Self {
        Self::holding(MAX_BUCKETS, now)
    }

    fn holding(most: usize, now: Instant) -> Self {
        Self {
            began: now,
            shards: Default::default(),
            most_per_shard: most.div_ceil(SHARDS),
            hasher: RandomState::new(),
        }
    }

    /// Takes one call out of a bucket.
    pub(crate) fn take(&self, key: K, rate: Rate, now: Instant) -> Result<Taken, Empty> {
        self.with(key, rate, now, true)
    }

    /// Checks that there is a call in a bucket, which stays there.
    pub(crate) fn peek(&self, key: K, rate: Rate, now: Instant) -> Result<Taken, Empty> {
        self.with(key, rate, now, false)
    }

    fn with(&self, key: K, rate: Rate, now: Instant, take: bool) -> Result<Taken, Empty> {
        let (now, window) = (now.saturating_duration_since(self.began), rate.window.duration());
        let interval = (window / rate.count.get()).max(Duration::from_nanos(1));
        let index = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        let mut shard = self.shards[index].lock().unwrap_or_else(PoisonError::into_inner);
        // After a rate changed, nobody pays for more than one of its windows.
        let full_at = shard.get_mut(&key).map_or(now, |full_at| {
            *full_at = (*full_at).min(now + window);
            (*full_at).max(now)
        });
        let next = full_at + interval;
        if next > now + window {
            return Err(Empty { wait: next - now - window, full_in: full_at - now });
        }
        if take {
            make_room(&mut shard, &key, self.most_per_shard, now);
            shard.insert(key, next);
        }
        let left = (now + window - next).as_nanos() / interval.as_nanos();
        Ok(Taken { left: u32::try_from(left).unwrap_or(u32::MAX), full_in: next - now })
    }
}

/// A full bucket is worth no more than a new one. If all are in use, the one that is nearest to full of a few is given up:
/// its client gains a little, and no new one is turned away.
fn make_room<K: Copy + Eq + Hash>(shard: &mut HashMap<K, Duration>, key: &K, most: usize, now: Duration) {
    const LOOKED_AT: usize = 8;
    if shard.len() < most || shard.contains_key(key) {
        return;
    }
    let nearest = shard.iter().take(LOOKED_AT).min_by_key(|(_, full_at)| **full_at).map(|(key, at)| (*key, *at));
    if let Some((nearest, full_at)) = nearest {
        shard.remove(&nearest);
        // Where one is full, there may be many.
        if full_at <= now {
            shard.retain(|_, full_at| *full_at > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_is_one_window_and_refills_evenly() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        for left in (0..50).rev() {
            assert_eq!(buckets.take(1, rate("50/min"), now).unwrap().left, left);
        }
        let empty = buckets.take(1, rate("50/min"), now).unwrap_err();
        assert_eq!(empty.wait, Duration::from_millis(1200));
        assert_eq!(empty.full_in, Duration::from_secs(60));
        let later = now + empty.wait;
        assert_eq!(buckets.take(1, rate("50/min"), later).unwrap().left, 0);
        assert!(buckets.take(1, rate("50/min"), later).is_err());
        // Another client has a bucket of its own, and a full window fills this one again.
        assert_eq!(buckets.take(2, rate("50/min"), later).unwrap().left, 49);
        assert_eq!(buckets.take(1, rate("50/min"), later + Duration::from_secs(60)).unwrap().left, 49);
    }

    #[test]
    fn in_any_time_no_more_than_two_windows_are_granted_in_one() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let granted = (0..6_000).filter(|ms| {
            let at = now + Duration::from_millis(*ms);
            buckets.take((), rate("10/s"), at).is_ok()
        });
        // The burst, and ten for each of six seconds.
        let granted = granted.count();
        assert!((69..=70).contains(&granted), "{granted}");
    }

    #[test]
    fn a_rate_may_change_while_it_is_used() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        for _ in 0..200 {
            buckets.take(1, rate("200/min"), now).unwrap();
        }
        // With less, the past costs one window at most.
        let empty = buckets.take(1, rate("10/s"), now).unwrap_err();
        assert_eq!(empty.wait, Duration::from_millis(100));
        assert!(buckets.peek(1, rate("10/s"), now + empty.wait).is_ok());
        assert!(buckets.take(1, rate("10/s"), now + empty.wait).is_ok());
        assert!(buckets.peek(1, rate("10/s"), now + empty.wait).is_err());
    }

    #[test]
    fn there_are_never_more_buckets_than_the_bound() {
        let now = Instant::now();
        let buckets = Buckets::holding(160, now);
        let count = || buckets.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        for client in 0..10_000 {
            assert!(buckets.take(client, rate("1/min"), now).is_ok());
            assert!(count() <= 160);
        }
        // A bucket that is full by now is forgotten as soon as room is needed.
        let later = now + Duration::from_secs(61);
        for client in 20_000..20_100 {
            buckets.take(client, rate("1/min"), later).unwrap();
        }
        assert!(count() < 160, "{}", count());
    }
}
