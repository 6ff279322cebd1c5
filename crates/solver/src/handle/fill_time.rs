//! The time from the decision on a fill until a node has it, as a moving average.

use std::sync::atomic::{AtomicU64, Ordering};

/// Each new sample counts for an eighth.
const AVERAGE_OVER: u64 = 8;
/// A fill sent long after it was decided (the process was down) says nothing about the next.
const MAX_SAMPLE_MILLIS: u64 = 60_000;

#[derive(Debug, Default)]
pub struct FillTime {
    /// Microseconds, so that small samples are not lost in rounding. Zero before the first.
    micros: AtomicU64,
}

impl FillTime {
    pub fn took(&self, millis: i64) {
        let Some(millis) = u64::try_from(millis).ok().filter(|millis| *millis <= MAX_SAMPLE_MILLIS) else { return };
        let sample = millis * 1_000;
        let average = |before: u64| match before {
            0 => Some(sample),
            before => Some((before * (AVERAGE_OVER - 1) + sample) / AVERAGE_OVER),
        };
        let _ = self.micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, average);
    }

    pub fn millis(&self) -> u64 {
        self.micros.load(Ordering::Relaxed) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_the_fills_and_skips_outliers() {
        let time = FillTime::default();
        assert_eq!(time.millis(), 0);
        time.took(40);
        assert_eq!(time.millis(), 40);
        for _ in 0..50 {
            time.took(2_000);
        }
        assert!((1_990..=2_000).contains(&time.millis()), "{}", time.millis());
        for outlier in [-5, 3_600_000] {
            time.took(outlier);
        }
        assert!(time.millis() <= 2_000);
    }
}
