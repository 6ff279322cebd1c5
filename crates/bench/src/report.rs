//! The results of the quote benchmark, for people and for programs.

// Ratios and milliseconds are for reading; measurements stay whole nanoseconds.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use harness::Engine;
use serde::Serialize;

use crate::load::Outcome;
use crate::stats::Latency;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub cores: usize,
    pub connections: usize,
    /// Duration of each load.
    pub seconds: u64,
    /// Latency of a small synced append to a file.
    pub synced_append: Latency,
    pub groups: Vec<Group>,
}

/// One database at one distance from its nodes. The first row is the baseline.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub engine: Engine,
    pub node_delay_millis: u128,
    pub answer_bytes: usize,
    pub rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub name: &'static str,
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// The kind of quote that differs in one thing, and the CPU time of each, measured in alternating turns.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    pub name: &'static str,
    pub cpu_nanos: Option<u64>,
    pub other_cpu_nanos: Option<u64>,
}

impl Report {
    pub(crate) fn errors(&self) -> u64 {
        self.rows().map(|row| row.outcome.errors).sum()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    pub(crate) fn print(&self) {
        println!(
            "{} cores, the load among them. A synced append of 4 KiB: p50 {} ms, p99 {} ms.",
            self.cores,
            millis(self.synced_append.p50_nanos),
            millis(self.synced_append.p99_nanos)
        );
        for group in &self.groups {
            group.print(self.connections);
        }
        for error in self.rows().filter_map(|row| row.outcome.first_error.as_ref()).take(3) {
            println!("\nA request failed: {error}");
        }
    }
}

impl Group {
    fn print(&self, connections: usize) {
        let (engine, delay, bytes) = (self.engine.name(), self.node_delay_millis, self.answer_bytes);
        println!("\n{engine}, nodes {delay} ms away, answers of {bytes} bytes");
        let load = format!("{connections} connections");
        println!("{:<16}{:>27}{:>58}", "", "one connection, ms", load);
        println!(
            "{:<16}{:>9}{:>9}{:>10}{:>12}{:>10}{:>9}{:>9}{:>9}{:>9}",
            "", "p50", "p99", "baseline", "per second", "baseline", "p50 ms", "p99 ms", "CPU ms", "errors"
        );
        for row in &self.rows {
            let (one, loaded) = (&row.outcome.one_connection, &row.outcome.load);
            let baseline = self.rows.first().map_or(&row.outcome, |baseline| &baseline.outcome);
            println!(
                "{:<16}{:>9}{:>9}{:>10}{:>12}{:>10}{:>9}{:>9}{:>9}{:>9}",
                row.name,
                millis(one.p50_nanos),
                millis(one.p99_nanos),
                ratio(one.p50_nanos, baseline.one_connection.p50_nanos),
                row.outcome.load_per_second,
                ratio(row.outcome.load_per_second, baseline.load_per_second),
                millis(loaded.p50_nanos),
                millis(loaded.p99_nanos),
                row.outcome.cpu_nanos.map_or_else(|| "-".to_owned(), millis),
                row.outcome.errors
            );
        }
        for (row, beside) in self.rows.iter().filter_map(|row| Some((row, row.beside.as_ref()?))) {
            if let Some((own, other)) = beside.cpu_nanos.zip(beside.other_cpu_nanos) {
                let (ratio, own, other) = (ratio(own, other), millis(own), millis(other));
                println!("{}, by turns with {}: {ratio} of its CPU ({own} and {other} ms)", row.name, beside.name);
            }
        }
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

fn ratio(value: u64, baseline: u64) -> String {
    if baseline == 0 { "-".to_owned() } else { format!("×{:.2}", value as f64 / baseline as f64) }
}
