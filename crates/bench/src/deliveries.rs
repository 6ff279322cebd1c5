//! Webhooks: deliveries per second beside bare posts to the same receiver; the delay of events while one receiver hangs
//! beside that while none does; and the latency of fills under full delivery beside that without. All in one run: the
//! ratios say more than the figures.
//!
//! The service runs in a process of its own and delivers to a receiver in this one, which shares its cores.

mod receiver;
mod report;
mod service;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use devnet::{Devnet, Progress};
use domain::request::State;

use self::receiver::Sink;
pub(crate) use self::report::Report;
use self::report::{Delay, Fills, Rate};
use self::service::Posting;
use crate::client::{Client, post};
use crate::fill::{FillArgs, Filling, latency};
use crate::stats::{Latency, nanos, per_second};
use crate::{cpu, processes, results};

/// As many as a key may have. The last of them hangs when it is told to.
const ENDPOINTS: usize = 10;
/// Events of one request.
const STEPS: [State; 4] = [State::Waiting, State::Pending, State::Submitted, State::Success];
/// Connections of the baseline: as many as the service has to one receiver.
const CONNECTIONS: usize = webhooks::MAX_POSTS_PER_ENDPOINT;
/// The longest wait for events that are under way.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Args)]
pub(crate) struct DeliveryArgs {
    /// Duration of each load, in seconds: shorter than an attempt may take, so that a receiver that hangs fails none.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=8))]
    pub seconds: u64,
    /// Events queued for ten endpoints each; more than are delivered during the run.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(4..=100_000))]
    pub events: u64,
    /// Events per second while the delay is measured.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=1_000))]
    pub rate: u64,
    /// Number of fills measured in each turn, one per block.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub samples: u64,
    /// Turns with and without a hanging receiver, and with and without full delivery.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=20))]
    pub turns: u64,
    /// Another build of the service; this program contains one itself.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Folder for the database; its disk is part of every measurement.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub folder: PathBuf,
    /// Also write the results to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

pub(crate) async fn measure(args: &DeliveryArgs) -> Result<Report> {
    let progress = Progress::new(|text| eprintln!("{text}"));
    let options = devnet::Options { fillers: 4, progress: progress.clone(), ..devnet::Options::default() };
    let devnet = Devnet::start(options).await?;
    let measured = Box::pin(on(&devnet, args, &progress)).await;
    devnet.shutdown().await?;
    let report = measured?;
    results::write(args.json.as_deref(), &report)?;
    Ok(report)
}

async fn on(devnet: &Devnet, args: &DeliveryArgs, progress: &Progress) -> Result<Report> {
    let fill_args = FillArgs {
        samples: args.samples,
        rate: 1,
        seconds: 1,
        only: None,
        lanes: 4,
        list: false,
        binary: args.binary.clone(),
        folder: args.folder.clone(),
        json: None,
    };
    let filling = Filling::start(devnet, &fill_args, false).await?;
    let sink = Sink::start().await?;
    let owner = devnet.chain(domain::ledger::CHAIN).fresh_user().await?;
    let posting = Posting::new(&filling.world, &owner).await?;
    for n in 0..ENDPOINTS {
        posting.set(n, &sink.url(n, ENDPOINTS - 1)).await?;
    }
    progress.say("Events one by one, with and without a receiver that hangs");
    let delay = delay(&posting, &sink, args).await?;
    progress.say("Bare posts to the same receiver");
    let baseline = bare(&sink, Duration::from_secs(args.seconds)).await?;
    progress.say(&format!("Queueing {} events for {ENDPOINTS} endpoints", args.events));
    let requests = posting.requests(usize::try_from(args.events)?.div_ceil(STEPS.len())).await?;
    harness::publish(&filling.world.config, &requests, &STEPS).await?;
    progress.say("All of them at once");
    let rate = rate(&filling, &sink, baseline, args).await?;
    posting.enable_all(ENDPOINTS, false).await?;
    progress.say("Fills, with and without full delivery");
    let fills = fills(&filling, &posting, &sink, args).await?;
    ensure!(filling.served.terminate().await?.success(), "the service did not end in order");
    Ok(Report { cores: std::thread::available_parallelism()?.get(), endpoints: ENDPOINTS, rate, delay, fills })
}

/// The delay from an event's commit to its arrival, at a fixed rate, over the endpoints that do not hang.
async fn delay(posting: &Posting, sink: &Sink, args: &DeliveryArgs) -> Result<Delay> {
    let (mut calm, mut hanging) = (Vec::new(), Vec::new());
    // The first turn only makes the service know its receivers.
    turn(posting, sink, args).await?;
    for _ in 0..args.turns {
        calm.extend(turn(posting, sink, args).await?);
        sink.hang(true);
        hanging.extend(turn(posting, sink, args).await?);
    }
    Ok(Delay { per_second: args.rate, calm: Latency::of(calm), hanging: Latency::of(hanging) })
}

async fn turn(posting: &Posting, sink: &Sink, args: &DeliveryArgs) -> Result<Vec<u64>> {
    let mut client = posting.connect().await?;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(args.rate)?);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (began, mut sent) = (Instant::now(), Vec::new());
    sink.watch();
    for n in (0..ENDPOINTS).cycle() {
        if began.elapsed() >= Duration::from_secs(args.seconds) {
            break;
        }
        tick.tick().await;
        sent.push((n, posting.test(&mut client, n).await?, Instant::now()));
    }
    sink.hang(false);
    let arrivals = sink.arrivals(sent.len(), ARRIVAL_TIMEOUT).await?;
    let others = sent.iter().filter(|(n, ..)| *n != ENDPOINTS - 1);
    others
        .map(|(_, id, at)| {
            let arrived = arrivals.get(id).with_context(|| format!("event {id} never came"))?;
            Ok(nanos(arrived.saturating_duration_since(*at)))
        })
        .collect()
}

/// The baseline: posts of an event's size over as many connections, without a database, a signature or an order.
async fn bare(sink: &Sink, time: Duration) -> Result<u64> {
    let request = post("/0", &sink.sample());
    let before = sink.count();
    let began = Instant::now();
    let connection = || async {
        let mut client = Client::connect(sink.address).await?;
        while began.elapsed() < time {
            client.send(&request).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    futures::future::try_join_all((0..CONNECTIONS).map(|_| connection())).await?;
    Ok(per_second(sink.count() - before, began.elapsed()))
}

/// Deliveries per second out of a queue that does not end.
async fn rate(filling: &Filling<'_>, sink: &Sink, baseline: u64, args: &DeliveryArgs) -> Result<Rate> {
    let watched = filling.processes();
    let (before, count, began) = (processes::now(&watched), sink.count(), Instant::now());
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let (delivered, took) = (sink.count() - count, began.elapsed());
    let shares = processes::since(&before, &watched);
    still_busy(sink).await?;
    let service = shares.iter().find(|share| share.name == "service").filter(|_| cpu::used().is_some());
    let micros = service.and_then(|share| u64::try_from(took.as_micros()).ok()?.checked_mul(share.core_permille));
    Ok(Rate {
        bare_per_second: baseline,
        per_second: per_second(delivered, took),
        service_cpu_micros: micros.and_then(|micros| (micros / 1_000).checked_div(delivered as u64)),
        shares,
    })
}

/// The latency of fills, by turns without and under full delivery.
async fn fills(filling: &Filling<'_>, posting: &Posting, sink: &Sink, args: &DeliveryArgs) -> Result<Fills> {
    let (mut calm, mut loaded) = (latency::Samples::default(), latency::Samples::default());
    let (mut delivered, mut took) = (0, Duration::ZERO);
    for _ in 0..args.turns {
        sink.quiet(ARRIVAL_TIMEOUT).await?;
        calm.add(latency::take(filling, args.samples, false, None).await?);
        posting.enable_all(ENDPOINTS, true).await?;
        let (count, began) = (sink.count(), Instant::now());
        loaded.add(latency::take(filling, args.samples, false, None).await?);
        (delivered, took) = (delivered + sink.count() - count, took + began.elapsed());
        still_busy(sink).await?;
        posting.enable_all(ENDPOINTS, false).await?;
    }
    Ok(Fills { calm: calm.stats(), loaded: loaded.stats(), delivered_per_second: per_second(delivered, took) })
}

/// The queue must outlast what is measured: an empty one is no load.
async fn still_busy(sink: &Sink) -> Result<()> {
    let count = sink.count();
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure!(sink.count() > count, "the queue ran dry: raise --events");
    Ok(())
}
