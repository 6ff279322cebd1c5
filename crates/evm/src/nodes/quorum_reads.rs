//! Reads of a block from a quorum: two nodes are asked at once, and another when one of them fails, lags, is slow or
//! differs.

use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::Nodes;
use crate::agreement::second;
use crate::errors::ChainError;
use crate::node::Node;

/// Time for which a node that does not know the block yet is asked again, once another has shown it.
const LAG_TIMEOUT: Duration = Duration::from_secs(3);
/// The same while no node has shown it: the block may be gone.
const UNKNOWN_BLOCK_TIMEOUT: Duration = Duration::from_millis(500);
const FIRST_REASK: Duration = Duration::from_millis(5);
const MAX_REASK: Duration = Duration::from_millis(160);

/// None if the node does not know the block.
type Answer<T> = Result<Option<T>, ChainError>;

pub(crate) struct QuorumReads<'a, T> {
    ask: Box<dyn Fn(usize) -> BoxFuture<'a, Answer<T>> + Send + 'a>,
    /// Each with its place in the configuration, and how long it was waited for before.
    asked: FuturesUnordered<BoxFuture<'a, (usize, Duration, Answer<T>)>>,
    /// Places of nodes that were not asked yet, the best first.
    left: std::vec::IntoIter<usize>,
    need: usize,
    began: Instant,
    hedge_at: Instant,
    hedge_delay: Duration,
    /// True once a node has shown the block.
    is_shown: bool,
    /// True once a node did not know it.
    is_unknown: bool,
    failed: Option<ChainError>,
}

impl Nodes {
    /// Asks as many nodes as have to agree: two, or the only one there is.
    pub(crate) fn quorum_reads<'a, T, F>(&'a self, ask: impl Fn(&'a Node) -> F + Send + 'a) -> QuorumReads<'a, T>
    where
        T: Send + 'a,
        F: Future<Output = Answer<T>> + Send + 'a,
    {
        let (nodes, need, began) = (self.nodes(), second(self.len()), Instant::now());
        let hedge_delay = nodes[0].hedge_delay();
        let mut reads = QuorumReads {
            ask: Box::new(move |place| ask(&nodes[place]).boxed()),
            asked: FuturesUnordered::new(),
            left: self.ranked_places().into_iter(),
            need,
            began,
            hedge_at: began + hedge_delay,
            hedge_delay,
            is_shown: false,
            is_unknown: false,
            failed: None,
        };
        (0..need).for_each(|_| reads.ask_another());
        reads
    }
}

impl<'a, T: Send + 'a> QuorumReads<'a, T> {
    /// The next answer, and the place of the node that gave it. None when no more will come.
    pub(crate) async fn next(&mut self) -> Option<(usize, T)> {
        while !self.asked.is_empty() {
            tokio::select! {
                Some((place, paused, answer)) = self.asked.next() => match answer {
                    Ok(Some(shown)) => {
                        self.is_shown = true;
                        return Some((place, shown));
                    }
                    Ok(None) => self.lags(place, paused),
                    Err(error) => {
                        self.failed = Some(error);
                        self.ask_another();
                    }
                },
                () = tokio::time::sleep_until(self.hedge_at), if self.left.len() > 0 => {
                    self.hedge_at += self.hedge_delay;
                    self.ask_another();
                }
            }
        }
        None
    }

    pub(crate) fn ask_another(&mut self) {
        if let Some(place) = self.left.next() {
            self.ask(place, Duration::ZERO);
        }
    }

    /// True if the nodes that answered do not know the block.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown && !self.is_shown
    }

    /// The reason for which no answer counts.
    pub(crate) fn error(self, nodes: &Nodes) -> ChainError {
        self.failed.unwrap_or(ChainError::NotSeconded(nodes.chain()))
    }

    /// A node that does not know the block is asked again, and another one in the meantime. Not so with a single node:
    /// whoever asks it tries again later.
    fn lags(&mut self, place: usize, paused: Duration) {
        self.is_unknown = true;
        let pause = (paused * 2).clamp(FIRST_REASK, MAX_REASK);
        let timeout = if self.is_shown { LAG_TIMEOUT } else { UNKNOWN_BLOCK_TIMEOUT };
        if self.need > 1 && self.began.elapsed() + pause < timeout {
            self.ask(place, pause);
        }
        if paused.is_zero() {
            self.ask_another();
        }
    }

    fn ask(&mut self, place: usize, pause: Duration) {
        let asked = (self.ask)(place);
        let answer = async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            (place, pause, asked.await)
        };
        self.asked.push(answer.boxed());
    }
}
