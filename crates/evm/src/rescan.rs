//! The rescan: a range of blocks is read again, once it is final.
//!
//! Blocks are first read one by one as they arrive. A deposit that no node showed then, or only one while others were
//! down, is found here: every endpoint is asked by range, and one that knows of a deposit is enough to look closer.
//! Where there are several endpoints, two of them have to show it alike before it is believed.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::B256;
use alloy::rpc::types::Log;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::agreement::{self, Vote, votes};
use crate::errors::{ChainError, Refusal};
use crate::extract::{SeenDeposit, is_deposit};
use crate::funding::SeenTreasuryTransfer;
use crate::logs::{Kind, Span, logs};
use crate::node::Node;
use crate::nodes::Nodes;
use crate::rpc::Head;
use crate::watch::Watch;
use crate::watcher::{self, Block};

/// Blocks per range request; fewer where a node finds that too much.
const MAX_RANGE_BLOCKS: u64 = 1_000;

/// A transaction in which an endpoint knows of deposits or of tokens that reached the treasury, with their counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSummary {
    pub number: u64,
    pub block: B256,
    pub tx: B256,
    pub deposits: usize,
    pub treasury_transfers: usize,
}

/// Events as several endpoints show them: those that enough of them show alike, and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<T> {
    pub agreed: Vec<T>,
    pub doubtful: Vec<T>,
}

/// The events of a block that the walk has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescannedBlock {
    pub head: Head,
    pub deposits: Shown<SeenDeposit>,
    pub treasury_transfers: Shown<SeenTreasuryTransfer>,
}

/// By block number, block hash and transaction: deposits and treasury transfers.
type Counts = BTreeMap<(u64, B256, B256), (usize, usize)>;

impl Nodes {
    /// The blocks from `first` to `last` in which any endpoint knows of a deposit, in order. Endpoints that fail are
    /// left out. Meant for final blocks: ranges are answered from the chain that the node thinks canonical.
    pub fn blocks_with_deposits<'a>(
        &'a self,
        first: u64,
        last: u64,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Vec<(u64, B256)>, ChainError>> {
        async move {
            let found = self.ask_all(|node| async move { search(&node, first, last, watch).await }).await?;
            Ok(found.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
        }
        .boxed()
    }

    /// The deposits from `first` to `last` of which any endpoint knows, in order. Where there are several endpoints, at
    /// least two have to answer: alone, an endpoint that did not show a deposit would not show it now either.
    pub fn rescan_range<'a>(
        &'a self,
        first: u64,
        last: u64,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Vec<BlockSummary>, ChainError>> {
        async move {
            let asked = self.nodes().iter().map(|node| count(node, first, last, watch));
            let (mut most, mut answers, mut failed) = (Counts::new(), 0, None);
            for answer in futures::future::join_all(asked).await {
                match answer {
                    Ok(counts) => {
                        answers += 1;
                        for (place, (deposits, treasury_transfers)) in counts {
                            let known = most.entry(place).or_default();
                            *known = (deposits.max(known.0), treasury_transfers.max(known.1));
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                Some(error) if answers < self.len().min(2) => Err(error),
                _ => {
                    let summary = |((number, block, tx), (deposits, treasury_transfers))| BlockSummary {
                        number,
                        block,
                        tx,
                        deposits,
                        treasury_transfers,
                    };
                    Ok(most.into_iter().map(summary).collect())
                }
            }
        }
        .boxed()
    }

    /// The block with the events that enough endpoints show alike: two for a deposit, most for a treasury transfer, or
    /// the only one there is. None when nobody knows the block.
    pub fn rescan_block<'a>(
        &'a self,
        hash: B256,
        watch: &'a Watch,
    ) -> BoxFuture<'a, Result<Option<RescannedBlock>, ChainError>> {
        async move {
            let need = self.len().min(2);
            let asked = self.nodes().iter().map(|node| watcher::read(node, hash, watch));
            let (mut blocks, mut failed) = (Vec::new(), None);
            for answer in futures::future::join_all(asked).await {
                match answer {
                    Ok(read) => blocks.extend(read.map(|read| read.block)),
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                // The endpoints that failed may have known the block.
                Some(error) if blocks.len() < need => Err(error),
                _ => Ok(agreed(blocks, self.len())),
            }
        }
        .boxed()
    }
}

fn agreed(blocks: Vec<Block>, nodes: usize) -> Option<RescannedBlock> {
    let heads: Vec<Head> = blocks.iter().map(|block| block.head).collect();
    let common = |head: &&Head| heads.iter().filter(|other| other == head).count();
    let head = *heads.iter().max_by_key(common)?;
    let blocks: Vec<Block> = blocks.into_iter().filter(|block| block.head == head).collect();
    let deposits = votes(blocks.iter().map(|block| &block.deposits[..]).enumerate(), |it| (it.tx, it.ordinal));
    let transfers =
        votes(blocks.iter().map(|block| &block.treasury_transfers[..]).enumerate(), |it| (it.tx, it.ordinal));
    let deposits = shown(deposits, agreement::second(nodes));
    let treasury_transfers = shown(transfers, agreement::majority(nodes));
    Some(RescannedBlock { head, deposits, treasury_transfers })
}

/// Sorts events by how many endpoints show them, in the order first shown.
fn shown<T>(votes: Vec<Vote<T>>, need: usize) -> Shown<T> {
    let (agreed, doubtful): (Vec<_>, Vec<_>) = votes.into_iter().partition(|vote| vote.by.len() >= need);
    let things = |votes: Vec<Vote<T>>| votes.into_iter().map(|vote| vote.thing).collect();
    Shown { agreed: things(agreed), doubtful: things(doubtful) }
}

/// Only logs that the database keeps are counted: transfers of zero and our own to the treasury bring no rows.
async fn count(node: &Node, first: u64, last: u64, watch: &Watch) -> Result<Counts, ChainError> {
    let mut counts = Counts::new();
    let each = |log: &Log| {
        let deposit = is_deposit(watch, log);
        let transfer = watch.funding.as_ref().is_some_and(|funding| funding.counts(log));
        if let (true, Some(number), Some(block), Some(tx)) =
            (deposit || transfer, log.block_number, log.block_hash, log.transaction_hash)
        {
            let known = counts.entry((number, block, tx)).or_default();
            *known = (known.0 + usize::from(deposit), known.1 + usize::from(transfer));
        }
    };
    scan(node, first, last, watch, each).await?;
    Ok(counts)
}

pub(crate) async fn search(
    node: &Node,
    first: u64,
    last: u64,
    watch: &Watch,
) -> Result<BTreeSet<(u64, B256)>, ChainError> {
    let mut found = BTreeSet::new();
    let each = |log: &Log| {
        if is_deposit(watch, log) {
            found.extend(log.block_number.zip(log.block_hash));
        }
    };
    scan(node, first, last, watch, each).await?;
    Ok(found)
}

/// Calls `each` with every log of the range that may concern us.
async fn scan(node: &Node, first: u64, last: u64, watch: &Watch, mut each: impl FnMut(&Log)) -> Result<(), ChainError> {
    let mut at = first;
    let mut longest = MAX_RANGE_BLOCKS;
    // Every turn moves on or halves the range, which ends at one block.
    while at <= last {
        let end = last.min(at.saturating_add(longest - 1));
        let span = Span::Range(at, end);
        let asked = tokio::try_join!(logs(node, span, Kind::Events, watch), logs(node, span, Kind::Transfers, watch));
        match asked {
            Ok((events, transfers)) => {
                let inside = |log: &&Log| log.block_number.is_some_and(|number| (at..=end).contains(&number));
                events.iter().chain(&transfers).filter(inside).for_each(&mut each);
                at = end.saturating_add(1);
                // One full block says nothing about those behind it.
                longest = if longest == 1 { MAX_RANGE_BLOCKS } else { longest };
            }
            Err(ChainError::Refused { refusal: Refusal::TooMuch, .. }) if longest > 1 => longest /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
