//! The faults of the venue, switchable while it runs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Any of these together; the default is a faithful venue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VenueFault {
    /// Added to every answer.
    pub delay: Duration,
    /// Calls are taken and never answered.
    pub stall: bool,
    /// Every call is answered with 503.
    pub down: bool,
    /// Every call is answered with 429.
    pub busy: bool,
    /// Every answer is cut in half.
    pub garbage: bool,
    /// Transactions are refused.
    pub reject_sends: bool,
    /// Transactions are taken, and answered with 500.
    pub error_after_send: bool,
    /// Transactions are kept back and answered with 500. When this ends they are taken in their order, and one whose
    /// nonce is used by then is shown as rejected.
    pub hold_sends: bool,
    /// Transactions are answered as taken, and lost.
    pub drop_sends: bool,
    /// Transactions that are taken fail instead of being committed.
    pub fail_sends: bool,
    /// Transactions stay queued.
    pub stuck: bool,
    /// Transactions are unknown by their hash and missing in lists, their effects excepted.
    pub forget: bool,
    /// Every second look at a transaction shows another status, or none.
    pub flicker: bool,
    /// Lists are empty, and transactions are known by their hash all the same.
    pub unlisted: bool,
    /// Lists have every line twice.
    pub duplicate: bool,
    /// Lists run in another order within a page, and transactions that were kept back are taken last first.
    pub reorder: bool,
    /// Milliseconds that the venue's clock is ahead.
    pub clock_offset_millis: i64,
}

/// The switch. Clones share it.
#[derive(Clone, Debug)]
pub struct VenueFaults(Arc<watch::Sender<VenueFault>>);

impl Default for VenueFaults {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(VenueFault::default())))
    }
}

impl VenueFaults {
    pub fn get(&self) -> VenueFault {
        self.0.borrow().clone()
    }

    pub fn set(&self, fault: VenueFault) {
        self.0.send_replace(fault);
    }

    pub fn update(&self, change: impl FnOnce(&mut VenueFault)) {
        self.0.send_modify(change);
    }

    /// Back to a faithful venue.
    pub fn clear(&self) {
        self.set(VenueFault::default());
    }
}
