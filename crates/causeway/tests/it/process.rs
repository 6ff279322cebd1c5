//! The real binary, run, killed and run again.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::Result;
use causeway::served::Served;

pub fn causeway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_causeway"))
}

/// Imports what the chains show. Meanwhile this thread serves the endpoints of chains of the test's own: every node has
/// to answer.
pub async fn recover(config: &Path) -> Result<Output> {
    let mut command = causeway();
    command.args(["recover", "--config"]).arg(config);
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

/// A service in a process of its own. Its last words are part of a failing test's output.
pub fn serve(config: &Path, crash_at: Option<&str>) -> Result<Served> {
    serve_as("all", config, crash_at)
}

pub fn serve_as(role: &str, config: &Path, crash_at: Option<&str>) -> Result<Served> {
    let mut command = causeway();
    command.stdout(Stdio::null()).env("RUST_LOG", "warn,alloy_pubsub=off,alloy_transport_ws=off");
    Served::start(command, role, config, crash_at)
}

/// A service whose log goes to a file.
pub fn serve_logging(config: &Path, log: &Path) -> Result<Served> {
    let mut command = causeway();
    command.stdout(File::create(log.with_extension("out"))?);
    command.env("RUST_LOG", "trace").stderr(File::create(log)?);
    Served::start(command, "all", config, None)
}
