//! The choice of endpoints for a question: one after the other, or all at once.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::Nodes;
use crate::errors::ChainError;
use crate::node::Node;
use crate::watcher::{Block, Read};

/// Time for which nodes that failed lately are waited for.
const FAILING_NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// The time for which nodes that have not answered may hold up an answer that others gave.
pub(super) fn silent_timeout<'a>(mut silent: impl Iterator<Item = &'a Node>) -> Duration {
    silent.find(|node| !node.is_failing()).map_or(FAILING_NODE_TIMEOUT, Node::hedge_delay)
}

impl Nodes {
    /// Endpoints in the order to ask them: healthy before failing, fresh before lagging, the one whose chain we follow
    /// before others, then as configured.
    pub(crate) fn ranked(&self) -> Vec<Arc<Node>> {
        self.ranked_places().into_iter().map(|place| self.inner.nodes[place].clone()).collect()
    }

    /// The same, by their places in the configuration.
    pub(crate) fn ranked_places(&self) -> Vec<usize> {
        let newest = self.inner.nodes.iter().filter_map(|node| node.last_head()).map(|head| head.number).max();
        let behind = |node: &Node| match (newest, node.last_head()) {
            (Some(newest), Some(head)) => newest - head.number.min(newest),
            // An endpoint that has not told us its head may be anywhere.
            (Some(_), None) => 1,
            (None, _) => 0,
        };
        let leader = self.inner.feed.leader();
        let mut ranked: Vec<_> = self.inner.nodes.iter().enumerate().collect();
        ranked.sort_by_cached_key(|(index, node)| (node.is_failing(), behind(node), leader != Some(*index)));
        ranked.into_iter().map(|(index, _)| index).collect()
    }

    pub(crate) async fn first<T, F, Fut>(&self, ask: F) -> Result<T, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<T, ChainError>>,
    {
        let answer = self.first_known(|node| {
            let asked = ask(node);
            async move { asked.await.map(Some) }
        });
        answer.await.map(|known| known.expect("this question has no empty answer"))
    }

    /// A block that seems to lack logs is used only when no other endpoint shows a better one.
    pub(super) async fn first_believed<F, Fut>(&self, read: F) -> Result<Option<Block>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<Option<Read>, ChainError>>,
    {
        let doubted = &Mutex::new(None);
        let answer = self.first_known(|node| {
            let reading = read(node);
            async move {
                Ok(reading.await?.and_then(|Read { block, doubtful }| match doubtful {
                    true => {
                        *doubted.lock().expect("nothing panics here") = Some(block);
                        None
                    }
                    false => Some(block),
                }))
            }
        });
        let answer = answer.await;
        match doubted.lock().expect("nothing panics here").take() {
            Some(doubted) if !matches!(answer, Ok(Some(_))) => Ok(Some(doubted)),
            _ => answer,
        }
    }

    /// Asks one endpoint after the other until one knows the answer. The next is asked when one fails, does not know,
    /// or takes too long; the slow one may still win.
    pub(crate) async fn first_known<T, F, Fut>(&self, ask: F) -> Result<Option<T>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<Option<T>, ChainError>>,
    {
        let hedge_delay = self.inner.nodes[0].hedge_delay();
        let mut left = self.ranked().into_iter();
        let mut asked = FuturesUnordered::new();
        let mut unknown = false;
        let mut worst = ChainError::NoEndpoint(self.inner.chain);
        loop {
            if let Some(node) = left.next() {
                asked.push(ask(node));
            } else if asked.is_empty() {
                return if unknown { Ok(None) } else { Err(worst) };
            }
            let more = left.len() > 0;
            tokio::select! {
                Some(answer) = asked.next() => match answer {
                    Ok(Some(known)) => return Ok(Some(known)),
                    Ok(None) => unknown = true,
                    Err(error) if error.is_conclusive() => return Err(error),
                    // A node's refusal says more than another node's outage.
                    Err(error) if worst.refusal().is_none() => worst = error,
                    Err(_) => {}
                },
                () = tokio::time::sleep(hedge_delay), if more => {}
            }
        }
    }

    /// Asks every endpoint at once. After the first answer, the others get only a little longer.
    pub(crate) async fn ask_all<T, F, Fut>(&self, ask: F) -> Result<Vec<T>, ChainError>
    where
        F: Fn(Arc<Node>) -> Fut,
        Fut: Future<Output = Result<T, ChainError>>,
    {
        let nodes = &self.inner.nodes;
        let asked = nodes.iter().enumerate().map(|(index, node)| (index, ask(node.clone())));
        let mut asked: FuturesUnordered<_> =
            asked.map(|(index, asking)| async move { (index, asking.await) }).collect();
        let mut silent: BTreeSet<usize> = (0..nodes.len()).collect();
        let mut answers = Vec::with_capacity(self.len());
        let mut worst = ChainError::NoEndpoint(self.inner.chain);
        loop {
            let waiting = !answers.is_empty();
            let timeout = silent_timeout(silent.iter().map(|&index| &*nodes[index]));
            tokio::select! {
                answer = asked.next() => {
                    let Some((index, answer)) = answer else { break };
                    silent.remove(&index);
                    match answer {
                        Ok(answer) => answers.push(answer),
                        Err(error) => worst = error,
                    }
                }
                () = tokio::time::sleep(timeout), if waiting => break,
            }
        }
        if answers.is_empty() { Err(worst) } else { Ok(answers) }
    }
}
