//! The retirement of `GET /requests/v2`: announced on each of its answers, its limit cut step by step, and one day it
//! is gone.

use std::num::NonZeroU32;

use axum::http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, InvalidHeaderValue, LINK};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

const PATH: &str = "/requests/v2";
const SUCCESSOR: &str = "/requests/v3";

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");
/// The headers that say so, for pages of other origins.
const READABLE: HeaderValue = HeaderValue::from_static("deprecation,sunset,link");

/// The dates of the retirement, as the operator sets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub deprecated_at: Timestamp,
    /// Calls a minute of a key at first. An address without one has half of them, at every step.
    pub per_minute: NonZeroU32,
    /// From when on there are fewer, in the order of time.
    pub cuts: Vec<(Timestamp, NonZeroU32)>,
    /// From when on the route is gone.
    pub sunset_at: Timestamp,
}

impl Default for Schedule {
    fn default() -> Self {
        let day = |month, day| Timestamp::of_day(2026, month, day).expect("these are days of the calendar");
        let count = |count| NonZeroU32::new(count).expect("these are more than zero");
        let cut = |(month, on, calls)| (day(month, on), count(calls));
        Self {
            deprecated_at: day(7, 22),
            per_minute: count(200),
            cuts: [(8, 22, 150), (9, 22, 100), (10, 22, 50), (11, 22, 20)].map(cut).into(),
            sunset_at: day(11, 24),
        }
    }
}

/// The schedule with the texts that announce it, made once.
#[derive(Clone, Debug)]
pub struct Retirement {
    schedule: Schedule,
    successor: Successor,
    deprecation: HeaderValue,
    sunset: HeaderValue,
    link: HeaderValue,
}

/// Where callers of the retired route should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    pub route: String,
    pub guide: String,
}

/// The announcement in the body of a good answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deprecation)]
pub(crate) struct DeprecationBody<'a> {
    message: String,
    deprecated_at: String,
    /// The first cut of the limit.
    throttled_from: String,
    /// From then on the answer is 410.
    sunset_at: String,
    successor: &'a str,
    migration_guide: &'a str,
}

/// Whether a path is the one that retires.
pub(crate) fn is_about(path: &str) -> bool {
    path == PATH
}

impl Retirement {
    /// `guide` is the address of a page that says how to move on; without one it is the page of the API.
    pub fn new(schedule: Schedule, base_url: &str, guide: Option<&str>) -> Result<Self, InvalidHeaderValue> {
        let base_url = base_url.trim_end_matches('/');
        let guide = guide.map_or_else(|| format!("{base_url}/documentation"), str::to_owned);
        let successor = Successor { route: format!("{base_url}{SUCCESSOR}"), guide };
        let link = format!(
            "<{guide}>; rel=\"deprecation\", <{guide}>; rel=\"sunset\", <{route}>; rel=\"successor-version\"",
            guide = successor.guide,
            route = successor.route
        );
        Ok(Self {
            deprecation: HeaderValue::from_str(&format!("@{}", schedule.deprecated_at.secs()))?,
            sunset: HeaderValue::from_str(&http_date(schedule.sunset_at))?,
            link: HeaderValue::from_str(&link)?,
            successor,
            schedule,
        })
    }

    /// The calls a minute that a key has now.
    pub(crate) fn per_minute(&self, now: Timestamp) -> NonZeroU32 {
        let cut = self.schedule.cuts.iter().rev().find(|(from, _)| *from <= now);
        cut.map_or(self.schedule.per_minute, |(_, calls)| *calls)
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.schedule.sunset_at <= now
    }

    pub(crate) fn successor(&self) -> Successor {
        self.successor.clone()
    }

    /// Announces it on an answer, whatever that is.
    pub(crate) fn announce(&self, headers: &mut HeaderMap) {
        headers.insert(DEPRECATION, self.deprecation.clone());
        headers.insert(SUNSET, self.sunset.clone());
        headers.insert(LINK, self.link.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
    }

    pub(crate) fn body(&self) -> DeprecationBody<'_> {
        let Schedule { deprecated_at, sunset_at, .. } = self.schedule;
        let throttled_from = self.schedule.cuts.first().map_or(sunset_at, |(from, _)| *from);
        DeprecationBody {
            message: format!(
                "GET {PATH} is deprecated and ends on {}: use GET {SUCCESSOR}, which needs an API key",
                day(sunset_at)
            ),
            deprecated_at: instant(deprecated_at),
            throttled_from: instant(throttled_from),
            sunset_at: instant(sunset_at),
            successor: &self.successor.route,
            migration_guide: &self.successor.guide,
        }
    }
}

fn day(at: Timestamp) -> String {
    let (year, month, day) = at.date();
    format!("{year:04}-{month:02}-{day:02}")
}

/// Hours, minutes and seconds of its day.
fn clock(at: Timestamp) -> String {
    let secs = at.secs().rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", secs / 3_600, secs / 60 % 60, secs % 60)
}

/// ISO 8601 in UTC, to the second.
fn instant(at: Timestamp) -> String {
    format!("{}T{}Z", day(at), clock(at))
}

/// The form of dates in headers (RFC 9110).
fn http_date(at: Timestamp) -> String {
    // The epoch began on a Thursday.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = at.date();
    let weekday = usize::try_from(at.secs().div_euclid(86_400).rem_euclid(7)).unwrap_or_default();
    let month = MONTHS[usize::from(month).saturating_sub(1).min(11)];
    format!("{}, {day:02} {month} {year:04} {} GMT", DAYS[weekday], clock(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiError;

    fn retirement() -> Retirement {
        Retirement::new(Schedule::default(), "https://api.example/", None).unwrap()
    }

    fn at(month: u8, day: u8) -> Timestamp {
        Timestamp::of_day(2026, month, day).unwrap()
    }

    #[test]
    fn the_limit_is_cut_every_month_until_the_route_is_gone() {
        let retirement = retirement();
        let before = |at: Timestamp| Timestamp::from_millis(at.millis() - 1);
        for (now, calls, gone) in [
            (at(1, 1), 200, false),
            (at(7, 22), 200, false),
            (before(at(8, 22)), 200, false),
            (at(8, 22), 150, false),
            (before(at(9, 22)), 150, false),
            (at(9, 22), 100, false),
            (at(10, 22), 50, false),
            (at(11, 16), 50, false),
            (at(11, 22), 20, false),
            (before(at(11, 24)), 20, false),
            (at(11, 24), 20, true),
            (at(11, 25), 20, true),
        ] {
            assert_eq!((retirement.per_minute(now).get(), retirement.is_over(now)), (calls, gone), "{now:?}");
        }
    }

    #[test]
    fn an_operator_can_move_the_sunset() {
        let schedule = Schedule { sunset_at: at(12, 24), cuts: Vec::new(), ..Schedule::default() };
        let moved = Retirement::new(schedule, "https://api.example", Some("https://docs.example/v3")).unwrap();
        assert!(!moved.is_over(at(11, 24)) && moved.is_over(at(12, 24)));
        assert_eq!(moved.per_minute(at(11, 25)).get(), 200);
        let body = serde_json::to_value(moved.body()).unwrap();
        assert_eq!(body["sunsetAt"], "2026-12-24T00:00:00Z");
        assert_eq!(body["throttledFrom"], "2026-12-24T00:00:00Z", "without cuts it ends at once");
        assert_eq!(body["migrationGuide"], "https://docs.example/v3");
    }

    #[test]
    fn the_announcement_is_that_of_the_interface() {
        let retirement = retirement();
        let mut headers = HeaderMap::new();
        retirement.announce(&mut headers);
        assert_eq!(headers["deprecation"], "@1784678400");
        assert_eq!(headers["sunset"], "Tue, 24 Nov 2026 00:00:00 GMT");
        assert_eq!(
            headers["link"],
            "<https://api.example/documentation>; rel=\"deprecation\", <https://api.example/documentation>; \
             rel=\"sunset\", <https://api.example/requests/v3>; rel=\"successor-version\""
        );
        assert_eq!(headers["access-control-expose-headers"], "deprecation,sunset,link");
        let body = serde_json::to_value(retirement.body()).unwrap();
        let expected = serde_json::json!({
            "message": "GET /requests/v2 is deprecated and ends on 2026-11-24: use GET /requests/v3, which needs an API key",
            "deprecatedAt": "2026-07-22T00:00:00Z",
            "throttledFrom": "2026-08-22T00:00:00Z",
            "sunsetAt": "2026-11-24T00:00:00Z",
            "successor": "https://api.example/requests/v3",
            "migrationGuide": "https://api.example/documentation",
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn the_day_after_says_where_to_go() {
        let to = retirement().successor();
        for (error, status, code) in [
            (ApiError::Retired { to: to.clone() }, 410, "GONE"),
            (ApiError::TooManyOfV2 { problem: "too many requests", to }, 429, "RATE_LIMITED"),
        ] {
            let (answered, body) = error.answer();
            let body = serde_json::to_value(body).unwrap();
            assert_eq!((answered.as_u16(), body["errorCode"].as_str()), (status, Some(code)));
            assert_eq!(body["successor"], "https://api.example/requests/v3");
            assert_eq!(body["migrationGuide"], "https://api.example/documentation");
            assert!(body["message"].as_str().is_some_and(|message| message.contains("/requests/v3")), "{body}");
        }
    }

    #[test]
    fn dates_of_headers_know_the_day_of_the_week() {
        for (secs, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(Timestamp::from_secs(secs)), text);
        }
    }
}
