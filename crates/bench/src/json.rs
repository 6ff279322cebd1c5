//! The JSON writer of large answers beside `serde_json`: the same answer written by both, and what the difference is of a
//! whole quote.

// Ratios and shares are for reading; measurements stay whole nanoseconds.
#![allow(clippy::float_arithmetic, reason = "figures for people, not money")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use devnet::{Devnet, Progress};
use harness::Engine;

use crate::load::{self, Effort};
use crate::quote::{Kind, kinds};
use crate::quoting::Quoting;
use crate::report::ratio;
use crate::stats::nanos;

/// Answers in one turn of a writer: long enough for the clock, and short beside a slice of the scheduler.
const ANSWERS_PER_TURN: u32 = 64;

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Concurrent connections under load.
    #[arg(long, default_value = "128")]
    connections: NonZeroUsize,
    /// Folder for the database; its disk is part of every quote.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Report(Vec<Row>);

/// One kind of quote.
#[derive(Debug)]
struct Row {
    name: &'static str,
    answer_bytes: usize,
    costs: Costs,
    /// CPU time of a whole quote under load, client included.
    quote_nanos: u64,
}

/// Time of one answer, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    ours: u64,
    serde_json: u64,
}

pub(crate) async fn measure(args: &JsonArgs) -> Result<Report> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let devnet = Devnet::start(devnet::Options { progress: progress.clone(), ..devnet::Options::default() }).await?;
    let quoting = Quoting::start(&devnet, Engine::Sqlite, None, &args.folder).await?;
    let effort = Effort { time: Duration::from_secs(args.seconds), connections: args.connections.get() };
    let mut rows = Vec::new();
    // The sample of an answer has no key: a sponsored quote would not be the same.
    for kind in kinds(&devnet, &quoting.sponsor).iter().filter(|kind| kind.beside.is_none()) {
        progress.say(&format!("Measuring {}", kind.name));
        rows.push(row(&quoting, kind, effort).await.context(kind.name)?);
    }
    quoting.stop().await?;
    devnet.shutdown().await?;
    Ok(Report(rows))
}

async fn row(quoting: &Quoting, kind: &Kind, effort: Effort) -> Result<Row> {
    let sample = quoting.service.app.sample_quote(kind.body.as_bytes()).await.context("it cannot be quoted")?;
    let compared =
        tokio::task::spawn_blocking(move || sample.compare(|ours, theirs| by_turns(ours, theirs, effort.time)));
    let (answer_bytes, costs) = compared.await?.context("there is no answer to write")??;
    let outcome = load::measure(quoting.service.address, kind.request.clone(), effort).await?;
    ensure!(outcome.errors == 0, "{} quotes failed", outcome.errors);
    let quote_nanos = outcome.cpu_nanos.context("the CPU time of the load is not known")?;
    Ok(Row { name: kind.name, answer_bytes, costs, quote_nanos })
}

/// The length of the answer, and the time that each writer takes for it, in alternating turns as [`load::compare`] has
/// them.
fn by_turns(ours: &dyn Fn() -> Vec<u8>, theirs: &dyn Fn() -> Vec<u8>, time: Duration) -> Result<(usize, Costs)> {
    let answer = ours();
    ensure!(!answer.is_empty() && answer == theirs(), "the two writers do not write the same");
    let until = Instant::now() + time;
    let (mut pairs, mut order) = (Vec::new(), [0, 1]);
    while Instant::now() < until {
        let mut pair = [0; 2];
        for writer in order {
            pair[writer] = turn(if writer == 0 { theirs } else { ours });
        }
        pairs.push(pair);
        order.reverse();
    }
    let [serde_json, ours] = load::median(pairs).context("no turn could be measured")?;
    Ok((answer.len(), Costs { ours, serde_json }))
}

fn turn(write: &dyn Fn() -> Vec<u8>) -> u64 {
    let began = Instant::now();
    for _ in 0..ANSWERS_PER_TURN {
        black_box(write());
    }
    nanos(began.elapsed() / ANSWERS_PER_TURN)
}

impl Costs {
    /// The share of a quote with `serde_json` that our writer saves, in percent; negative where it is the slower one.
    fn saved_percent(self, quote_nanos: u64) -> f64 {
        let saved = self.serde_json as f64 - self.ours as f64;
        saved / (quote_nanos as f64 + saved) * 100.0
    }
}

impl Report {
    pub(crate) fn print(&self) {
        println!(
            "{:<16}{:>8}{:>10}{:>15}{:>8}{:>13}{:>10}",
            "", "bytes", "ours, µs", "serde_json, µs", "", "quote, µs", "saved, %"
        );
        for Row { name, answer_bytes, costs, quote_nanos } in &self.0 {
            println!(
                "{name:<16}{answer_bytes:>8}{:>10}{:>15}{:>8}{:>13}{:>10.1}",
                micros(costs.ours),
                micros(costs.serde_json),
                ratio(costs.serde_json, costs.ours),
                micros(*quote_nanos),
                costs.saved_percent(*quote_nanos)
            );
        }
    }
}

fn micros(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_saving_is_a_share_of_a_quote_without_the_writer() {
        let saved = |ours, serde_json, quote| Costs { ours, serde_json }.saved_percent(quote);
        assert_eq!(format!("{:.1}", saved(10_000, 30_000, 80_000)), "20.0");
        assert_eq!(format!("{:.1}", saved(30_000, 10_000, 120_000)), "-20.0");
    }

    #[test]
    fn writers_that_differ_are_not_compared() {
        let (one, other) = (|| b"{}".to_vec(), || b"[]".to_vec());
        assert!(by_turns(&one, &other, Duration::ZERO).is_err());
        let (length, costs) = by_turns(&one, &one, Duration::from_millis(5)).unwrap();
        assert!(length == 2 && costs.ours > 0 && costs.serde_json > 0);
    }
}
