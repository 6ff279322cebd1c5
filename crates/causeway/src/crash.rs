//! Points at which dying must be harmless. A test names one in the environment, and the process dies there as from
//! `kill -9`; a production build has none of it.

#[cfg(feature = "dev")]
mod armed {
    use std::sync::OnceLock;

    pub const VARIABLE: &str = "CAUSEWAY_CRASH_AT";

    pub fn at(point: &'static str) {
        static ARMED: OnceLock<Option<String>> = OnceLock::new();
        let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok());
        if armed.as_deref() == Some(point) {
            eprintln!("crash point {point}");
            // No destructor runs and nothing is flushed, as when the machine goes down.
            std::process::abort();
        }
    }
}

#[cfg(feature = "dev")]
pub use armed::{VARIABLE, at};

#[cfg(not(feature = "dev"))]
pub fn at(_: &'static str) {}

/// Every point there is. The crash test runs through all of them.
pub const POINTS: [&str; 15] = [
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
    "lease.taken",
];
