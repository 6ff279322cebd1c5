//! Alarms of a chain that no row of the database tells of. They are told for a day, or until this process ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::alarm::Alarm;

/// Time for which an alarm is told.
const TOLD_FOR: Duration = Duration::from_secs(86_400);

#[derive(Debug, Default)]
pub struct Alarms(Mutex<BTreeMap<Alarm, (String, Instant)>>);

impl Alarms {
    /// Tells of something that went wrong. The newest of a kind is told.
    pub fn raise(&self, alarm: Alarm, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(alarm, (text, Instant::now()));
    }

    /// Ends an alarm of which the cause is gone.
    pub fn clear(&self, alarm: Alarm) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&alarm);
    }

    pub fn all(&self) -> Vec<(Alarm, String)> {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = raised.iter().filter(|(_, (_, at))| at.elapsed() < TOLD_FOR);
        fresh.map(|(alarm, (text, _))| (*alarm, text.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_alarm_of_a_kind_is_told_until_its_cause_is_gone() {
        let alarms = Alarms::default();
        alarms.raise(Alarm::NodesDisagree, "one".to_owned());
        alarms.raise(Alarm::NodesDisagree, "two".to_owned());
        assert_eq!(alarms.all(), [(Alarm::NodesDisagree, "two".to_owned())]);
        alarms.clear(Alarm::NodesDisagree);
        assert!(alarms.all().is_empty());
    }
}
