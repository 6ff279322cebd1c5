//! One anvil: the node of one local chain.
//!
//! It never mines by itself (automine stalls under load and its interval cannot be changed below a second); its owner
//! calls `evm_mine`.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::json;
use url::Url;

use crate::process::{Process, Program};
use crate::rpc::Rpc;

/// Room for about 140,000 plain transfers: blocks are never full, so nothing waits for space.
const GAS_LIMIT: u64 = 3_000_000_000;
/// Blocks whose state is kept; finality is 64 deep. Real nodes that are no archives keep half as many.
const STATES: u32 = 256;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Anvil {
    process: Process,
    pub rpc: Rpc,
    pub port: u16,
}

#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub binary: &'a Path,
    pub name: &'a str,
    pub chain_id: u64,
    /// 0 for any free port.
    pub port: u16,
    /// A state file to begin with.
    pub load: Option<&'a Path>,
    /// The file for the state when stopped in order.
    pub dump: Option<&'a Path>,
    /// The folder of the log.
    pub dir: &'a Path,
    pub dir_is_temporary: bool,
}

impl Anvil {
    pub(crate) async fn start(setup: Setup<'_>) -> Result<Self> {
        let mut args: Vec<OsString> =
            ["--host", "127.0.0.1", "--no-mining", "--no-request-size-limit"].map(OsString::from).into();
        args.extend(["--port".into(), setup.port.to_string().into()]);
        args.extend(["--chain-id".into(), setup.chain_id.to_string().into()]);
        args.extend(["--gas-limit".into(), GAS_LIMIT.to_string().into()]);
        // By default anvil keeps thousands of states, most of them on disk, and each is a file with the whole chain:
        // gigabytes an hour.
        args.extend(["--prune-history".into(), STATES.to_string().into()]);
        for (option, path) in [("--load-state", setup.load), ("--dump-state", setup.dump)] {
            if let Some(path) = path {
                args.extend([option.into(), path.into()]);
            }
        }
        let name = format!("anvil {}", setup.name);
        let Setup { binary: path, dir, dir_is_temporary, .. } = setup;
        let program = Program { name, path, args, dir, dir_is_temporary, last_signal: Signal::SIGKILL };
        let mut process = Process::start(program)?;
        let port = listening_port(&mut process).await.with_context(|| match setup.port {
            0 => format!("cannot start the chain {}", setup.name),
            port => format!("cannot start the chain {} on port {port}; if that is taken, choose another", setup.name),
        })?;
        let rpc = Rpc::new(Url::parse(&format!("http://127.0.0.1:{port}"))?)?;
        // Without this it writes a line for every call.
        rpc.call::<serde_json::Value>("anvil_setLoggingEnabled", json!([false])).await?;
        Ok(Self { process, rpc, port })
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends anvil in order, which writes the state file if one was asked for.
    pub(crate) async fn stop(self) -> Result<()> {
        self.process.stop(Signal::SIGINT, STOP_TIMEOUT).await?;
        Ok(())
    }
}

/// The port is read from anvil's own output: only the process that holds the port knows which one it is.
async fn listening_port(process: &mut Process) -> Result<u16> {
    let began = Instant::now();
    loop {
        let output = process.output();
        if let Some(address) = output.lines().find_map(|line| line.strip_prefix("Listening on ")) {
            let port = address.rsplit(':').next().and_then(|port| port.trim().parse().ok());
            return port.with_context(|| format!("anvil listens on {address}, which has no port"));
        }
        process.check()?;
        if began.elapsed() > START_TIMEOUT {
            bail!("anvil did not come up within {START_TIMEOUT:?}:\n{output}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
