//! Reading a range of blocks again, once it is final.
//!
//! Blocks are first read one by one as they arrive, from one node each. What such a node did not show is found here:
//! every endpoint is asked by range, and one that knows of a deposit is enough.

use std::collections::BTreeSet;

use alloy::primitives::B256;
use alloy::rpc::types::Log;
use serde_json::{Value, json};

use crate::errors::{ChainError, Refusal};
use crate::node::Node;
use crate::nodes::Nodes;
use crate::watcher::{Watch, events_filter, transfers_filter};

/// Blocks asked for at once; fewer where a node finds that too much.
const LONGEST: u64 = 1_000;

impl Nodes {
    /// The blocks from `first` to `last` in which any endpoint knows of a deposit, in order. Endpoints that fail are
    /// left out. Meant for final blocks: ranges are answered from what the node thinks is canonical.
    pub async fn blocks_with_deposits(
        &self,
        first: u64,
        last: u64,
        watch: &Watch,
    ) -> Result<Vec<(u64, B256)>, ChainError> {
        let found = self.ask_all(|node| async move { search(&node, first, last, watch).await }).await?;
        Ok(found.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
    }
}

pub(crate) async fn search(
    node: &Node,
    first: u64,
    last: u64,
    watch: &Watch,
) -> Result<BTreeSet<(u64, B256)>, ChainError> {
    let mut found = BTreeSet::new();
    let mut at = first;
    let mut longest = LONGEST;
    // Every turn moves on or halves the length, which ends at one block.
    while at <= last {
        let end = last.min(at.saturating_add(longest - 1));
        let range = json!({ "fromBlock": format!("{at:#x}"), "toBlock": format!("{end:#x}") });
        let asked = tokio::try_join!(
            logs(node, events_filter(range.clone(), watch)),
            logs(node, transfers_filter(range.clone(), watch)),
        );
        match asked {
            Ok((events, transfers)) => {
                let places = events.iter().chain(&transfers).map(|log| log.block_number.zip(log.block_hash));
                found.extend(places.flatten().filter(|(number, _)| (at..=end).contains(number)));
                at = end.saturating_add(1);
            }
            Err(ChainError::Refused { refusal: Refusal::TooMuch, .. }) if longest > 1 => longest /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn logs(node: &Node, filter: Value) -> Result<Vec<Log>, ChainError> {
    node.ask("eth_getLogs", [filter]).await
}
