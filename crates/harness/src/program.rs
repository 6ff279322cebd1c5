//! The service as a program: a process that can be killed, and whose CPU and memory are its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use causeway::served::Served;

/// The way to run the binary: another build of it, or this program, which contains the whole service.
#[derive(Clone, Debug)]
pub struct Program {
    pub binary: Option<PathBuf>,
    pub config: PathBuf,
    /// File for its output.
    pub log: PathBuf,
}

impl Program {
    pub fn command(&self) -> Result<Command> {
        match &self.binary {
            Some(path) => Ok(Command::new(path)),
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("causeway");
                Ok(command)
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the log filter is the choice of whoever runs the benchmark")]
    pub fn serve(&self, crash_at: Option<&str>) -> Result<Served> {
        let mut command = self.command()?;
        command.stdout(Stdio::null()).stderr(File::options().create(true).append(true).open(&self.log)?);
        if std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "warn,alloy_pubsub=off,alloy_transport_ws=off");
        }
        Served::start(command, "all", &self.config, crash_at)
    }

    /// Makes the tables, by this build's own migrations.
    pub async fn migrate(&self) -> Result<()> {
        let (content, _, said) = self.run(&["migrate"]).await?;
        ensure!(content, "cannot make the database: {said}");
        Ok(())
    }

    /// Runs a subcommand to its end; returns its success and its output.
    pub async fn run(&self, args: &[&str]) -> Result<(bool, String, String)> {
        let mut command = self.command()?;
        command.args(args).arg("--config").arg(&self.config);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
    }
}
