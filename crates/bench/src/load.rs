//! The two ways of asking: one after another on one connection, and as fast as many connections can.
//!
//! The asking side has a thread and a runtime of its own, so that it never runs on the threads of the service.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::client::Client;
use crate::cpu;
use crate::figures::{Latency, nanos, per_second};

/// Enough for a steady p99.
const MOST_IN_SEQUENCE: usize = 5_000;
/// Asked before the clock runs: connections and prepared statements are made by the first.
const WARM_UP: usize = 200;

#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub time: Duration,
    pub connections: usize,
}

#[derive(Debug, Serialize)]
pub struct Outcome {
    pub one_connection: Latency,
    pub load: Latency,
    pub load_per_second: u64,
    /// Processor time of one request under load, both sides of the connection, in nanoseconds.
    pub cpu_nanos: Option<u64>,
    pub errors: u64,
    /// What the first failure said.
    pub first_error: Option<String>,
}

/// Timings of one connection, in nanoseconds, and what went wrong on it.
#[derive(Default)]
struct Series {
    nanos: Vec<u64>,
    errors: u64,
    first_error: Option<String>,
}

/// Runs both ways against one server.
pub async fn measure(address: SocketAddr, request: Vec<u8>, effort: Effort) -> Result<Outcome> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let asking = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(ask(address, &request, effort)));
        drop(reply.send(outcome));
    };
    std::thread::Builder::new().name("load".to_owned()).spawn(asking)?;
    answer.await.context("the load ended early")?
}

async fn ask(address: SocketAddr, request: &[u8], effort: Effort) -> Result<Outcome> {
    sequence(address, request, Instant::now() + effort.time, WARM_UP).await?;
    let one = sequence(address, request, Instant::now() + effort.time, MOST_IN_SEQUENCE).await?;
    let (began, used) = (Instant::now(), cpu::used());
    let until = began + effort.time;
    let all = (0..effort.connections).map(|_| sequence(address, request, until, usize::MAX));
    let all = futures::future::try_join_all(all).await?;
    let (took, cpu) = (began.elapsed(), cpu::used().zip(used).map(|(now, before)| now.saturating_sub(before)));

    let mut loaded = Series::default();
    for series in all {
        loaded.nanos.extend(series.nanos);
        loaded.errors += series.errors;
        loaded.first_error = loaded.first_error.or(series.first_error);
    }
    Ok(Outcome {
        cpu_nanos: cpu.and_then(|cpu| nanos(cpu).checked_div(loaded.nanos.len() as u64)),
        load_per_second: per_second(loaded.nanos.len(), took),
        errors: one.errors + loaded.errors,
        first_error: one.first_error.or(loaded.first_error),
        one_connection: Latency::of(one.nanos),
        load: Latency::of(loaded.nanos),
    })
}

/// Asks on one connection until the time or the number is reached. A failure is counted and the connection made anew.
async fn sequence(address: SocketAddr, request: &[u8], until: Instant, most: usize) -> Result<Series> {
    let mut client = Client::connect(address).await.context("the server is gone")?;
    let mut series = Series::default();
    while Instant::now() < until && series.nanos.len() < most {
        let began = Instant::now();
        match client.send(request).await {
            Ok(_) => series.nanos.push(nanos(began.elapsed())),
            Err(error) => {
                series.errors += 1;
                series.first_error.get_or_insert_with(|| format!("{error:#}"));
                client = Client::connect(address).await.context("the server is gone")?;
            }
        }
    }
    Ok(series)
}
