//! Blocks read from every node at once, until enough of them agree.
//!
//! A block costs the slower of two parallel reads. Nodes that have not answered by then are heard in the background,
//! where nobody waits for them: one that contradicts the others is found out all the same.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::asking::silent_timeout;
use super::{At, Nodes};
use crate::agreement::{AgreedBlock, Answer, agree, is_decided};
use crate::contradictions::Contradictions;
use crate::errors::ChainError;
use crate::header_votes::HeaderVotes;
use crate::node::Node;
use crate::rpc::{Head, Header};
use crate::watch::Watch;
use crate::watcher::{self, Block};

/// Time for which a node that is about to learn of a block is asked for it again.
const LAG_TIMEOUT: Duration = Duration::from_millis(200);
const FIRST_REASK: Duration = Duration::from_millis(5);
/// Delay before nodes that contradict each other are asked once more: one may have announced a block before it had all
/// of its logs.
pub(super) const SECOND_HEARING: Duration = Duration::from_secs(1);

/// How long nodes that have not answered are waited for, once another has shown the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No longer than for any other answer, and hardly for those that failed lately.
    Briefly,
    /// Until they answer or their time is out.
    ForAll,
}

type Said = Result<Option<Block>, ChainError>;

impl Nodes {
    /// The block as enough nodes agree on it; none when no node that answered knows it. Events that need a node which
    /// did not answer in time are open.
    pub fn agreed_block<'a>(
        &'a self,
        number: u64,
        hash: B256,
        watch: &'a Watch,
        wait: Wait,
    ) -> BoxFuture<'a, Result<Option<AgreedBlock>, ChainError>> {
        async move {
            let nodes = &self.inner.nodes;
            let mut hearing = Hearing::begin(nodes, number, hash, watch);
            let mut shown_at = None;
            while !is_decided(&hearing.answers) {
                if shown_at.is_none() && hearing.answers.iter().any(|answer| matches!(answer, Some(Answer::Block(_)))) {
                    shown_at = Some(Instant::now());
                }
                let silent: Vec<&Arc<Node>> = nodes
                    .iter()
                    .zip(&hearing.answers)
                    .filter(|(_, answer)| answer.is_none())
                    .map(|(node, _)| node)
                    .collect();
                // Until somebody shows the block, only the nodes' own timeouts bound the wait.
                let shown_at = shown_at.filter(|_| wait == Wait::Briefly);
                let until = shown_at.map(|at| at + silent_timeout(silent.iter().map(|node| &***node)));
                tokio::select! {
                    more = hearing.next() => if !more { break },
                    () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                        for node in silent.into_iter().filter(|node| !node.is_failing()) {
                            let (host, method, after) = (node.host.clone(), "eth_getBlockByHash", node.hedge_delay());
                            node.failed(method, &ChainError::Timeout { host, method, after });
                        }
                        break;
                    }
                }
            }
            let agreed = agree(&hearing.answers).map(|(agreed, _)| agreed);
            let (unknown, failed) = (hearing.unknown, hearing.failed.take());
            if nodes.len() > 1 {
                let (nodes, contradictions) = (nodes.clone(), self.inner.contradictions.clone());
                tokio::spawn(hearing.conclude(nodes, contradictions));
            }
            match (agreed, failed) {
                (None, Some(error)) if !unknown => Err(error),
                (agreed, _) => Ok(agreed),
            }
        }
        .boxed()
    }

    /// The header of that number on the chain that most nodes are on. Where as many are on another, the preferred one.
    pub async fn voted_header(&self, number: u64, prefers: impl Fn(&Head) -> bool) -> Result<Option<Head>, ChainError> {
        Ok(self.header_votes(number).await?.candidates(prefers).first().copied())
    }

    /// The headers of that number, as every node that answers shows it.
    pub fn header_votes(&self, number: u64) -> BoxFuture<'_, Result<HeaderVotes, ChainError>> {
        async move {
            let heads = self.ask_all(|node| async move {
                let header: Option<Header> =
                    node.ask("eth_getBlockByNumber", (At::Number(number).param(), false)).await?;
                Ok(header.map(|header| header.head()))
            });
            Ok(HeaderVotes::count(self.len(), number, heads.await?))
        }
        .boxed()
    }
}

/// The reading of one block, node by node.
struct Hearing {
    number: u64,
    hash: B256,
    watch: Arc<Watch>,
    reading: FuturesUnordered<Reading>,
    answers: Vec<Option<Answer>>,
    /// A node does not know the block.
    unknown: bool,
    failed: Option<ChainError>,
}

type Reading = futures::future::BoxFuture<'static, (usize, Result<Said, JoinError>)>;

impl Hearing {
    fn begin(nodes: &[Arc<Node>], number: u64, hash: B256, watch: &Watch) -> Self {
        let watch = Arc::new(watch.clone());
        let reading = nodes.iter().enumerate().map(|(index, node)| -> Reading {
            // A task of its own goes on when nobody waits for it any more.
            let read: JoinHandle<Said> = tokio::spawn(read(node.clone(), number, hash, watch.clone()));
            Box::pin(async move { (index, read.await) })
        });
        let reading = reading.collect();
        Self { number, hash, watch, reading, answers: vec![None; nodes.len()], unknown: false, failed: None }
    }

    /// Takes the next answer. False if there is none to come.
    async fn next(&mut self) -> bool {
        let Some((node, said)) = self.reading.next().await else { return false };
        self.answers[node] = Some(match said {
            Ok(Ok(Some(block))) => Answer::Block(Box::new(block)),
            Ok(Ok(None)) => {
                self.unknown = true;
                Answer::Silent
            }
            Ok(Err(error)) => {
                self.failed = Some(error);
                Answer::Silent
            }
            Err(_) => Answer::Silent,
        });
        true
    }

    /// Hears the others out, and once more all of them where they differ.
    async fn conclude(mut self, nodes: Vec<Arc<Node>>, contradictions: Arc<Contradictions>) {
        while self.next().await {}
        if agree(&self.answers).is_none_or(|(_, disputes)| disputes.is_empty()) {
            if self.answers.iter().all(|answer| matches!(answer, Some(Answer::Block(_)))) {
                contradictions.forget(self.hash);
            }
            return;
        }
        tokio::time::sleep(SECOND_HEARING).await;
        let mut again = Self::begin(&nodes, self.number, self.hash, &self.watch);
        while again.next().await {}
        for dispute in agree(&again.answers).into_iter().flat_map(|(_, disputes)| disputes) {
            contradictions.note(&nodes, (self.number, self.hash), &dispute);
        }
    }
}

/// A node may be about to learn of a block that another announced, or of its receipts, and is asked again for a moment.
/// One that is far behind, or has another block in its place, is not waited for.
async fn read(node: Arc<Node>, number: u64, hash: B256, watch: Arc<Watch>) -> Said {
    let (began, mut pause) = (Instant::now(), FIRST_REASK);
    loop {
        let read = watcher::read(&node, hash, &watch).await;
        let near =
            || node.last_head().is_none_or(|head| head.hash == hash || head.number.checked_add(1) == Some(number));
        let again = match &read {
            Ok(Some(_)) => false,
            Ok(None) => near(),
            Err(error) => matches!(error, ChainError::Inconsistent { .. }),
        };
        if !again || began.elapsed() + pause > LAG_TIMEOUT {
            return Ok(read?.map(|read| read.block));
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}
