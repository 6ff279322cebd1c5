//! Configuration of the retirement of `GET /requests/v2`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::{Result, ensure};
use api::Schedule;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestsV2Config {
    pub deprecated_at: Day,
    /// From this day on the route answers 410.
    pub sunset_at: Day,
    /// A page that says how to move to the successor. The API's own page by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_guide: Option<Url>,
    /// Calls of a key before the first cut.
    pub per_minute: NonZeroU32,
    pub cuts: Vec<CutConfig>,
}

/// A lower limit from some day on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutConfig {
    pub from: Day,
    pub per_minute: NonZeroU32,
}

/// A day, which begins at midnight in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(Timestamp);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADay;

impl fmt::Display for NotADay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a day such as 2026-11-24")
    }
}

impl std::error::Error for NotADay {}

impl FromStr for Day {
    type Err = NotADay;

    fn from_str(text: &str) -> Result<Self, NotADay> {
        let number = |at: std::ops::Range<usize>| {
            let digits = text.get(at).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse::<u16>().ok()
        };
        let parsed = || {
            let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
            let day = Timestamp::of_day(year.into(), month.try_into().ok()?, day.try_into().ok()?)?;
            Some(Self(day)).filter(|day| day.to_string() == text)
        };
        parsed().ok_or(NotADay)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.0.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl TryFrom<String> for Day {
    type Error = NotADay;

    fn try_from(text: String) -> Result<Self, NotADay> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

impl Default for RequestsV2Config {
    fn default() -> Self {
        let Schedule { deprecated_at, per_minute, cuts, sunset_at } = Schedule::default();
        let cut = |(from, per_minute)| CutConfig { from: Day(from), per_minute };
        Self {
            deprecated_at: Day(deprecated_at),
            sunset_at: Day(sunset_at),
            migration_guide: None,
            per_minute,
            cuts: cuts.into_iter().map(cut).collect(),
        }
    }
}

impl RequestsV2Config {
    pub fn schedule(&self) -> Schedule {
        Schedule {
            deprecated_at: self.deprecated_at.0,
            per_minute: self.per_minute,
            cuts: self.cuts.iter().map(|cut| (cut.from.0, cut.per_minute)).collect(),
            sunset_at: self.sunset_at.0,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.deprecated_at <= self.sunset_at, "requests_v2.sunset_at: must not be before deprecated_at");
        ensure!(self.cuts.len() <= 100, "requests_v2.cuts: must be at most 100");
        let in_order = self.cuts.windows(2).all(|pair| pair[0].from < pair[1].from);
        ensure!(in_order, "requests_v2.cuts: must be in the order of time, one for a day");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_in_one_form() {
        for text in ["2026-11-24", "2000-02-29", "0001-01-01", "9999-12-31"] {
            assert_eq!(text.parse::<Day>().unwrap().to_string(), text);
        }
        for text in
            ["", "2026-11-31", "2026-1-24", "26-11-24", "2026/11/24", "2026-11-24T00:00:00Z", "+026-11-24", "2026-é1-2"]
        {
            assert_eq!(text.parse::<Day>(), Err(NotADay), "{text}");
        }
    }

    #[test]
    fn the_dates_of_the_interface_are_the_default() {
        let config = RequestsV2Config::default();
        assert_eq!(config.schedule(), Schedule::default());
        assert_eq!(
            (config.deprecated_at.to_string(), config.sunset_at.to_string()),
            ("2026-07-22".into(), "2026-11-24".into())
        );
        config.check().unwrap();
    }

    #[test]
    fn days_out_of_order_are_refused() {
        let plain = RequestsV2Config::default;
        let early = RequestsV2Config { sunset_at: "2026-07-21".parse().unwrap(), ..plain() };
        assert!(early.check().unwrap_err().to_string().contains("sunset_at"));
        let mut twisted = plain();
        twisted.cuts.swap(0, 1);
        assert!(twisted.check().unwrap_err().to_string().contains("cuts"));
    }
}
