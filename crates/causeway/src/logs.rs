//! The log of this process.

pub use telemetry::LogFormat;

/// `RUST_LOG` is the filter, where it is set.
#[expect(clippy::disallowed_methods, reason = "the log filter is the choice of whoever runs the program")]
pub fn start(format: LogFormat, default: &str) {
    telemetry::start_logging(format, std::env::var("RUST_LOG").ok().as_deref(), default);
}
