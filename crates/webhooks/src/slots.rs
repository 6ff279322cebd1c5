//! Slots for posts that are under way: a bound on all of them, and a share for each endpoint, so that a slow or dead
//! receiver holds up nobody else.
//!
//! Receivers that failed or were slow the last time share a pool of their own. One that has not answered yet since the
//! start has a single slot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::webhooks::EndpointId;
use tokio::sync::Notify;

use crate::env::MAX_POSTS_PER_ENDPOINT;

/// Posts under way to receivers that answer well, and to the others.
const QUICK_SLOTS: usize = 16 * MAX_POSTS_PER_ENDPOINT;
const SLOW_SLOTS: usize = 32;
/// All posts under way in a process.
pub(crate) const MAX_UNDER_WAY: usize = QUICK_SLOTS + SLOW_SLOTS;
/// An answer that takes longer is a slow one.
pub(crate) const SLOW_ANSWER_THRESHOLD: Duration = Duration::from_secs(2);
/// Endpoints that are remembered; beyond that all are forgotten, and have a single slot again.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Quick,
    Slow,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Clone, Debug, Default)]
struct State {
    under_way: HashMap<EndpointId, usize>,
    quick_used: usize,
    slow_used: usize,
    quick: HashSet<EndpointId>,
    slow: HashSet<EndpointId>,
}

impl State {
    fn room(&self, endpoint: EndpointId) -> usize {
        let share = if self.quick.contains(&endpoint) { MAX_POSTS_PER_ENDPOINT } else { 1 };
        share.saturating_sub(self.under_way.get(&endpoint).copied().unwrap_or_default())
    }

    /// A retry to a receiver that is not known to answer is likely to be slow.
    fn pool(&self, endpoint: EndpointId, failed: u32) -> Pool {
        let doubtful = !self.quick.contains(&endpoint) && failed > 0;
        if doubtful || self.slow.contains(&endpoint) { Pool::Slow } else { Pool::Quick }
    }
}

/// The room of every endpoint at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Rooms(State);

impl Rooms {
    pub(crate) fn of(&self, endpoint: EndpointId) -> i64 {
        i64::try_from(self.0.room(endpoint)).unwrap_or_default()
    }
}

/// A post under way. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    endpoint: EndpointId,
    pool: Pool,
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rooms(&self) -> Rooms {
        Rooms(self.state().clone())
    }

    /// A slot for a delivery with so many failed attempts, if there is one.
    pub(crate) fn take(&self, endpoint: EndpointId, failed: u32) -> Option<Slot> {
        let mut state = self.state();
        let pool = state.pool(endpoint, failed);
        let (used, most) = match pool {
            Pool::Quick => (state.quick_used, QUICK_SLOTS),
            Pool::Slow => (state.slow_used, SLOW_SLOTS),
        };
        if used >= most || state.room(endpoint) == 0 {
            return None;
        }
        match pool {
            Pool::Quick => state.quick_used += 1,
            Pool::Slow => state.slow_used += 1,
        }
        *state.under_way.entry(endpoint).or_default() += 1;
        Some(Slot { slots: self.clone(), endpoint, pool })
    }

    /// Resolves when a slot was freed since the last time.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

impl Slot {
    /// All posts under way, of every endpoint.
    pub(crate) fn under_way(&self) -> usize {
        let state = self.slots.state();
        state.quick_used + state.slow_used
    }

    /// Remembers how the receiver answered.
    pub(crate) fn answered(&self, well: bool) {
        let mut state = self.slots.state();
        if state.quick.len() + state.slow.len() >= MAX_REMEMBERED {
            state.quick.clear();
            state.slow.clear();
        }
        if well {
            state.slow.remove(&self.endpoint);
            state.quick.insert(self.endpoint);
        } else {
            state.quick.remove(&self.endpoint);
            state.slow.insert(self.endpoint);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        match self.pool {
            Pool::Quick => state.quick_used = state.quick_used.saturating_sub(1),
            Pool::Slow => state.slow_used = state.slow_used.saturating_sub(1),
        }
        let left = state.under_way.get(&self.endpoint).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            state.under_way.remove(&self.endpoint);
        } else {
            state.under_way.insert(self.endpoint, left);
        }
        drop(state);
        self.slots.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_one_slot_until_it_answers_well_and_again_once_it_does_not() {
        let (slots, endpoint) = (Slots::default(), EndpointId(1));
        assert_eq!(slots.rooms().of(endpoint), 1);
        let first = slots.take(endpoint, 0).unwrap();
        assert!(slots.take(endpoint, 0).is_none());
        first.answered(true);
        drop(first);
        let taken: Vec<_> = std::iter::from_fn(|| slots.take(endpoint, 0)).collect();
        assert_eq!(taken.len(), MAX_POSTS_PER_ENDPOINT);
        taken[0].answered(false);
        drop(taken);
        assert_eq!(slots.rooms().of(endpoint), 1);
    }

    #[test]
    fn dead_endpoints_leave_slots_for_all_others() {
        let slots = Slots::default();
        // They have failed before: each wants a slot, and together they have their own pool.
        let dead: Vec<_> = (0..1_000).filter_map(|n| slots.take(EndpointId(n), 1)).collect();
        assert_eq!(dead.len(), SLOW_SLOTS);
        let good: Vec<_> = (1_000..2_000).filter_map(|n| slots.take(EndpointId(n), 0)).collect();
        assert_eq!(good.len(), QUICK_SLOTS);
        drop((dead, good));
        assert!(slots.take(EndpointId(1), 1).is_some());
        assert!(slots.take(EndpointId(2), 0).is_some());
    }
}
