//! The report on two builds: each value of this build as a share of the other's in the same pair of turns.

// Shares and milliseconds are for reading.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use std::path::PathBuf;

use serde::Serialize;

use crate::load::Outcome;
use crate::stats::{Spread, median};

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub other: PathBuf,
    pub turns: usize,
    /// Duration of each kind of load in a turn.
    pub seconds: u64,
    pub connections: usize,
    pub kinds: Vec<Compared>,
}

/// One kind of quote, measured with both builds.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub name: &'static str,
    /// Medians of all turns, of this build and of the other.
    pub per_second: [u64; 2],
    pub cpu_nanos: [u64; 2],
    pub p50_nanos: [u64; 2],
    pub p99_nanos: [u64; 2],
    pub load_p99_nanos: [u64; 2],
    /// This build's values as shares of the other's in the same pair. None if one was too small to measure.
    pub per_second_share: Option<Spread>,
    pub cpu_share: Option<Spread>,
    pub p50_share: Option<Spread>,
    pub p99_share: Option<Spread>,
    pub load_p99_share: Option<Spread>,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Compared {
    pub(crate) fn of(name: &'static str, pairs: &[[Outcome; 2]]) -> Self {
        let medians = |value: &dyn Fn(&Outcome) -> u64| {
            [0, 1].map(|side: usize| median(pairs.iter().map(|pair| value(&pair[side])).collect()))
        };
        let share = |value: &dyn Fn(&Outcome) -> u64| {
            let pairs = pairs.iter().map(|[this, other]| (value(this), value(other)));
            let measured = pairs.filter(|(this, other)| *this > 0 && *other > 0);
            Spread::of(measured.map(|(this, other)| this as f64 / other as f64).collect())
        };
        let (per_second, cpu) = (|it: &Outcome| it.load_per_second, |it: &Outcome| it.cpu_nanos.unwrap_or_default());
        let (p50, p99) = (|it: &Outcome| it.one_connection.p50_nanos, |it: &Outcome| it.one_connection.p99_nanos);
        let load_p99 = |it: &Outcome| it.load.p99_nanos;
        Self {
            name,
            per_second: medians(&per_second),
            cpu_nanos: medians(&cpu),
            p50_nanos: medians(&p50),
            p99_nanos: medians(&p99),
            load_p99_nanos: medians(&load_p99),
            per_second_share: share(&per_second),
            cpu_share: share(&cpu),
            p50_share: share(&p50),
            p99_share: share(&p99),
            load_p99_share: share(&load_p99),
            errors: pairs.iter().flatten().map(|outcome| outcome.errors).sum(),
            first_error: pairs.iter().flatten().find_map(|outcome| outcome.first_error.clone()),
        }
    }
}

impl Comparison {
    pub(crate) fn errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors).sum()
    }

    pub(crate) fn print(&self) {
        println!("This build beside {}, {} turns of each.", self.other.display(), self.turns);
        let load = format!("{} connections", self.connections);
        println!("\nMedians: this build, the other");
        println!("{:<16}{:>34}{:>54}", "", "one connection, ms", load);
        println!("{:<16}{:>17}{:>17}{:>18}{:>18}{:>18}", "", "p50", "p99", "per second", "p99 ms", "CPU ms");
        for kind in &self.kinds {
            let [this, other] = kind.per_second;
            println!(
                "{:<16}{:>17}{:>17}{:>18}{:>18}{:>18}",
                kind.name,
                millis(kind.p50_nanos),
                millis(kind.p99_nanos),
                format!("{this} {other:>7}"),
                millis(kind.load_p99_nanos),
                millis(kind.cpu_nanos)
            );
        }
        println!("\nShare of the other's in the same turns: median, and where it lies with a certainty of 95 %");
        println!("{:<16}{:>20}{:>20}{:>20}{:>20}{:>20}", "", "p50", "p99", "per second", "p99", "CPU");
        for kind in &self.kinds {
            println!(
                "{:<16}{:>20}{:>20}{:>20}{:>20}{:>20}",
                kind.name,
                share(kind.p50_share),
                share(kind.p99_share),
                share(kind.per_second_share),
                share(kind.load_p99_share),
                share(kind.cpu_share)
            );
        }
        for error in self.kinds.iter().filter_map(|kind| kind.first_error.as_ref()).take(3) {
            println!("\nA request failed: {error}");
        }
    }
}

fn millis([this, other]: [u64; 2]) -> String {
    format!("{:.3} {:>7.3}", this as f64 / 1e6, other as f64 / 1e6)
}

fn share(share: Option<Spread>) -> String {
    share.map_or_else(|| "-".to_owned(), |it| format!("{:.2} [{:.2}, {:.2}]", it.median, it.low, it.high))
}
