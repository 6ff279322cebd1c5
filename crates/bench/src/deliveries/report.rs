//! The results of the webhook benchmark, for people and for programs.

// Milliseconds and ratios are for reading; measurements stay whole numbers.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use serde::Serialize;

use crate::fill::LatencyStats;
use crate::processes::Share;
use crate::stats::Latency;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub cores: usize,
    pub endpoints: usize,
    pub rate: Rate,
    pub delay: Delay,
    pub fills: Fills,
}

#[derive(Debug, Serialize)]
pub(crate) struct Rate {
    /// Posts of the same size over as many connections as one endpoint has, and nothing else.
    pub bare_per_second: u64,
    pub per_second: u64,
    pub service_cpu_micros: Option<u64>,
    pub shares: Vec<Share>,
}

/// From the answer that an event is queued to its arrival.
#[derive(Debug, Serialize)]
pub(crate) struct Delay {
    pub per_second: u64,
    pub calm: Latency,
    /// Of the other endpoints, while one hangs.
    pub hanging: Latency,
}

#[derive(Debug, Serialize)]
pub(crate) struct Fills {
    pub calm: LatencyStats,
    pub loaded: LatencyStats,
    /// Deliveries while the fills under load were measured.
    pub delivered_per_second: u64,
}

impl Report {
    pub(crate) fn print(&self) {
        println!("{} cores, shared by chains, service, receiver and load; {} endpoints", self.cores, self.endpoints);
        let Rate { bare_per_second, per_second, service_cpu_micros, shares } = &self.rate;
        let cpu = service_cpu_micros.map_or_else(|| "-".to_owned(), |micros| micros.to_string());
        println!(
            "\ndeliveries: {per_second} a second, baseline {bare_per_second}, {}; CPU of the service {cpu} µs each",
            ratio(*per_second, *bare_per_second)
        );
        for share in shares {
            println!("  {:<20}{:>6.2} cores", share.name, share.core_permille as f64 / 1e3);
        }
        let Delay { per_second, calm, hanging } = self.delay;
        println!("\n{:<34}{:>10}{:>10}{:>8}", format!("events, {per_second} a second, ms"), "p50", "p99", "p99");
        for (name, of) in [("no receiver hangs", calm), ("one of them hangs, the others", hanging)] {
            row(name, of, ratio(of.p99_nanos, calm.p99_nanos));
        }
        let Fills { calm, loaded, delivered_per_second } = &self.fills;
        println!("\n{:<34}{:>10}{:>10}{:>8}", "fills, ms", "p50", "p99", "p50");
        let busy = format!("{delivered_per_second} deliveries a second");
        for (name, of) in [("no deliveries", calm), (busy.as_str(), loaded)] {
            row(name, of.fill, ratio(of.fill.p50_nanos, calm.fill.p50_nanos));
        }
        for (name, of) in [("baseline, no deliveries", calm), ("baseline, the same deliveries", loaded)] {
            row(name, of.baseline, ratio(of.baseline.p50_nanos, calm.baseline.p50_nanos));
        }
    }
}

fn row(name: &str, of: Latency, ratio: String) {
    println!("{name:<34}{:>10}{:>10}{ratio:>8}", millis(of.p50_nanos), millis(of.p99_nanos));
}

fn millis(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e6)
}

fn ratio(value: u64, beside: u64) -> String {
    if beside == 0 { "-".to_owned() } else { format!("×{:.2}", value as f64 / beside as f64) }
}
