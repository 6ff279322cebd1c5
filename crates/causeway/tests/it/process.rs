//! The real binary, run, killed and run again.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub fn causeway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_causeway"))
}

/// A service in a process of its own; it dies with the test.
pub struct Served(Child);

impl Served {
    pub fn start(config: &Path, crash_at: Option<&str>) -> Result<Self> {
        Self::start_as("all", config, crash_at)
    }

    pub fn start_as(role: &str, config: &Path, crash_at: Option<&str>) -> Result<Self> {
        let mut command = causeway();
        command.args(["serve", "--role", role, "--config"]).arg(config).stdout(Stdio::null());
        // What a service that dies says is part of a failing test's output.
        command.env("RUST_LOG", "warn,alloy_pubsub=off,alloy_transport_ws=off");
        if let Some(point) = crash_at {
            command.env(causeway::crash::VARIABLE, point);
        }
        Ok(Self(command.spawn()?))
    }

    /// With everything it has to say in a file.
    pub fn logging(config: &Path, log: &Path) -> Result<Self> {
        let mut command = causeway();
        command.args(["serve", "--config"]).arg(config).stdout(std::fs::File::create(log.with_extension("out"))?);
        command.env("RUST_LOG", "trace").stderr(std::fs::File::create(log)?);
        Ok(Self(command.spawn()?))
    }

    pub async fn wait_until_dead(&mut self, patience: Duration) -> Result<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the process did not die in time")
    }

    /// Asks it to end, as an operator would.
    pub async fn terminate(mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_until_dead(Duration::from_secs(20)).await
    }

    /// Stops it where it stands, or lets it go on, as if nothing had been.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.0.id())?), signal)?)
    }

    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have died on purpose.
        let _ = self.kill();
    }
}
