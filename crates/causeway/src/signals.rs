//! Ctrl-C and SIGTERM, by which a process is told to stop.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals are heard from the moment this is made. Whoever can be told to stop as soon as others know of it makes
/// it before they do: until then a signal ends the process at once.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Completes once one of them has come.
    pub async fn heard(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_before_anybody_waits_for_it_is_heard() -> Result<()> {
        let mut signals = Signals::listen()?;
        raise(Signal::SIGTERM)?;
        Ok(tokio::time::timeout(Duration::from_secs(60), signals.heard()).await?)
    }
}
