//! Values of parameters that both listings read alike.

use store::listing::{Condition, Number};

use super::filter::bad;
use crate::error::ApiError;

/// Requests on one page, unless said, and at the most.
const PAGE: u16 = 20;
const MAX_PAGE: u16 = 50;

pub(crate) fn limit(text: Option<&str>) -> Result<u16, ApiError> {
    let Some(text) = text else { return Ok(PAGE) };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
    limit.ok_or_else(|| bad("limit", format!("must be 1 to {MAX_PAGE}")))
}

/// `startTimestamp` and `endTimestamp`, in seconds. The last one is included to its end.
pub(crate) fn seconds(
    all: &mut Vec<Condition>,
    time: Number,
    start: Option<&str>,
    end: Option<&str>,
) -> Result<(), ApiError> {
    let (start, end) = (whole("startTimestamp", start)?, whole("endTimestamp", end)?);
    let end = end.map(|secs| secs.saturating_mul(1_000).saturating_add(999));
    range(all, "startTimestamp", time, start.map(|secs| secs.saturating_mul(1_000)), end)
}

pub(crate) fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.into_iter().flat_map(|text| text.split(','));
    parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn flag(field: &'static str, text: Option<&str>) -> Result<bool, ApiError> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(bad(field, "must be true or false")),
    }
}

pub(crate) fn whole(field: &'static str, text: Option<&str>) -> Result<Option<i64>, ApiError> {
    let parse = |text: &str| text.parse().ok().filter(|number: &i64| *number >= 0);
    text.map(|text| parse(text).ok_or_else(|| bad(field, "must be a whole number"))).transpose()
}

/// A decimal number in units of its last stored digit.
pub(crate) fn decimal(field: &'static str, text: Option<&str>, decimals: u8) -> Result<Option<i64>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let units = || {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = !whole.is_empty() && whole.len() <= 12 && part.len() <= usize::from(decimals);
        let padded = format!("{whole}{part:0<width$}", width = usize::from(decimals));
        (fits && digits(whole) && digits(part)).then(|| padded.parse().ok()).flatten()
    };
    let problem = || bad(field, format!("must be a number with at most {decimals} decimals"));
    units().map(Some).ok_or_else(problem)
}

pub(crate) fn range(
    all: &mut Vec<Condition>,
    field: &'static str,
    number: Number,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<(), ApiError> {
    ordered(field, from, to)?;
    if from.is_some() || to.is_some() {
        all.push(Condition::Between(number, from, to));
    }
    Ok(())
}

pub(crate) fn ordered<T: PartialOrd>(field: &'static str, from: Option<T>, to: Option<T>) -> Result<(), ApiError> {
    match from.zip(to).is_some_and(|(from, to)| from > to) {
        true => Err(bad(field, "must not be above the other end of its range")),
        false => Ok(()),
    }
}
