//! Load and latency of the service, each beside its floor. It runs the real service on local chains and a real
//! database; it asserts nothing about time, because a busy machine would fail what a quiet one passes.

mod client;
mod cpu;
mod disk;
mod figures;
mod floor;
mod load;
mod quote;
mod report;
mod stand;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};

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
}

#[derive(Debug, Args)]
struct QuoteArgs {
    /// How long each load lasts, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that ask at once under load.
    #[arg(long, default_value = "64")]
    connections: NonZeroUsize,
    /// Only this database.
    #[arg(long)]
    engine: Option<Engine>,
    /// Where the databases are made; the disk under it is part of every figure.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// Also write the figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Measure::Quote(args) = Cli::parse().measure;
    match run(&args).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(errors) => {
            eprintln!("error: {errors} requests failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// How many requests failed.
async fn run(args: &QuoteArgs) -> Result<u64> {
    // `RUST_LOG` shows what the services had to say; writing it would be part of the figures.
    causeway::telemetry::start_logging(causeway::cli::LogFormat::Text, "off");
    let report = quote::measure(args).await?;
    report.print();
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.errors())
}
