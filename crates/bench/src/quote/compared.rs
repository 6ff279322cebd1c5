//! The report on two builds: each value of this build as a share of the other's in the same round.

// Shares and milliseconds are for reading.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use std::path::PathBuf;

use harness::Engine;
use serde::Serialize;

use crate::load::Outcome;
use crate::stats::{MedianInterval, median};

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub other: PathBuf,
    pub engine: Engine,
    pub rounds: usize,
    /// Duration of each kind of load in a turn.
    pub seconds: u64,
    pub connections: usize,
    pub kinds: Vec<Compared>,
}

/// One kind of quote, measured with both builds.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub name: &'static str,
    pub p50: Measured,
    pub p99: Measured,
    pub per_second: Measured,
    pub load_p99: Measured,
    pub cpu: Measured,
    pub errors: Sides,
    pub first_error: Option<String>,
}

/// A value of each build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sides {
    pub this: u64,
    pub other: u64,
}

/// One value over all rounds. Durations are in nanoseconds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// The median of each build; the two may come from different rounds.
    pub medians: Sides,
    /// This build's value as a share of the other's in the same round. None with too few rounds in which both could be
    /// measured.
    pub share: Option<MedianInterval>,
}

type Text = fn(u64) -> String;

impl Measured {
    fn of(rounds: &[[Outcome; 2]], value: impl Fn(&Outcome) -> u64) -> Self {
        let values: Vec<[u64; 2]> = rounds.iter().map(|round| round.each_ref().map(&value)).collect();
        let median_of = |side: usize| median(values.iter().map(|round| round[side]).collect());
        let measured = values.iter().filter(|round| !round.contains(&0));
        let share = measured.map(|[this, other]| *this as f64 / *other as f64);
        let medians = Sides { this: median_of(0), other: median_of(1) };
        Self { medians, share: MedianInterval::of(share.collect()) }
    }
}

impl Compared {
    /// The first outcome of each round is this build's.
    pub(crate) fn of(name: &'static str, rounds: &[[Outcome; 2]]) -> Self {
        let errors = |side: usize| rounds.iter().map(|round| round[side].errors).sum();
        Self {
            name,
            p50: Measured::of(rounds, |it| it.one_connection.p50_nanos),
            p99: Measured::of(rounds, |it| it.one_connection.p99_nanos),
            per_second: Measured::of(rounds, |it| it.load_per_second),
            load_p99: Measured::of(rounds, |it| it.load.p99_nanos),
            cpu: Measured::of(rounds, |it| it.cpu_nanos.unwrap_or_default()),
            errors: Sides { this: errors(0), other: errors(1) },
            first_error: rounds.iter().flatten().find_map(|outcome| outcome.first_error.clone()),
        }
    }

    /// The columns of the report, and the text of a value in each.
    fn columns(&self) -> [(&Measured, Text); 5] {
        [
            (&self.p50, millis),
            (&self.p99, millis),
            (&self.per_second, |count| count.to_string()),
            (&self.load_p99, millis),
            (&self.cpu, millis),
        ]
    }
}

impl Comparison {
    pub(crate) fn errors(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.errors.this + kind.errors.other).sum()
    }

    pub(crate) fn print(&self) {
        let (other, engine, load) = (self.other.display(), self.engine.name(), self.connections);
        println!("This build beside {other}, {} rounds on {engine}.", self.rounds);
        let heads = || {
            println!("{:<16}{:>40}{:>60}", "", "one connection", format!("{load} connections"));
            println!("{:<16}{:>20}{:>20}{:>20}{:>20}{:>20}", "", "p50", "p99", "per second", "p99", "CPU");
        };
        println!("\nMedians of each build, this one first; durations in ms");
        heads();
        for kind in &self.kinds {
            print!("{:<16}", kind.name);
            for (measured, text) in kind.columns() {
                let Sides { this, other } = measured.medians;
                print!("{:>20}", format!("{} {:>7}", text(this), text(other)));
            }
            println!();
        }
        println!("\nShares of the other build's values in the same round: median, and 95 % bounds of the true one");
        heads();
        for kind in &self.kinds {
            print!("{:<16}", kind.name);
            for (measured, _) in kind.columns() {
                print!("{:>20}", measured.share.map_or_else(|| "-".to_owned(), interval));
            }
            println!();
        }
        for kind in self.kinds.iter().filter(|kind| kind.errors != Sides { this: 0, other: 0 }) {
            let Sides { this, other } = kind.errors;
            let first = kind.first_error.as_deref().unwrap_or_default();
            println!("\n{}: {this} requests failed in this build, {other} in the other; the first: {first}", kind.name);
        }
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

fn interval(share: MedianInterval) -> String {
    format!("{:.2} [{:.2}, {:.2}]", share.median, share.low, share.high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Latency;

    fn outcome(scale: u64, errors: u64) -> Outcome {
        let latency = Latency { count: 1, p10_nanos: scale, p50_nanos: 2 * scale, p99_nanos: 3 * scale };
        let first_error = (errors > 0).then(|| format!("of scale {scale}"));
        let cpu_nanos = Some(5 * scale);
        Outcome { one_connection: latency, load: latency, load_per_second: 4 * scale, cpu_nanos, errors, first_error }
    }

    #[test]
    fn a_share_is_this_builds_value_by_the_others_in_the_same_round() {
        // The machine becomes slower from round to round, for both.
        let rounds: Vec<[Outcome; 2]> =
            (1..=7).map(|round| [outcome(100 * round, 0), outcome(50 * round, 3)]).collect();
        let compared = Compared::of("kind", &rounds);
        for (measured, _) in compared.columns() {
            assert_eq!(measured.share, Some(MedianInterval { median: 2.0, low: 2.0, high: 2.0 }));
        }
        assert_eq!(compared.per_second.medians, Sides { this: 1_600, other: 800 });
        assert_eq!(compared.errors, Sides { this: 0, other: 21 });
        assert_eq!(compared.first_error.as_deref(), Some("of scale 50"));
    }

    #[test]
    fn rounds_without_a_value_have_no_share() {
        let unmeasured = || Outcome { cpu_nanos: None, ..outcome(1, 0) };
        let mut rounds: Vec<[Outcome; 2]> = (0..6).map(|_| [outcome(2, 0), outcome(1, 0)]).collect();
        rounds.push([outcome(2, 0), unmeasured()]);
        assert!(Compared::of("kind", &rounds).cpu.share.is_some());
        rounds[0] = [unmeasured(), outcome(1, 0)];
        let compared = Compared::of("kind", &rounds);
        assert_eq!(compared.cpu.share, None);
        assert!(compared.p50.share.is_some());
    }
}
