//! The page of alarms, as the operator's page quotes it: what an alarm means, and what to do about it.

/// The documentation itself: a test of the workspace holds it to the list of alarms.
const PAGE: &str = include_str!("../../../docs/alarms.md");

/// Meaning and remedy of an alarm, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub means: &'static str,
    pub remedy: &'static str,
}

/// The row of an alarm.
pub(crate) fn advice(name: &str) -> Option<Advice> {
    let cell = format!("`{name}`");
    PAGE.lines().find_map(|line| {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        if cells.next()? != cell {
            return None;
        }
        Some(Advice { means: cells.next()?, remedy: cells.next()? })
    })
}

#[cfg(test)]
mod tests {
    use domain::alarm::Alarm;

    use super::*;

    #[test]
    fn every_alarm_says_what_to_do() {
        for alarm in Alarm::ALL {
            let advice = advice(alarm.as_str()).unwrap_or_else(|| panic!("{alarm:?} is not on the page"));
            assert!(advice.means.len() > 10 && advice.remedy.len() > 10, "{alarm:?}: {advice:?}");
        }
        assert_eq!(advice("nothing"), None);
    }
}
