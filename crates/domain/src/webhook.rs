//! Webhooks: which steps of a request are posted, to which endpoints, and the life of one delivery.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::request::State;
use crate::time::Timestamp;

/// A public status as receivers see it. `depositing` is a signed deposit that one of our relayers sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Waiting,
    Depositing,
    Pending,
    Submitted,
    Success,
    Failure,
    Refund,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of waiting, depositing, pending, submitted, success, failure, refund")]
pub struct NotAStatus;

impl Status {
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Depositing, Self::Pending, Self::Submitted, Self::Success, Self::Failure, Self::Refund];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Depositing => "depositing",
            Self::Pending => "pending",
            Self::Submitted => "submitted",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Refund => "refund",
        }
    }

    /// Only a failure or a refund has a fail reason.
    pub const fn has_reason(self) -> bool {
        match self {
            Self::Failure | Self::Refund => true,
            Self::Waiting | Self::Depositing | Self::Pending | Self::Submitted | Self::Success => false,
        }
    }
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        match state {
            State::Waiting => Self::Waiting,
            State::Depositing => Self::Depositing,
            State::Pending | State::Refunding => Self::Pending,
            State::Submitted => Self::Submitted,
            State::Success => Self::Success,
            State::Refunded => Self::Refund,
            State::Failed => Self::Failure,
        }
    }
}

impl FromStr for Status {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(NotAStatus)
    }
}

/// True if a move between two states is posted: the status changes. A fill on its way that turns into a refund is not:
/// receivers hear `submitted` and then `refund`, without a step back.
pub fn is_posted(before: State, after: State) -> bool {
    let turned = before == State::Submitted && after == State::Refunding;
    Status::from(before) != Status::from(after) && !turned
}

/// The statuses that an endpoint asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFilter(Vec<Status>);

impl StatusFilter {
    /// No status at all means every status.
    pub fn new(mut statuses: Vec<Status>) -> Self {
        statuses.sort();
        statuses.dedup();
        Self(statuses)
    }

    pub fn admits(&self, status: Status) -> bool {
        self.0.is_empty() || self.0.contains(&status)
    }

    pub fn statuses(&self) -> &[Status] {
        &self.0
    }
}

/// The name of an endpoint, unique within its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointName(String);

/// The endpoint that a key has without naming it.
pub const DEFAULT_ENDPOINT: &str = "default";

/// The longest name of an endpoint.
pub const MAX_ENDPOINT_NAME: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {MAX_ENDPOINT_NAME} of a-z, 0-9, - and _")]
pub struct NotAnEndpointName;

impl EndpointName {
    pub fn default_name() -> Self {
        Self(DEFAULT_ENDPOINT.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EndpointName {
    type Err = NotAnEndpointName;

    fn from_str(text: &str) -> Result<Self, NotAnEndpointName> {
        let fits = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        let known = fits && (1..=MAX_ENDPOINT_NAME).contains(&text.len());
        known.then(|| Self(text.to_owned())).ok_or(NotAnEndpointName)
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// To be posted, for the first time or again.
    Due,
    Delivered,
    /// Given up; a replay makes it due again.
    Failed,
}

impl DeliveryState {
    pub const ALL: [Self; 3] = [Self::Due, Self::Delivered, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// The result of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Any 2xx.
    Accepted,
    /// Any other answer, or none.
    Refused,
    /// 410: the receiver wants nothing more.
    Gone,
}

/// How often and how late a delivery is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts after the first.
    pub most: u32,
    /// The delay before the first of them; each next one is twice as long.
    pub first_delay: Duration,
}

/// The step after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAttempt {
    Delivered,
    Again { at: Timestamp },
    GivenUp,
}

impl Retries {
    /// The delay after a number of failed attempts, with a jitter of a fifth to either side. `roll` is random.
    pub fn delay(self, failed: u32, roll: u16) -> Duration {
        // The shift is bounded, so that a ceiling holds whatever the number of attempts.
        let doubled = self.first_delay.saturating_mul(1 << failed.saturating_sub(1).min(16));
        let percent = 80 + u32::from(roll) * 40 / u32::from(u16::MAX);
        doubled.saturating_mul(percent) / 100
    }

    /// The step after an attempt. `failed` counts failed attempts before it; a test is tried once.
    pub fn after(self, answer: Answer, failed: u32, is_test: bool, now: Timestamp, roll: u16) -> AfterAttempt {
        match answer {
            Answer::Accepted => AfterAttempt::Delivered,
            Answer::Gone => AfterAttempt::GivenUp,
            Answer::Refused if is_test || failed >= self.most => AfterAttempt::GivenUp,
            Answer::Refused => AfterAttempt::Again { at: now.plus(self.delay(failed + 1, roll)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Retries = Retries { most: 10, first_delay: Duration::from_secs(5) };

    #[test]
    fn delays_double_from_five_seconds_to_about_forty_minutes() {
        let middle = u16::MAX / 2;
        let delays: Vec<_> = (1..=10).map(|failed| PLAIN.delay(failed, middle).as_millis()).collect();
        for (found, secs) in delays.iter().zip([5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560]) {
            assert!(found.abs_diff(secs * 1000) <= secs * 10, "{delays:?}");
        }
    }

    #[test]
    fn jitter_is_a_fifth_to_either_side_and_delays_have_a_ceiling() {
        for failed in 1..=10 {
            let base = Duration::from_secs(5 << (failed - 1));
            assert_eq!(PLAIN.delay(failed, 0), base * 80 / 100);
            assert_eq!(PLAIN.delay(failed, u16::MAX), base * 120 / 100);
        }
        assert_eq!(PLAIN.delay(u32::MAX, 0), PLAIN.delay(17, 0));
    }

    #[test]
    fn ten_failures_are_retried_and_the_eleventh_is_the_last() {
        let now = Timestamp::from_millis(1_000);
        for failed in 0..10 {
            assert!(
                matches!(PLAIN.after(Answer::Refused, failed, false, now, 0), AfterAttempt::Again { at } if at > now)
            );
        }
        assert_eq!(PLAIN.after(Answer::Accepted, 10, false, now, 0), AfterAttempt::Delivered);
        assert_eq!(PLAIN.after(Answer::Refused, 10, false, now, 0), AfterAttempt::GivenUp);
        assert_eq!(PLAIN.after(Answer::Gone, 0, false, now, 0), AfterAttempt::GivenUp);
        assert_eq!(PLAIN.after(Answer::Refused, 0, true, now, 0), AfterAttempt::GivenUp);
    }

    #[test]
    fn a_step_is_posted_when_the_status_changes_and_never_backwards_into_a_refund() {
        use State::*;
        for (before, after, posted) in [
            (Waiting, Waiting, false),
            (Waiting, Depositing, true),
            (Waiting, Pending, true),
            (Waiting, Submitted, true),
            (Waiting, Refunding, true),
            (Waiting, Success, true),
            (Waiting, Failed, true),
            (Depositing, Depositing, false),
            (Depositing, Waiting, true),
            (Depositing, Pending, true),
            (Depositing, Submitted, true),
            (Depositing, Refunding, true),
            (Depositing, Success, true),
            (Depositing, Failed, true),
            (Pending, Submitted, true),
            (Pending, Refunding, false),
            (Pending, Waiting, true),
            (Submitted, Success, true),
            (Submitted, Refunding, false),
            (Submitted, Waiting, true),
            (Success, Success, false),
            (Success, Failed, true),
            (Refunding, Refunding, false),
            (Refunding, Refunded, true),
            (Refunding, Failed, true),
            (Refunding, Waiting, true),
            (Refunded, Refunded, false),
        ] {
            assert_eq!(is_posted(before, after), posted, "{before:?} to {after:?}");
        }
    }

    #[test]
    fn statuses_are_the_words_that_callers_poll() {
        for state in State::ALL {
            assert_eq!(Status::from(state).as_str(), state.status());
        }
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert_eq!("fallback".parse::<Status>(), Err(NotAStatus));
    }

    #[test]
    fn a_filter_without_statuses_admits_all() {
        let some = StatusFilter::new(vec![Status::Refund, Status::Success, Status::Refund]);
        assert_eq!(some.statuses(), [Status::Success, Status::Refund]);
        for status in Status::ALL {
            assert!(StatusFilter::default().admits(status));
            assert_eq!(some.admits(status), matches!(status, Status::Success | Status::Refund));
        }
    }

    #[test]
    fn an_endpoint_is_named_in_plain_letters() {
        for good in ["default", "a", "ops-2_x", &"a".repeat(40)] {
            assert!(good.parse::<EndpointName>().is_ok(), "{good}");
        }
        for bad in ["", "A", "a b", "a/b", "ä", &"a".repeat(41)] {
            assert!(bad.parse::<EndpointName>().is_err(), "{bad}");
        }
    }
}
