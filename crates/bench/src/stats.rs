//! Statistics of a series of timings.

// Shares of two timings are for reading.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use std::time::Duration;

use serde::Serialize;

/// Three percentiles of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Latency {
    pub count: usize,
    /// The fast calls: other programs on the machine only make calls slower.
    pub p10_nanos: u64,
    pub p50_nanos: u64,
    pub p99_nanos: u64,
}

impl Latency {
    pub(crate) fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let [p10_nanos, p50_nanos, p99_nanos] = [10, 50, 99].map(|percent| percentile(&nanos, percent));
        Self { count: nanos.len(), p10_nanos, p50_nanos, p99_nanos }
    }
}

/// The median of a series of shares, and the bounds within which the true one lies with a certainty of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// None for an empty series. The bounds are values of the series: they assume nothing about how it is distributed.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        // The smallest rank that the median of as many fair draws reaches in 95 of 100 series.
        let half = values.len() as f64 / 2.0;
        let outside = (half - 0.98 * (values.len() as f64).sqrt()).max(0.0) as usize;
        let at = |index: usize| values.get(index).copied();
        let last = values.len().checked_sub(1)?;
        let median = f64::midpoint(at(last / 2)?, at(values.len() / 2)?);
        Some(Self { median, low: at(outside)?, high: at(last - outside)? })
    }
}

/// The value in the middle of a series.
pub(crate) fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    percentile(&values, 50)
}

/// The smallest value that at least this percentage of all values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Whole nanoseconds; 64 bits last for centuries.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Events per second, rounded down.
pub(crate) fn per_second(count: usize, time: Duration) -> u64 {
    let per = (count as u128 * 1_000_000_000).checked_div(time.as_nanos()).unwrap_or(0);
    u64::try_from(per).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latency = Latency::of((1..=200).rev().collect());
        assert_eq!(latency, Latency { count: 200, p10_nanos: 20, p50_nanos: 100, p99_nanos: 198 });
        assert_eq!(Latency::of(vec![7]), Latency { count: 1, p10_nanos: 7, p50_nanos: 7, p99_nanos: 7 });
        assert_eq!(Latency::of(Vec::new()), Latency { count: 0, p10_nanos: 0, p50_nanos: 0, p99_nanos: 0 });
    }

    #[test]
    fn a_spread_leaves_out_as_many_values_on_either_side() {
        let shares = |count: u32| Spread::of((0..count).rev().map(f64::from).collect());
        assert_eq!(shares(15), Some(Spread { median: 7.0, low: 3.0, high: 11.0 }));
        assert_eq!(shares(100), Some(Spread { median: 49.5, low: 40.0, high: 59.0 }));
        assert_eq!(shares(1), Some(Spread { median: 0.0, low: 0.0, high: 0.0 }));
        assert_eq!(shares(0), None);
    }

    #[test]
    fn rates_are_per_second_of_the_time_it_took() {
        assert_eq!(per_second(1_500, Duration::from_millis(500)), 3_000);
        assert_eq!(per_second(1, Duration::ZERO), 0);
    }
}
