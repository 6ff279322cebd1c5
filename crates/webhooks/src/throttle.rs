//! The throttle: the most deliveries that a process begins in a second. Receivers and payments share its cores, and a
//! queue of a hundred thousand events must not delay a fill.

use std::time::{Duration, Instant};

use crate::recorder::ROWS_PER_UNIT;

/// Deliveries begin in groups, one write each, of which so many begin in a second: a large group would keep the writer
/// and the cores from a payment for longer.
const GROUPS_PER_SECOND: u32 = 200;

/// The time that a queue may catch up on after a slow write. Longer rest is not saved up.
const CATCH_UP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Throttle {
    per_second: u32,
    /// The moment at which the next group may begin.
    next: Instant,
}

impl Throttle {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: per_second.max(1), next: Instant::now() }
    }

    /// Deliveries that begin together.
    pub(crate) fn group(&self) -> usize {
        usize::try_from(self.per_second / GROUPS_PER_SECOND)
            .map_or(ROWS_PER_UNIT, |group| group.clamp(1, ROWS_PER_UNIT))
    }

    /// The time until so many deliveries may begin, which takes their turn. After a pause they begin at once.
    pub(crate) fn turn(&mut self, deliveries: usize, now: Instant) -> Duration {
        let begin = now.checked_sub(CATCH_UP).map_or(self.next, |earliest| self.next.max(earliest));
        let share = Duration::from_secs(1) / self.per_second;
        self.next = begin + share.saturating_mul(u32::try_from(deliveries).unwrap_or(u32::MAX));
        begin.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_paced_and_a_single_event_is_not() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.group(), 5);
        // A minute of rest makes the queue quicker by the time to catch up, and no more.
        let now = Instant::now() + Duration::from_secs(60);
        let begins: Vec<u128> = (0..211).map(|_| throttle.turn(5, now).as_millis()).collect();
        assert_eq!((begins[0], begins[10], begins[11], begins[210]), (0, 0, 5, 1_000));
        assert_eq!(throttle.turn(1, now + Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn a_group_is_a_delivery_at_least_and_a_unit_at_most() {
        assert_eq!(Throttle::new(10).group(), 1);
        assert_eq!(Throttle::new(100_000).group(), ROWS_PER_UNIT);
    }
}
