//! Times as text: ISO 8601 for programs, a readable form for people, both in UTC.

use domain::time::Timestamp;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECS: i64 = 86_400;

/// A date and time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Civil {
    /// By the algorithm of Howard Hinnant: years begin in March, so that the leap day is the last.
    fn of(secs: i64) -> Self {
        let (days, rest) = (secs.div_euclid(DAY_SECS), secs.rem_euclid(DAY_SECS));
        let shifted = days.saturating_add(719_468);
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    fn secs(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let shifted_month = (self.month + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
        days * DAY_SECS + self.hour * 3_600 + self.minute * 60 + self.second
    }
}

/// Such as `2026-11-16T22:28:34Z`.
pub(crate) fn iso(at: Timestamp) -> String {
    let it = Civil::of(at.secs());
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", it.year, it.month, it.day, it.hour, it.minute, it.second)
}

/// Reads the form that [`iso`] writes, and no other.
pub(crate) fn parse_iso(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<i64>().ok()
    };
    let civil = Civil {
        year: number(0, 4)?,
        month: number(5, 7)?,
        day: number(8, 10)?,
        hour: number(11, 13)?,
        minute: number(14, 16)?,
        second: number(17, 19)?,
    };
    let at = Timestamp::from_secs(civil.secs());
    (iso(at) == text).then_some(at)
}

/// Such as `16 Nov 2026, 22:28:34`.
pub(crate) fn readable(at: Timestamp) -> String {
    let it = Civil::of(at.secs());
    let month = usize::try_from(it.month - 1).ok().and_then(|index| MONTHS.get(index)).copied().unwrap_or("?");
    format!("{} {month} {}, {:02}:{:02}:{:02}", it.day, it.year, it.hour, it.minute, it.second)
}

/// Such as `16 Nov`.
pub(crate) fn short_day(at: Timestamp) -> String {
    let it = Civil::of(at.secs());
    let month = usize::try_from(it.month - 1).ok().and_then(|index| MONTHS.get(index)).copied().unwrap_or("?");
    format!("{} {month}", it.day)
}

/// A length of time in the largest unit that says enough.
pub(crate) fn length(millis: i64) -> String {
    let millis = millis.max(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1_000 % 60),
        3_600_000..86_400_000 => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
        _ => format!("{} d {} h", millis / 86_400_000, millis / 3_600_000 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_and_read_back() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_790_000_000, "2026-09-21T14:13:20Z"),
        ] {
            assert_eq!(iso(Timestamp::from_secs(secs)), text);
            assert_eq!(parse_iso(text), Some(Timestamp::from_secs(secs)));
        }
        for text in
            ["", "2026-02-30T00:00:00Z", "2026-09-21T14:13:20", "2026-09-21 14:13:20Z", "2026-09-21T14:13:20+00"]
        {
            assert_eq!(parse_iso(text), None, "{text}");
        }
        assert_eq!(readable(Timestamp::from_secs(1_790_000_000)), "21 Sep 2026, 14:13:20");
        assert_eq!(short_day(Timestamp::from_secs(1_790_000_000)), "21 Sep");
    }

    #[test]
    fn a_length_has_the_unit_that_fits() {
        for (millis, text) in [
            (-5, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(length(millis), text);
        }
    }
}
