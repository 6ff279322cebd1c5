//! Points in time, as the rules see them: an argument, never a clock.

use std::time::Duration;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Midnight in UTC of a day from year 1 to 9999. None where the calendar has no such day.
    pub fn of_day(year: i64, month: u8, day: u8) -> Option<Self> {
        if !(1..=9_999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        // Years that begin in March have their odd day at the end; an era is 400 of them.
        let (shifted, months) = if month > 2 { (year, i64::from(month) - 3) } else { (year - 1, i64::from(month) + 9) };
        let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
        let of_year = (153 * months + 2) / 5 + i64::from(day) - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        let at = Self(days * MILLIS_PER_DAY);
        (at.date() == (year, month, day)).then_some(at)
    }

    /// Year, month and day in UTC.
    pub fn date(self) -> (i64, u8, u8) {
        let days = self.0.div_euclid(MILLIS_PER_DAY);
        let (era, day) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let small = |number: i64| u8::try_from(number).expect("months and days are small");
        (year + era * 400 + later, small(month), small(day))
    }

    /// Stops at the end of time instead of wrapping around it.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        for ((year, month, day), secs) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 951_782_400),
            ((2000, 3, 1), 951_868_800),
            ((2026, 7, 22), 1_784_678_400),
            ((2026, 11, 24), 1_795_478_400),
            ((1969, 12, 31), -86_400),
        ] {
            let at = Timestamp::of_day(year, month, day).unwrap();
            assert_eq!(at.secs(), secs, "{year}-{month}-{day}");
            assert_eq!(Timestamp::from_secs(secs + 86_399).date(), (year, month, day));
        }
        for (year, month, day) in [(2026, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 4, 31), (2026, 4, 0), (0, 1, 1)] {
            assert_eq!(Timestamp::of_day(year, month, day), None, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in (0..146_097).map(|day| Timestamp::from_secs(day * 86_400)) {
            let (year, month, of_month) = day.date();
            assert_eq!(Timestamp::of_day(year, month, of_month), Some(day));
        }
    }
}
