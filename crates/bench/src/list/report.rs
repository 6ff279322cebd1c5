//! The results of the listing benchmark, for people and for programs.

// Milliseconds and ratios are for reading; measurements stay whole numbers.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use harness::Engine;
use serde::Serialize;

use crate::stats::Latency;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub cores: usize,
    pub samples: u16,
    pub engines: Vec<EngineReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EngineReport {
    pub engine: Engine,
    /// Sizes of the databases.
    pub rows: Vec<u64>,
    /// The time it took to fill each.
    pub filled_millis: Vec<u64>,
    pub indexed: Vec<Measured>,
    pub others: Vec<Bounded>,
    /// The pages of the dashboard, in each of the databases.
    pub pages: Vec<Measured>,
}

/// A filter with an index, in each of the databases.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub name: &'static str,
    pub sizes: Vec<Latency>,
}

/// A filter without one, in the largest.
#[derive(Debug, Serialize)]
pub(crate) struct Bounded {
    pub name: &'static str,
    pub millis: u64,
    /// False where it was ended because it took too long.
    pub answered: bool,
}

impl Measured {
    fn ends(&self) -> (u64, u64) {
        let p50 = |latency: Option<&Latency>| latency.map_or(0, |latency| latency.p50_nanos);
        (p50(self.sizes.first()), p50(self.sizes.last()))
    }

    fn is_slower_than(&self, millis: u64) -> bool {
        self.ends().1 > millis.saturating_mul(1_000_000)
    }

    /// True if the median grows, and the fast calls too. A missing index makes both slower; other programs on the
    /// machine may slow down half of the calls in one database, and fewer in the other.
    fn grows(&self, max_ratio: u64) -> bool {
        let (Some(smallest), Some(largest)) = (self.sizes.first(), self.sizes.last()) else { return false };
        let grows = |of: fn(&Latency) -> u64| of(largest) > of(smallest).saturating_mul(max_ratio);
        grows(|latency| latency.p50_nanos) && grows(|latency| latency.p10_nanos)
    }
}

impl Report {
    /// Filters that take longer in a larger database, by engine.
    pub(crate) fn growing(&self, max_ratio: u64) -> Vec<String> {
        let of = |report: &EngineReport| {
            let name = report.engine.name();
            let grows = report.indexed.iter().chain(&report.pages).filter(|it| it.grows(max_ratio));
            grows.map(|it| format!("{} on {name}", it.name)).collect::<Vec<_>>()
        };
        self.engines.iter().flat_map(of).collect()
    }

    /// Pages whose median in the largest database is longer than this, by engine.
    pub(crate) fn slow_pages(&self, max_millis: u64) -> Vec<String> {
        let of = |report: &EngineReport| {
            let slow = report.pages.iter().filter(|it| it.is_slower_than(max_millis));
            slow.map(|it| format!("{} on {}", it.name, report.engine.name())).collect::<Vec<_>>()
        };
        self.engines.iter().flat_map(of).collect()
    }

    pub(crate) fn print(&self) {
        println!("{} cores, shared by service and client; {} calls per filter and size", self.cores, self.samples);
        for report in &self.engines {
            report.print();
        }
    }
}

impl EngineReport {
    fn print(&self) {
        let filled = self.rows.iter().zip(&self.filled_millis);
        let filled = filled.map(|(rows, millis)| format!("{rows} in {:.0} s", *millis as f64 / 1e3));
        println!("\n{}, requests: {}", self.engine.name(), filled.collect::<Vec<_>>().join(", "));
        let sizes = self.rows.iter().map(|rows| format!("{rows:>12}")).collect::<String>();
        println!("{:<38}{sizes}{:>10}{:>10}", "p50 ms among", "last p99", "ratio");
        for measured in self.indexed.iter().chain(&self.pages) {
            let p50 = measured.sizes.iter().map(|latency| format!("{:>12}", millis(latency.p50_nanos)));
            let (smallest, largest) = measured.ends();
            println!(
                "{:<38}{}{:>10}{:>10}",
                measured.name,
                p50.collect::<String>(),
                measured.sizes.last().map_or_else(String::new, |latency| millis(latency.p99_nanos)),
                format!("×{:.2}", largest as f64 / smallest.max(1) as f64),
            );
        }
        if !self.others.is_empty() {
            println!("\nWithout an index, once in the largest:");
        }
        for bounded in &self.others {
            let end = if bounded.answered { "answered" } else { "ended: 503 REQUEST_TIMED_OUT" };
            println!("{:<38}{:>12} ms  {end}", bounded.name, bounded.millis);
        }
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_grows_when_its_median_and_its_fast_calls_more_than_double() {
        let latency = |p50_nanos| Latency { count: 1, p10_nanos: p50_nanos, p50_nanos, p99_nanos: 9_000 };
        let measured = |p50s: [u64; 3]| Measured { name: "user", sizes: p50s.map(latency).into() };
        assert!(!measured([100, 900, 200]).grows(2));
        assert!(measured([100, 100, 201]).grows(2));
        let mut busy = measured([100, 100, 900]);
        busy.sizes[2].p10_nanos = 100;
        assert!(!busy.grows(2), "another program slowed half of the calls down");
        let report = EngineReport {
            engine: Engine::Sqlite,
            rows: vec![1, 2, 3],
            filled_millis: vec![1, 2, 3],
            indexed: vec![measured([100, 100, 100]), measured([100, 100, 300])],
            others: Vec::new(),
            pages: vec![measured([100, 100, 200])],
        };
        let report = Report { cores: 1, samples: 1, engines: vec![report] };
        assert_eq!(report.growing(2), ["user on SQLite"]);
        assert!(report.slow_pages(50).is_empty());
        assert_eq!(report.slow_pages(0), ["user on SQLite"]);
        let page = |millis: u64| measured([100, 100, millis * 1_000_000]);
        assert!(page(51).is_slower_than(50) && !page(50).is_slower_than(50));
    }
}
