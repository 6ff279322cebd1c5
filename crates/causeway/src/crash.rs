//! Crash points: places where dying must be harmless. A test names one in the environment, and the process aborts there
//! as if by `kill -9`; a production build has none.

#[cfg(feature = "dev")]
mod armed {
    use std::sync::OnceLock;

    pub const VARIABLE: &str = "CAUSEWAY_CRASH_AT";

    #[expect(clippy::disallowed_methods, reason = "a test names its crash point in the environment")]
    pub fn at(point: &'static str) {
        static ARMED: OnceLock<Option<String>> = OnceLock::new();
        let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok());
        if armed.as_deref() == Some(point) {
            eprintln!("crash point {point}");
            // Abort: no destructor runs and nothing is flushed, as in a power loss.
            std::process::abort();
        }
    }
}

#[cfg(feature = "dev")]
pub use armed::{VARIABLE, at};

#[cfg(not(feature = "dev"))]
pub fn at(_: &'static str) {}

/// All crash points. The crash test runs through every one.
pub const POINTS: [&str; 19] = [
    "deposit.committed",
    "payment.signed",
    "payment.sent_one_node",
    "payment.sent",
    "bump.committed",
    "cancel.committed",
    "cancel.mined",
    "reorg.undone",
    "cursor.before",
    "payout.intended",
    "payout.signed",
    "payout.sent",
    "hold.committed",
    "claim.committed",
    "relay.committed",
    "lease.taken",
    "address.swept",
    "webhook.claimed",
    "webhook.posted",
];
