//! The two kinds of load: one request after another on one connection, and as fast as many connections can.
//!
//! The client has a thread and a runtime of its own, so that it never runs on the service's threads.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::client::Client;
use crate::cpu;
use crate::stats::{Latency, nanos, per_second};

/// Enough samples for a stable p99.
const MAX_IN_SEQUENCE: usize = 5_000;
/// Warm-up requests before the measurement: the first ones open connections and prepare statements.
const WARM_UP: usize = 200;
/// Length of one turn before the other kind's. It does not divide a second: blocks and checkpoints come every second,
/// and would otherwise all fall on one of the two.
const TURN_LENGTH: Duration = Duration::from_millis(170);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub time: Duration,
    pub connections: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub one_connection: Latency,
    pub load: Latency,
    pub load_per_second: u64,
    /// CPU time of the server's process per request under load, in nanoseconds. It includes the client where the server
    /// runs in this process.
    pub cpu_nanos: Option<u64>,
    pub errors: u64,
    /// Text of the first failure.
    pub first_error: Option<String>,
}

/// Latencies on one connection, in nanoseconds, and its failures.
#[derive(Default)]
struct Series {
    nanos: Vec<u64>,
    errors: u64,
    first_error: Option<String>,
}

/// A server to load, and the process whose CPU time is counted.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// For failures.
    pub name: &'static str,
    pub address: SocketAddr,
    pub request: Vec<u8>,
    pub process: u32,
}

impl Target {
    /// A server in this process.
    pub(crate) fn own(address: SocketAddr, request: &[u8]) -> Self {
        Self { name: "the service", address, request: request.to_vec(), process: std::process::id() }
    }
}

/// Runs both kinds of load against one server.
pub(crate) async fn measure(target: Target, effort: Effort) -> Result<Outcome> {
    apart(async move || ask(&target, effort).await).await
}

/// Runs both kinds of load against two servers by turns. The cost of a request drifts on a shared machine, and turns
/// spread the drift over both.
pub(crate) async fn by_turns(targets: [Target; 2], rounds: usize, effort: Effort) -> Result<Vec<[Outcome; 2]>> {
    apart(async move || {
        let mut all = Vec::with_capacity(rounds);
        for round in 0..rounds {
            all.push(in_order(round, &targets, async |target| ask(target, effort).await).await?);
        }
        Ok(all)
    })
    .await
}

/// Measures both, in an order that alternates from round to round, so that neither always follows the other.
async fn in_order<T, O>(round: usize, both: &[T; 2], measure: impl AsyncFn(&T) -> Result<O>) -> Result<[O; 2]> {
    let [this, other] = both;
    if round.is_multiple_of(2) {
        let measured = measure(this).await?;
        return Ok([measured, measure(other).await?]);
    }
    let measured = measure(other).await?;
    Ok([measure(this).await?, measured])
}

/// CPU time of one request of each kind under load, in nanoseconds, measured in alternating turns: on a shared machine
/// the cost of a request drifts from second to second, and alternating spreads the drift over both. The result is the
/// pair of turns with the median ratio, because an event in the middle of a turn affects one kind only.
pub(crate) async fn compare(targets: [Target; 2], effort: Effort) -> Result<Option<[u64; 2]>> {
    apart(async move || {
        let until = Instant::now() + effort.time * 4;
        let cost = async |target: &Target| {
            let loaded = load(target, Effort { time: TURN_LENGTH, ..effort }).await?;
            let time = nanos(loaded.cpu.unwrap_or_default());
            Ok(time.checked_div(loaded.series.nanos.len() as u64).unwrap_or_default())
        };
        let mut pairs = Vec::new();
        while Instant::now() < until {
            pairs.push(in_order(pairs.len(), &targets, cost).await?);
        }
        Ok(median(pairs))
    })
    .await
}

/// The pair with the median ratio of first to second; pairs with a turn too short to measure are left out.
fn median(mut pairs: Vec<[u64; 2]>) -> Option<[u64; 2]> {
    pairs.retain(|costs| !costs.contains(&0));
    pairs.sort_by_key(|[one, other]| u128::from(*one) * 1_000_000 / u128::from(*other));
    pairs.get(pairs.len() / 2).copied()
}

/// Runs the work on a thread and a runtime of its own.
async fn apart<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: AsyncFnOnce() -> Result<T> + Send + 'static,
{
    let (reply, answer) = tokio::sync::oneshot::channel();
    let asking = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(work()));
        drop(reply.send(outcome));
    };
    std::thread::Builder::new().name("load".to_owned()).spawn(asking)?;
    answer.await.context("the load ended early")?
}

async fn ask(target: &Target, effort: Effort) -> Result<Outcome> {
    sequence(target, Instant::now() + effort.time, WARM_UP).await?;
    let one = sequence(target, Instant::now() + effort.time, MAX_IN_SEQUENCE).await?;
    let Loaded { series, took, cpu } = load(target, effort).await?;
    Ok(Outcome {
        cpu_nanos: cpu.and_then(|cpu| nanos(cpu).checked_div(series.nanos.len() as u64)),
        load_per_second: per_second(series.nanos.len(), took),
        errors: one.errors + series.errors,
        first_error: one.first_error.or(series.first_error),
        one_connection: Latency::of(one.nanos),
        load: Latency::of(series.nanos),
    })
}

/// Results of many connections at once.
struct Loaded {
    series: Series,
    took: Duration,
    /// CPU time of the server's whole process.
    cpu: Option<Duration>,
}

async fn load(target: &Target, effort: Effort) -> Result<Loaded> {
    let (began, used) = (Instant::now(), cpu::used_by(target.process));
    let until = began + effort.time;
    let all = (0..effort.connections).map(|_| sequence(target, until, usize::MAX));
    let all = futures::future::try_join_all(all).await?;
    let (took, cpu) =
        (began.elapsed(), cpu::used_by(target.process).zip(used).map(|(now, before)| now.saturating_sub(before)));
    let mut series = Series::default();
    for one in all {
        series.nanos.extend(one.nanos);
        series.errors += one.errors;
        series.first_error = series.first_error.or(one.first_error);
    }
    Ok(Loaded { series, took, cpu })
}

/// Sends requests on one connection until the time or the number is reached. A failure is counted and reconnects.
async fn sequence(target: &Target, until: Instant, most: usize) -> Result<Series> {
    let mut client = Client::connect(target.address).await.with_context(|| format!("{} is gone", target.name))?;
    let mut series = Series::default();
    while Instant::now() < until && series.nanos.len() < most {
        let began = Instant::now();
        match client.send(&target.request).await {
            Ok(_) => series.nanos.push(nanos(began.elapsed())),
            Err(error) => {
                series.errors += 1;
                series.first_error.get_or_insert_with(|| format!("{}: {error:#}", target.name));
                client = Client::connect(target.address).await.with_context(|| format!("{} is gone", target.name))?;
            }
        }
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_order_alternates_and_the_results_keep_their_places() {
        let order = std::cell::RefCell::new(Vec::new());
        let measure = async |name: &&'static str| {
            order.borrow_mut().push(*name);
            Ok(*name)
        };
        for round in 0..4 {
            assert_eq!(in_order(round, &["this", "other"], measure).await.unwrap(), ["this", "other"]);
        }
        assert_eq!(order.into_inner(), ["this", "other", "other", "this", "this", "other", "other", "this"]);
    }

    #[test]
    fn the_pair_with_the_median_ratio_is_chosen() {
        let pairs = vec![[120, 100], [0, 100], [300, 100], [114, 100], [50, 100], [113, 100], [100, 0]];
        assert_eq!(median(pairs), Some([114, 100]));
        assert_eq!(median(vec![[0, 1]]), None);
    }
}
