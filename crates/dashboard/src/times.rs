//! Times as text: ISO 8601 for programs, a readable form for people, both in UTC.

use domain::time::Timestamp;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECS: i64 = 86_400;

/// Hour, minute and second of the day, in UTC.
fn clock(at: Timestamp) -> (i64, i64, i64) {
    let of_day = at.secs().rem_euclid(DAY_SECS);
    (of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

fn month_name(month: u8) -> &'static str {
    MONTHS.get(usize::from(month).wrapping_sub(1)).copied().unwrap_or("?")
}

/// Such as `2026-11-16T22:28:34Z`.
pub(crate) fn iso(at: Timestamp) -> String {
    let ((year, month, day), (hour, minute, second)) = (at.date(), clock(at));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Reads the form that [`iso`] writes, and no other.
pub(crate) fn parse_iso(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u16>().ok()
    };
    let (month, day) = (u8::try_from(number(5, 7)?).ok()?, u8::try_from(number(8, 10)?).ok()?);
    let midnight = Timestamp::of_day(i64::from(number(0, 4)?), month, day)?;
    let of_day = i64::from(number(11, 13)?) * 3_600 + i64::from(number(14, 16)?) * 60 + i64::from(number(17, 19)?);
    let at = Timestamp::from_secs(midnight.secs() + of_day);
    (iso(at) == text).then_some(at)
}

/// Such as `16 Nov 2026, 22:28:34`.
pub(crate) fn readable(at: Timestamp) -> String {
    let ((year, month, day), (hour, minute, second)) = (at.date(), clock(at));
    format!("{day} {} {year}, {hour:02}:{minute:02}:{second:02}", month_name(month))
}

/// Such as `16 Nov`.
pub(crate) fn short_day(at: Timestamp) -> String {
    let (_, month, day) = at.date();
    format!("{day} {}", month_name(month))
}

/// A length of time in the largest unit that says enough.
pub(crate) fn length(millis: i64) -> String {
    let millis = millis.max(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => match millis % 1_000 / 100 {
            0 => format!("{} s", millis / 1_000),
            tenths => format!("{}.{tenths} s", millis / 1_000),
        },
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
            (2_000, "2 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(length(millis), text);
        }
    }
}
