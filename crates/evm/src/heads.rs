//! The head of a chain, followed on every endpoint at once.
//!
//! Websockets push new heads; polling covers endpoints without one, sockets that are down and sockets that have gone
//! silent. The feed chooses among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use alloy::primitives::B256;
use alloy::rpc::client::RpcClient;
use alloy::transports::ws::WsConnect;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use url::Url;

use crate::feed::{Feed, How};
use crate::node::Node;
use crate::rpc::{Head, Header};

/// With a live websocket, heads are still polled, this many times less often: a socket can die without closing.
const GUARD: u32 = 8;

/// A head found by polling must be pushed within this time, or the websocket is given up.
const PUSH_TIMEOUT: Duration = Duration::from_secs(1);

const FIRST_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// The tasks that follow the endpoints; they end when this is dropped.
pub(crate) struct Following(Vec<JoinHandle<()>>);

impl Following {
    pub(crate) fn start(nodes: &[Arc<Node>], feed: &Arc<Feed>, poll: Duration) -> Self {
        let follow = |(index, node): (usize, &Arc<Node>)| {
            let follower = Follower {
                index,
                node: node.clone(),
                feed: feed.clone(),
                poll,
                pushed: AtomicU64::new(0),
                fresh_socket: AtomicBool::new(false),
                socket_changed: Notify::new(),
                socket_silent: Notify::new(),
            };
            tokio::spawn(async move { follower.run().await })
        };
        Self(nodes.iter().enumerate().map(follow).collect())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

struct Follower {
    index: usize,
    node: Arc<Node>,
    feed: Arc<Feed>,
    poll: Duration,
    /// The number of the last head that was pushed.
    pushed: AtomicU64,
    /// Set after subscribing: heads from before the subscription are not going to be pushed.
    fresh_socket: AtomicBool,
    socket_changed: Notify,
    socket_silent: Notify,
}

impl Follower {
    async fn run(self) {
        match self.node.ws.clone() {
            Some(url) => {
                tokio::join!(self.ask_forever(), self.listen_forever(&url));
            }
            None => self.ask_forever().await,
        }
    }

    async fn ask_forever(&self) {
        let mut failures = 0;
        let mut missed = None;
        loop {
            let subscribed = self.node.is_subscribed();
            match self.node.latest().await {
                Ok(head) => {
                    failures = 0;
                    missed = if subscribed { self.missed_by_socket(&head, missed) } else { None };
                    self.feed.offer(self.index, head, How::Asked);
                }
                Err(error) => {
                    failures += 1;
                    if !self.node.is_subscribed() {
                        self.feed.lost(self.index);
                    }
                    debug!(chain.id = %self.node.chain, %error, "could not poll the head of chain {}", self.node.chain);
                }
            }
            let pause = match (self.node.is_subscribed(), missed) {
                (true, None) => self.poll * GUARD,
                (true, Some(_)) => self.poll.max(PUSH_TIMEOUT),
                (false, _) => backoff(self.poll, failures, MAX_RETRY_DELAY.max(self.poll)),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.socket_changed.notified() => {}
            }
        }
    }

    /// The number of a polled head that the websocket still owes us. A socket that owes it for too long is declared
    /// dead: some go silent without closing.
    fn missed_by_socket(&self, head: &Head, missed: Option<u64>) -> Option<u64> {
        if self.fresh_socket.swap(false, Ordering::Relaxed) {
            self.pushed.fetch_max(head.number, Ordering::Relaxed);
        }
        let pushed = self.pushed.load(Ordering::Relaxed);
        if missed.is_some_and(|number| number > pushed) {
            self.socket_silent.notify_waiters();
            return None;
        }
        (head.number > pushed).then_some(head.number)
    }

    async fn listen_forever(&self, url: &Url) {
        let mut failures = 0;
        loop {
            let heard = self.listen(url).await;
            self.node.set_subscribed(false);
            self.socket_changed.notify_one();
            failures = if heard { 1 } else { failures + 1 };
            let pause = backoff(FIRST_RETRY, failures, MAX_RETRY_DELAY);
            warn!(
                chain.id = %self.node.chain, host = %self.node.host, ?pause,
                "lost the head subscription of chain {} on {}; polling meanwhile", self.node.chain, self.node.host
            );
            tokio::time::sleep(pause).await;
        }
    }

    /// Listens until the socket ends or goes silent. True when it had worked.
    async fn listen(&self, url: &Url) -> bool {
        let subscribing = tokio::time::timeout(self.node.timeout, subscribe(url));
        let Ok(Ok((_client, mut heads))) = subscribing.await else {
            return false;
        };
        self.fresh_socket.store(true, Ordering::Relaxed);
        self.node.set_subscribed(true);
        // Blocks made while nobody listened are found by polling.
        self.socket_changed.notify_one();
        info!(chain.id = %self.node.chain, host = %self.node.host, "following chain {} on {}", self.node.chain, self.node.host);
        loop {
            let message = tokio::select! {
                message = heads.recv() => message,
                () = self.socket_silent.notified() => return true,
            };
            let text = match message {
                Ok(text) => text,
                // The receiver lagged and lost some heads; the newest is still to come.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => continue,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return true,
            };
            let Ok(header) = serde_json::from_str::<Header>(text.get()) else {
                continue;
            };
            let head = header.head();
            self.pushed.store(head.number, Ordering::Relaxed);
            self.node.saw(head);
            self.feed.offer(self.index, head, How::Pushed);
        }
    }
}

/// The library's own reconnection is silent and bounded, so it is switched off; we reconnect and know of it.
async fn subscribe(
    url: &Url,
) -> Result<(RpcClient, alloy::pubsub::RawSubscription), alloy::transports::TransportError> {
    let client = RpcClient::connect_pubsub(WsConnect::new(url.as_str()).with_max_retries(0)).await?;
    let mut call = client.request::<_, B256>("eth_subscribe", ("newHeads",));
    call.set_is_subscription();
    let id = call.await?;
    let heads = client.expect_pubsub_frontend().get_subscription(id).await?;
    Ok((client, heads))
}

fn backoff(base: Duration, failures: u32, longest: Duration) -> Duration {
    base.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_slow_down_and_stay_bounded() {
        let longest = Duration::from_secs(10);
        assert_eq!(backoff(FIRST_RETRY, 0, longest), FIRST_RETRY);
        assert_eq!(backoff(FIRST_RETRY, 3, longest), FIRST_RETRY * 4);
        assert_eq!(backoff(FIRST_RETRY, 1_000, longest), longest);
    }
}
