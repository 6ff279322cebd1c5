//! The faults of a node, switchable while it runs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::forgeries::{FalseWord, Forgery};

/// Any of these together; the default is a faithful node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Added to every answer and notification.
    pub delay: Duration,
    /// Calls are taken and never answered.
    pub stall: bool,
    /// Connections are reset, open ones included.
    pub reset: bool,
    /// Answers as if the head were this many blocks back.
    pub stale_head: u64,
    /// Every block hash is another one, consistently: the node looks as if it were on a fork.
    pub wrong_block_hash: bool,
    /// Transactions are refused.
    pub reject_sends: bool,
    /// Transactions with EIP-7702 authorizations are refused, as if an authority had another one in the pool.
    #[serde(default)]
    pub reject_set_code: bool,
    /// Transactions are accepted, with the right hash, and forgotten.
    pub drop_sends: bool,
    /// Log queries find nothing and log subscriptions stay silent.
    pub hide_logs: bool,
    /// Optional methods are not offered: traces, the receipts of a whole block.
    pub no_extras: bool,
    /// Log queries that find more logs than this are refused for their size.
    pub max_logs: Option<usize>,
    /// Announces a head this many blocks beyond the real one, and shows empty blocks up to it.
    pub invented_heads: u64,
    /// Lies about the transactions of some senders.
    pub forgeries: Vec<Forgery>,
    /// Lies about the output of calls.
    #[serde(default)]
    pub false_words: Vec<FalseWord>,
}

/// The switch. Clones share it.
#[derive(Clone, Debug)]
pub struct Faults(Arc<watch::Sender<Fault>>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Fault::default())))
    }

    pub fn get(&self) -> Fault {
        self.0.borrow().clone()
    }

    pub fn set(&self, fault: Fault) {
        self.0.send_replace(fault);
    }

    pub fn update(&self, change: impl FnOnce(&mut Fault)) {
        self.0.send_modify(change);
    }

    /// Back to a faithful node.
    pub fn clear(&self) {
        self.set(Fault::default());
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Fault> {
        self.0.subscribe()
    }
}
