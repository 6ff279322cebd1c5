//! The service in a process of its own: started, killed and restarted by tests and by the chaos run.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The longest an orderly shutdown may take: the service itself gives its tasks, its leave and its database half a
/// minute each.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);

/// The process is killed when this is dropped.
#[derive(Debug)]
pub struct Served(Child);

impl Served {
    /// `program` runs the `causeway` binary; the caller decides where its output goes.
    pub fn start(mut program: Command, role: &str, config: &Path, crash_at: Option<&str>) -> Result<Self> {
        program.args(["serve", "--role", role, "--config"]).arg(config);
        if let Some(point) = crash_at {
            program.env(crate::crash::VARIABLE, point);
        }
        Ok(Self(program.spawn()?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The exit status, once the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    pub async fn wait_until_dead(&mut self, patience: Duration) -> Result<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the process did not die in time")
    }

    /// Sends SIGTERM, as an operator would, and waits for the end.
    pub async fn terminate(mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_until_dead(DRAIN_TIMEOUT).await
    }

    /// Sends a signal, such as SIGSTOP and SIGCONT to pause and resume the process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.0.id())?), signal)?)
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test may have ended the process already.
        let _ = self.kill();
    }
}
