//! The head of a chain, followed on every endpoint at once.
//!
//! Websockets push new heads; polling covers endpoints without one, sockets that are down and sockets that have gone
//! silent. The newest head wins. A head that goes back is believed only from the endpoint that led us there: from any
//! other it is just an endpoint that lags.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy::primitives::B256;
use alloy::rpc::client::RpcClient;
use alloy::transports::ws::WsConnect;
use domain::ids::ChainId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use url::Url;

use crate::node::Node;
use crate::rpc::{Head, Header};

/// With a live websocket, heads are still polled, this many times less often: a socket can die without closing.
const GUARD: u32 = 8;

/// A head found by polling must be pushed within this time, or the websocket is given up.
const PUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Block hashes kept: enough to recognise an endpoint that lags by as much as we would still use.
const REMEMBERED: usize = 128;

const FIRST_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Pushed,
    Asked,
}

/// The newest head, and the endpoint that reported it.
pub(crate) struct Feed {
    chain: ChainId,
    newest: watch::Sender<Option<Head>>,
    history: Mutex<History>,
}

#[derive(Default)]
struct History {
    leader: Option<usize>,
    known: VecDeque<B256>,
    /// A step back to a known block, found by one poll and not yet confirmed by a second.
    step_back: Option<(usize, B256)>,
}

impl Feed {
    pub(crate) fn new(chain: ChainId) -> Self {
        Self { chain, newest: watch::Sender::new(None), history: Mutex::default() }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Head>> {
        self.newest.subscribe()
    }

    /// The endpoint whose chain we follow.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.history().leader
    }

    /// Takes a head that an endpoint was polled for out of turn.
    pub(crate) fn asked(&self, endpoint: usize, head: Head) {
        self.offer(endpoint, head, How::Asked);
    }

    fn offer(&self, endpoint: usize, head: Head, how: How) {
        let mut history = self.history();
        let accepted = self.newest.send_if_modified(|newest| {
            let accept = newest.is_none_or(|newest| history.accepts(endpoint, &newest, &head, how));
            if accept {
                *newest = Some(head);
            }
            accept
        });
        if accepted {
            history.leader = Some(endpoint);
            history.step_back = None;
            metrics::gauge!("evm_head_number", "chain" => self.chain.to_string()).set(precise(head.number));
        }
        history.remember(head.hash);
    }

    /// The endpoint stops leading: its heads cannot be relied on for going back; another endpoint's may.
    fn lost(&self, endpoint: usize) {
        let mut history = self.history();
        if history.leader == Some(endpoint) {
            history.leader = None;
        }
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().expect("no code panics while holding the history")
    }
}

impl History {
    fn accepts(&mut self, endpoint: usize, newest: &Head, head: &Head, how: How) -> bool {
        if head.hash == newest.hash {
            if how == How::Asked {
                self.step_back = None;
            }
            return false;
        }
        if head.number > newest.number {
            // A head one block on, from another endpoint, must continue the chain we follow: two forks of equal length
            // would otherwise take turns. Two blocks on, that endpoint is ahead and the leader is not.
            let continues = head.parent_hash == newest.hash || head.number > newest.number + 1;
            return continues || self.leader.is_none_or(|leader| leader == endpoint);
        }
        let known = self.known.contains(&head.hash);
        match self.leader {
            Some(leader) if leader != endpoint => false,
            // Pushes come in order: the endpoint itself has gone back.
            Some(_) if how == How::Pushed => true,
            // A polled head may be older than a push that overtook it, so going back to a known block takes two polls.
            Some(_) if known => self.step_back.replace((endpoint, head.hash)) == Some((endpoint, head.hash)),
            Some(_) => true,
            None => !known,
        }
    }

    fn remember(&mut self, hash: B256) {
        if !self.known.contains(&hash) {
            self.known.push_back(hash);
        }
        while self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
    }
}

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

/// Metrics are floats; block numbers stay far below the point where those lose whole numbers.
#[expect(clippy::cast_precision_loss, reason = "a metric")]
fn precise(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64, hash: u8) -> Head {
        Head { number, hash: B256::repeat_byte(hash), parent_hash: B256::ZERO, time: number, base_fee: 0 }
    }

    fn feed() -> Feed {
        Feed::new(ChainId(1))
    }

    fn newest(feed: &Feed) -> Head {
        (*feed.newest.borrow()).unwrap()
    }

    #[test]
    fn the_highest_head_of_any_endpoint_wins() {
        let feed = feed();
        feed.offer(0, head(5, 5), How::Pushed);
        feed.offer(1, head(7, 7), How::Pushed);
        feed.offer(0, head(6, 6), How::Pushed);
        assert_eq!((newest(&feed), feed.leader()), (head(7, 7), Some(1)));
    }

    #[test]
    fn an_endpoint_that_lags_is_not_a_reorg() {
        let feed = feed();
        feed.offer(0, head(9, 9), How::Pushed);
        feed.offer(1, head(7, 7), How::Pushed);
        feed.offer(1, head(9, 99), How::Pushed);
        assert_eq!(newest(&feed), head(9, 9));
    }

    #[test]
    fn the_leader_may_replace_its_head_or_go_back() {
        let feed = feed();
        feed.offer(0, head(9, 9), How::Pushed);
        feed.offer(0, head(9, 19), How::Pushed);
        assert_eq!(newest(&feed), head(9, 19));
        feed.offer(0, head(8, 18), How::Pushed);
        assert_eq!(newest(&feed), head(8, 18));
    }

    #[test]
    fn an_answer_overtaken_by_a_push_does_not_set_us_back() {
        let feed = feed();
        feed.offer(0, head(8, 8), How::Pushed);
        feed.offer(0, head(9, 9), How::Pushed);
        feed.offer(0, head(8, 8), How::Asked);
        assert_eq!(newest(&feed), head(9, 9));
        // Two polls in a row agree: the chain did go back.
        feed.offer(0, head(8, 8), How::Asked);
        assert_eq!(newest(&feed), head(8, 8));
    }

    #[test]
    fn two_forks_of_equal_length_do_not_take_turns() {
        let feed = feed();
        feed.offer(0, head(9, 9), How::Pushed);
        let on_fork = Head { parent_hash: B256::repeat_byte(99), ..head(10, 110) };
        feed.offer(1, on_fork, How::Pushed);
        assert_eq!(newest(&feed), head(9, 9));
        let continued = Head { parent_hash: B256::repeat_byte(9), ..head(10, 10) };
        feed.offer(1, continued, How::Pushed);
        assert_eq!(newest(&feed), continued);
        // A fork that is clearly longer wins.
        feed.offer(0, head(12, 112), How::Asked);
        assert_eq!(newest(&feed), head(12, 112));
    }

    #[test]
    fn without_a_leader_only_news_counts() {
        let feed = feed();
        feed.offer(1, head(7, 7), How::Pushed);
        feed.offer(0, head(9, 9), How::Pushed);
        feed.lost(0);
        feed.offer(1, head(7, 7), How::Asked);
        assert_eq!(newest(&feed), head(9, 9));
        feed.offer(1, head(8, 18), How::Pushed);
        assert_eq!(newest(&feed), head(8, 18));
    }

    #[test]
    fn retries_slow_down_and_stay_bounded() {
        let longest = Duration::from_secs(10);
        assert_eq!(backoff(FIRST_RETRY, 0, longest), FIRST_RETRY);
        assert_eq!(backoff(FIRST_RETRY, 3, longest), FIRST_RETRY * 4);
        assert_eq!(backoff(FIRST_RETRY, 1_000, longest), longest);
    }
}
