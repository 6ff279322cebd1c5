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

/// The median of a sample of shares, and the bounds within which the true median lies with a certainty of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct MedianInterval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl MedianInterval {
    /// The smallest sample that bounds a median with this certainty.
    const MIN_VALUES: usize = 6;

    /// None for a smaller sample. The bounds are values of it: they assume nothing about how the values are distributed.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.len() < Self::MIN_VALUES {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        // Each value is above the true median or below it, like the sides of a coin. At most 2.5 % of series of tosses
        // have as few of one side as are left out here: the normal approximation, rounded outwards.
        let left_out_per_side = (last as f64 / 2.0 - 0.98 * (values.len() as f64).sqrt()).max(0.0) as usize;
        let median = f64::midpoint(values[last / 2], values[values.len() / 2]);
        Some(Self { median, low: values[left_out_per_side], high: values[last - left_out_per_side] })
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

    /// The values are their own ranks.
    fn interval_of_ranks(count: u32) -> Option<MedianInterval> {
        MedianInterval::of((0..count).rev().map(f64::from).collect())
    }

    #[test]
    fn a_median_has_as_many_values_outside_its_bounds_on_either_side() {
        let interval = |median, low, high| Some(MedianInterval { median, low, high });
        assert_eq!(interval_of_ranks(5), None);
        assert_eq!(interval_of_ranks(6), interval(2.5, 0.0, 5.0));
        assert_eq!(interval_of_ranks(15), interval(7.0, 3.0, 11.0));
        assert_eq!(interval_of_ranks(24), interval(11.5, 6.0, 17.0));
    }

    #[test]
    fn the_bounds_have_their_certainty_by_the_binomial_distribution() {
        for count in 6..=500_u32 {
            let left_out = interval_of_ranks(count).unwrap().low as u32;
            // The chance that no more values than these are on one side of the true median.
            let (mut chance, mut tail) = (0.5_f64.powi(count.cast_signed()), 0.0);
            for below in 0..=left_out {
                tail += chance;
                chance *= f64::from(count - below) / f64::from(below + 1);
            }
            assert!(tail <= 0.025, "{left_out} of {count} are left out on each side: {tail}");
        }
    }

    #[test]
    fn rates_are_per_second_of_the_time_it_took() {
        assert_eq!(per_second(1_500, Duration::from_millis(500)), 3_000);
        assert_eq!(per_second(1, Duration::ZERO), 0);
    }
}
