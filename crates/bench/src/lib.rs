//! Load and latency of the service, each beside a baseline. It runs the real service on local chains and a real
//! database. It asserts nothing about time, because a busy machine would fail a check that a quiet one passes, except
//! for ratios of two things that are measured by turns.

mod backdate;
mod baseline;
mod chaos;
mod client;
mod cpu;
mod deliveries;
mod disk;
mod fill;
mod list;
mod load;
mod processes;
mod quote;
mod quoting;
mod report;
mod results;
mod socket;
mod stats;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use harness::Engine;

/// Measures the service on this machine.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Measure {
    /// `POST /quote/v2` beside a bare HTTP answer of the same size.
    Quote(QuoteArgs),
    /// Latency from deposit to fill, and fills per second, beside a baseline.
    Fill(fill::FillArgs),
    /// Fills and the search of blocks with no, ten and many open deposit addresses in the database.
    Addresses(fill::addresses::AddressArgs),
    /// Webhooks per second beside bare posts, a hanging receiver beside the others, and fills under full delivery.
    Webhooks(deliveries::DeliveryArgs),
    /// `GET /requests/v3` by each filter, among thousands and among millions of requests.
    List(list::ListArgs),
    /// Transfers while the service is killed, nodes misbehave and chains reorganise: each ends exactly once.
    Chaos(chaos::ChaosArgs),
    /// Moves the records of a local network into the past, so that its charts have days to show. Measures nothing.
    #[command(hide = true)]
    Backdate(backdate::BackdateArgs),
    /// The service itself, as its own binary runs it.
    #[command(hide = true)]
    Causeway {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
struct QuoteArgs {
    /// Duration of each load, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Concurrent connections under load.
    #[arg(long, default_value = "128")]
    connections: NonZeroUsize,
    /// Measure only rows whose name contains this text, and the baseline.
    #[arg(long)]
    only: Option<String>,
    /// Measure only this database.
    #[arg(long)]
    engine: Option<Engine>,
    /// Another build of `causeway`: measure both by turns, each on a local network of its own. On SQLite, unless
    /// `--engine` says otherwise, and without a baseline.
    #[arg(long, value_name = "BINARY")]
    beside: Option<PathBuf>,
    /// Rounds of each kind: in each one, both builds have a turn. Fewer than six would not bound a median.
    #[arg(long, requires = "beside", default_value_t = 16, value_parser = clap::value_parser!(u16).range(6..=1_000))]
    rounds: u16,
    /// Folder for the databases; its disk is part of every measurement.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// Also write the results to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The whole program: the command line, a measurement, its report.
pub fn main() -> ExitCode {
    let done = match Cli::parse().measure {
        Measure::Quote(args) => block_on(quote(&args)),
        Measure::Fill(args) => block_on(fill(&args)),
        Measure::Addresses(args) => block_on(addresses(&args)),
        Measure::Webhooks(args) => block_on(deliveries(&args)),
        Measure::List(args) => block_on(list(&args)),
        Measure::Chaos(args) => block_on(chaos(&args)),
        Measure::Backdate(args) => block_on(backdate::run(&args)),
        Measure::Causeway { args } => {
            let args = std::iter::once("causeway".into()).chain(args);
            causeway::commands::run(causeway::cli::Cli::parse_from(args))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn block_on(run: impl Future<Output = Result<()>>) -> Result<()> {
    // `RUST_LOG` turns the services' logs on; writing them would be part of the measurement.
    causeway::logs::start(causeway::logs::LogFormat::Text, "off");
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run)
}

async fn quote(args: &QuoteArgs) -> Result<()> {
    let errors = if let Some(other) = &args.beside {
        let comparison = Box::pin(quote::builds_by_turns(args, other)).await?;
        comparison.print();
        results::write(args.json.as_deref(), &comparison)?;
        comparison.errors()
    } else {
        let report = quote::measure(args).await?;
        report.print();
        results::write(args.json.as_deref(), &report)?;
        report.errors()
    };
    ensure!(errors == 0, "{errors} requests failed");
    Ok(())
}

async fn fill(args: &fill::FillArgs) -> Result<()> {
    let report = Box::pin(fill::measure(args)).await?;
    report.print();
    ensure!(!report.is_delayed_by_listing(), "listing delays fills by a fifth or more");
    Ok(())
}

async fn addresses(args: &fill::addresses::AddressArgs) -> Result<()> {
    let report = Box::pin(fill::addresses::measure(args)).await?;
    report.print();
    ensure!(!report.is_delayed(), "open addresses delay fills by more than a fifth");
    Ok(())
}

async fn list(args: &list::ListArgs) -> Result<()> {
    let report = Box::pin(list::measure(args)).await?;
    report.print();
    let growing = report.growing(args.max_ratio);
    ensure!(
        growing.is_empty(),
        "more than {} times as slow in the largest database: {}",
        args.max_ratio,
        growing.join(", ")
    );
    let Some(bound) = args.max_page_millis else { return Ok(()) };
    let slow = report.slow_pages(bound);
    ensure!(slow.is_empty(), "slower than {bound} ms in the largest database: {}", slow.join(", "));
    Ok(())
}

async fn deliveries(args: &deliveries::DeliveryArgs) -> Result<()> {
    Box::pin(deliveries::measure(args)).await?.print();
    Ok(())
}

async fn chaos(args: &chaos::ChaosArgs) -> Result<()> {
    let report = chaos::run(args).await?;
    report.print();
    ensure!(report.wrong.is_empty(), "{} things are wrong; seed {}", report.wrong.len(), report.seed);
    Ok(())
}
