//! Logs and metrics of a process. A crate of its own, because every request passes through the subscriber of its logs,
//! which is built where it is put together: `causeway`, which puts all else together, is built with little optimisation.

use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::ValueEnum;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Logs go to standard error, so that a command's own output can be piped, in colour only to a terminal. The filter is
/// the one `asked` for, if it can be read, else the `default` level.
pub fn start_logging(format: LogFormat, asked: Option<&str>, default: &str) {
    // The websocket library is silenced: the chain follower reports lost connections itself.
    let default = format!("{default},alloy_pubsub=off,alloy_transport_ws=off");
    let asked = asked.and_then(|filter| EnvFilter::try_new(filter).ok());
    let filter = asked.unwrap_or_else(|| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_target(false);
    let builder = if std::io::stderr().is_terminal() { builder } else { builder.with_ansi(false) };
    // A second start in one process, as in tests, keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

/// Renders the metrics as text.
pub fn metrics() -> Arc<dyn Fn() -> String + Send + Sync> {
    let handle = recorder();
    Arc::new(move || {
        handle.run_upkeep();
        handle.render()
    })
}

/// Folds recorded samples into the histograms for as long as the service runs. Every sample stays in memory until
/// upkeep, and nobody may ever scrape the metrics.
pub async fn keep_metrics() {
    const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        recorder().run_upkeep();
    }
}

/// The process has one recorder, installed by the first caller.
fn recorder() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // The call fails only if another recorder is installed, which then receives the metrics.
        let _ = metrics::set_global_recorder(recorder);
        handle
    })
}
