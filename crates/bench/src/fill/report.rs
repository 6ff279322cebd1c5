//! The results of the fill benchmark, for people and for programs.

// Milliseconds and shares are for reading; measurements stay whole numbers.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use serde::Serialize;

use crate::processes::Share;
use crate::stats::Latency;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub cores: usize,
    pub lanes: u16,
    pub rate: u64,
    pub distances: Vec<Distance>,
    /// Deposits into the venue, where they were measured.
    pub venue: Option<VenueLatency>,
}

/// From the announcement of a block to a transfer that the venue has taken.
#[derive(Debug, Serialize)]
pub(crate) struct VenueLatency {
    /// Receive a block's announcement, sign one transfer, send it.
    pub baseline: Latency,
    /// From the announcement of the deposit's block to its fill.
    pub fill: Latency,
}

#[derive(Debug, Serialize)]
pub(crate) struct Distance {
    pub node_delay_millis: u64,
    pub latency: LatencyStats,
    pub throughput: Throughput,
    pub resident_before_kib: Option<u64>,
    pub resident_after_kib: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LatencyStats {
    /// Receive a block's announcement, sign one transaction, send it.
    pub baseline: Latency,
    /// From the announcement of the deposit's block to the fill in the destination's mempool.
    pub fill: Latency,
    /// The same while a client lists without pause, where that was measured.
    pub while_listing: Option<Latency>,
    pub pages_listed: u64,
    pub mined_in_next_block: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    pub transfers: usize,
    pub deposits_per_second: u64,
    /// From the first deposit sent to the last fill mined.
    pub fills_per_second: u64,
    pub first_fill_millis: u64,
    pub last_fill_millis: u64,
    pub cores_used_permille: u64,
    pub service_cpu_micros_per_fill: Option<u64>,
    pub shares: Vec<Share>,
    pub available_cores: usize,
    /// True if the system reports the CPU time of processes.
    pub measured: bool,
}

impl Throughput {
    /// The bottleneck, as far as CPU time shows.
    fn saturated(&self) -> String {
        let (all, used) = (self.available_cores as u64 * 1_000, self.cores_used_permille);
        let greediest = self.shares.first();
        match greediest {
            _ if !self.measured => "the system does not say what processes use".to_owned(),
            Some(share) if used * 10 >= all * 9 => {
                format!("the machine: {} of {} cores, most by the {}", cores(used), self.available_cores, share.name)
            }
            Some(share) if share.core_permille >= 900 => format!("the {}, with a core of its own", share.name),
            _ => format!("not the processor: {} of {} cores in use", cores(used), self.available_cores),
        }
    }
}

/// The most that a client who lists may add to the p50 of a fill, in percent.
const MAX_LISTING_PERCENT: u64 = 20;

impl LatencyStats {
    fn is_delayed_by_listing(&self) -> bool {
        let most = u128::from(self.fill.p50_nanos) * u128::from(100 + MAX_LISTING_PERCENT);
        self.while_listing.is_some_and(|listing| u128::from(listing.p50_nanos) * 100 >= most)
    }
}

impl Report {
    pub(crate) fn is_delayed_by_listing(&self) -> bool {
        self.distances.iter().any(|distance| distance.latency.is_delayed_by_listing())
    }

    pub(crate) fn print(&self) {
        println!("{} cores, shared by chains, service and load; {} filler wallets", self.cores, self.lanes);
        println!(
            "\n{:<12}{:>14}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}",
            "nodes", "baseline p50", "p99 ms", "fill p50", "p99 ms", "baseline", "next block", "fills/s", "CPU µs"
        );
        for distance in &self.distances {
            let LatencyStats { baseline, fill, mined_in_next_block, .. } = &distance.latency;
            let throughput = &distance.throughput;
            println!(
                "{:<12}{:>14}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}",
                format!("{} ms away", distance.node_delay_millis),
                millis(baseline.p50_nanos),
                millis(baseline.p99_nanos),
                millis(fill.p50_nanos),
                millis(fill.p99_nanos),
                format!("×{:.2}", fill.p50_nanos as f64 / baseline.p50_nanos.max(1) as f64),
                format!("{mined_in_next_block}/{}", fill.count),
                throughput.fills_per_second,
                throughput.service_cpu_micros_per_fill.map_or_else(|| "-".to_owned(), |micros| micros.to_string()),
            );
        }
        if let Some(VenueLatency { baseline, fill }) = &self.venue {
            println!(
                "{:<12}{:>10}{:>10}{:>10}{:>10}{:>8}",
                "venue",
                millis(baseline.p50_nanos),
                millis(baseline.p99_nanos),
                millis(fill.p50_nanos),
                millis(fill.p99_nanos),
                format!("×{:.2}", fill.p50_nanos as f64 / baseline.p50_nanos.max(1) as f64),
            );
        }
        for distance in &self.distances {
            let LatencyStats { fill, while_listing, pages_listed, .. } = &distance.latency;
            if let Some(listing) = while_listing {
                println!(
                    "\nNodes {} ms away, a client lists without pause: fill p50 {} ms, p99 {} ms, {:+.1} % ({} pages)",
                    distance.node_delay_millis,
                    millis(listing.p50_nanos),
                    millis(listing.p99_nanos),
                    (listing.p50_nanos as f64 / fill.p50_nanos.max(1) as f64 - 1.0) * 100.0,
                    pages_listed
                );
            }
        }
        for distance in &self.distances {
            let throughput = &distance.throughput;
            println!(
                "\nNodes {} ms away: {} transfers, deposited at {} a second, first fill after {} ms, last after {} ms.",
                distance.node_delay_millis,
                throughput.transfers,
                throughput.deposits_per_second,
                throughput.first_fill_millis,
                throughput.last_fill_millis
            );
            println!("What gave out first: {}.", throughput.saturated());
            for share in &throughput.shares {
                println!("  {:<20}{:>6} cores", share.name, cores(share.core_permille));
            }
            let mib = |kib: Option<u64>| kib.map_or_else(|| "?".to_owned(), |kib| (kib / 1024).to_string());
            println!(
                "Memory of the service: {} MiB before, {} MiB after.",
                mib(distance.resident_before_kib),
                mib(distance.resident_after_kib)
            );
        }
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e6)
}

fn cores(permille: u64) -> String {
    format!("{:.2}", permille as f64 / 1e3)
}
