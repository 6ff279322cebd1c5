//! Contradictions between the nodes of a chain: who showed an event of a block, and who showed the block without it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use domain::ids::ChainId;
use tracing::error;

use crate::agreement::{Dispute, Verdict};
use crate::errors::ChainError;
use crate::node::Node;

/// Time for which a contradiction is reported.
const REPORTED_FOR: Duration = Duration::from_secs(3_600);
/// Contradictions remembered.
const MAX_REMEMBERED: usize = 64;

/// The state of a block: calls that were answered at its hash.
pub(crate) const STATE: &str = "a reading of prices, pools and balances";
/// The logs of pools in a block, and the bloom filter over them in its header.
pub(crate) const POOL_LOGS: &str = "a reading of the logs of pools";

/// A contradiction about one block. Nodes are named by host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub number: u64,
    pub block: B256,
    pub what: &'static str,
    pub shown_by: Vec<String>,
    pub denied_by: Vec<String>,
    /// The nodes that most others contradict, or both sides where neither has most nodes.
    pub accused: Vec<String>,
}

impl Contradiction {
    /// True if the other needs no alarm of its own: between the same nodes, a lie that is told at every block is one.
    fn covers(&self, other: &Self) -> bool {
        let lasts = self.lasts() && self.what == other.what;
        self == other || lasts && (&self.shown_by, &self.denied_by) == (&other.shown_by, &other.denied_by)
    }

    /// True for readings of the market, which are made at every block and are no events of it.
    fn lasts(&self) -> bool {
        [STATE, POOL_LOGS].contains(&self.what)
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, what, shown_by, denied_by, accused, .. } = self;
        let (shown_by, denied_by) = (shown_by.join(", "), denied_by.join(", "));
        write!(f, "block {number}: {what} is shown by {shown_by} and not by {denied_by}")?;
        match accused.len() {
            1 => write!(f, "; most nodes contradict {}", accused[0]),
            _ => f.write_str("; which of them lies is not known"),
        }
    }
}

pub(crate) struct Contradictions {
    chain: ChainId,
    hosts: Vec<String>,
    seen: Mutex<VecDeque<(Instant, Contradiction)>>,
}

impl Contradictions {
    pub(crate) fn new(chain: ChainId, nodes: &[Arc<Node>]) -> Self {
        let hosts: Vec<String> = nodes.iter().map(|node| node.host.to_string()).collect();
        for host in &hosts {
            contradictions(chain, host).absolute(0);
        }
        Self { chain, hosts, seen: Mutex::default() }
    }

    /// Notes a dispute about a block, once, and raises the alarm. Nodes that most others contradict are asked last.
    pub(crate) fn note(&self, nodes: &[Arc<Node>], (number, block): (u64, B256), dispute: &Dispute) {
        let accused: BTreeSet<usize> = match dispute.verdict {
            Verdict::Agreed => dispute.denied_by.clone(),
            Verdict::Refuted => dispute.shown_by.clone(),
            Verdict::Contradicted | Verdict::Unseconded => {
                dispute.shown_by.union(&dispute.denied_by).copied().collect()
            }
        };
        let named = |nodes: &BTreeSet<usize>| nodes.iter().map(|&node| self.hosts[node].clone()).collect::<Vec<_>>();
        let contradiction = Contradiction {
            number,
            block,
            what: dispute.what,
            shown_by: named(&dispute.shown_by),
            denied_by: named(&dispute.denied_by),
            accused: named(&accused),
        };
        let mut seen = self.seen();
        if seen.iter().any(|(_, known)| known.covers(&contradiction)) {
            return;
        }
        error!(chain.id = %self.chain, accused = ?contradiction.accused, "nodes of chain {} contradict each other: {contradiction}", self.chain);
        for host in &contradiction.accused {
            contradictions(self.chain, host).increment(1);
        }
        if matches!(dispute.verdict, Verdict::Agreed | Verdict::Refuted) {
            for node in accused.iter().map(|&node| &nodes[node]) {
                let (host, method) = (node.host.clone(), "eth_getBlockByHash");
                let reason = "an answer that most nodes contradict";
                node.failed(method, &ChainError::Inconsistent { host, method, block, reason });
            }
        }
        seen.push_front((Instant::now(), contradiction));
        seen.truncate(MAX_REMEMBERED);
    }

    /// Forgets what was noted about the events of a block: its nodes agree now.
    pub(crate) fn forget(&self, block: B256) {
        self.seen().retain(|(_, known)| known.block != block || known.lasts());
    }

    pub(crate) fn recent(&self) -> Vec<Contradiction> {
        let mut seen = self.seen();
        seen.retain(|(since, _)| since.elapsed() < REPORTED_FOR);
        seen.iter().map(|(_, contradiction)| contradiction.clone()).collect()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, VecDeque<(Instant, Contradiction)>> {
        self.seen.lock().expect("no code panics while holding the contradictions")
    }
}

fn contradictions(chain: ChainId, host: &str) -> metrics::Counter {
    metrics::counter!("evm_node_contradictions_total", "chain" => chain.to_string(), "node" => host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_about_the_state_is_one_however_many_blocks_it_is_told_at() {
        let told = |number, what, liar: &str| Contradiction {
            number,
            block: B256::repeat_byte(1),
            what,
            shown_by: vec!["honest".to_owned()],
            denied_by: vec![liar.to_owned()],
            accused: Vec::new(),
        };
        let first = told(1, STATE, "liar");
        assert!(first.covers(&told(2, STATE, "liar")));
        assert!(
            told(1, POOL_LOGS, "liar").covers(&told(2, POOL_LOGS, "liar"))
                && !first.covers(&told(2, POOL_LOGS, "liar"))
        );
        assert!(!first.covers(&told(2, STATE, "another")) && !first.covers(&told(1, "a deposit", "liar")));
        assert!(!told(1, "a deposit", "liar").covers(&told(2, "a deposit", "liar")), "every deposit counts");
    }
}
