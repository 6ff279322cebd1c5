//! The newest head of a chain, chosen among those that its endpoints tell of. No I/O.
//!
//! The newest head wins, unless one endpoint alone is far ahead of all others. A head that goes back is believed only
//! from the endpoint that led us there: from any other it is just an endpoint that lags.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use domain::ids::ChainId;
use tokio::sync::watch;

use crate::rpc::Head;

/// Block hashes kept: enough to recognise an endpoint that lags by as much as we would still use.
const MAX_REMEMBERED: usize = 128;

/// Blocks by which one endpoint may be ahead of all others and still be followed.
const MAX_BLOCKS_AHEAD: u64 = 8;

/// An endpoint whose head has not risen for this long stands still: the others are not measured by it.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which an endpoint that led us onto blocks which most others replaced is followed after them.
const DISTRUST_TIME: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
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
    claims: BTreeMap<usize, Claim>,
    distrusted: BTreeMap<usize, Instant>,
    /// The newest head is of an endpoint that is not trusted any more: the next head of another replaces it.
    void: bool,
}

/// The newest head that an endpoint has told of.
#[derive(Clone, Copy, Debug)]
struct Claim {
    number: u64,
    /// When the endpoint came to it.
    since: Instant,
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

    pub(crate) fn offer(&self, endpoint: usize, head: Head, how: How) {
        let now = Instant::now();
        let mut history = self.history();
        history.claim(endpoint, head.number, now);
        let accepted = self.newest.send_if_modified(|newest| {
            let accept = newest.is_none_or(|newest| history.follows(endpoint, &newest, &head, how, now));
            if accept {
                *newest = Some(head);
            }
            accept
        });
        if accepted {
            history.leader = Some(endpoint);
            history.step_back = None;
            history.void = false;
            metrics::gauge!("evm_head_number", "chain" => self.chain.to_string()).set(precise(head.number));
        }
        history.remember(head.hash);
    }

    /// The endpoint stops leading: its heads cannot be relied on for going back; another endpoint's may.
    pub(crate) fn lost(&self, endpoint: usize) {
        let mut history = self.history();
        history.claims.remove(&endpoint);
        if history.leader == Some(endpoint) {
            history.leader = None;
        }
    }

    /// The leader led us onto blocks that most others replaced.
    pub(crate) fn distrust_leader(&self) {
        let mut history = self.history();
        if let Some(leader) = history.leader.take() {
            history.distrusted.insert(leader, Instant::now());
            history.void = true;
        }
    }

    /// True until another endpoint has replaced the head of a leader that is not trusted any more.
    pub(crate) fn is_void(&self) -> bool {
        self.history().void
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().expect("no code panics while holding the history")
    }
}

impl History {
    fn claim(&mut self, endpoint: usize, number: u64, now: Instant) {
        let claim = self.claims.entry(endpoint).or_insert(Claim { number, since: now });
        if claim.number != number {
            *claim = Claim { number, since: now };
        }
    }

    /// The height of the other endpoints, of which one alone must not be far ahead. None if all of them are down or
    /// stand still.
    fn height_of_others(&self, endpoint: usize, now: Instant) -> Option<u64> {
        let moves = |claim: &&Claim| now.saturating_duration_since(claim.since) < STALL_TIMEOUT;
        let others = self.claims.iter().filter(|(other, _)| **other != endpoint).map(|(_, claim)| claim);
        others.filter(moves).map(|claim| claim.number).max()
    }

    fn is_far_ahead(&self, endpoint: usize, number: u64, now: Instant) -> bool {
        self.height_of_others(endpoint, now).is_some_and(|height| number > height.saturating_add(MAX_BLOCKS_AHEAD))
    }

    fn is_distrusted(&self, endpoint: usize, now: Instant) -> bool {
        self.distrusted.get(&endpoint).is_some_and(|since| now.saturating_duration_since(*since) < DISTRUST_TIME)
    }

    /// True if the head replaces the newest one.
    fn follows(&mut self, endpoint: usize, newest: &Head, head: &Head, how: How, now: Instant) -> bool {
        let others = self.claims.keys().filter(|other| **other != endpoint);
        let trusted_elsewhere = others.copied().any(|other| !self.is_distrusted(other, now));
        if self.is_far_ahead(endpoint, head.number, now) || self.is_distrusted(endpoint, now) && trusted_elsewhere {
            return false;
        }
        let leads_astray = self.leader.is_some_and(|leader| {
            leader != endpoint && newest.number > head.number && self.is_far_ahead(leader, newest.number, now)
        });
        if head.hash != newest.hash && (self.void || leads_astray) {
            return true;
        }
        self.accepts(endpoint, newest, head, how)
    }

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
        while self.known.len() > MAX_REMEMBERED {
            self.known.pop_front();
        }
    }
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
    fn one_endpoint_alone_does_not_lead_far_ahead_of_the_others() {
        let feed = feed();
        // It was the first to speak.
        feed.offer(0, head(1_000_000, 66), How::Pushed);
        assert_eq!(newest(&feed), head(1_000_000, 66));
        feed.offer(1, head(9, 9), How::Pushed);
        assert_eq!((newest(&feed), feed.leader()), (head(9, 9), Some(1)));
        feed.offer(0, head(1_000_001, 67), How::Pushed);
        feed.offer(0, head(18, 68), How::Asked);
        assert_eq!(newest(&feed), head(9, 9));
        feed.offer(1, head(10, 10), How::Pushed);
        feed.offer(0, head(18, 18), How::Pushed);
        assert_eq!((newest(&feed), feed.leader()), (head(18, 18), Some(0)), "some blocks ahead are no crime");
    }

    #[test]
    fn an_endpoint_that_stands_still_or_is_down_holds_nobody_back() {
        let feed = feed();
        feed.offer(0, head(9, 9), How::Pushed);
        feed.offer(1, head(9, 9), How::Pushed);
        let later = Instant::now() + STALL_TIMEOUT;
        assert!(feed.history().is_far_ahead(0, 100, Instant::now()));
        assert!(!feed.history().is_far_ahead(0, 100, later));
        feed.lost(1);
        feed.offer(0, head(100, 100), How::Pushed);
        assert_eq!(newest(&feed), head(100, 100));
    }

    #[test]
    fn an_endpoint_that_led_us_astray_is_followed_after_the_others() {
        let feed = feed();
        feed.offer(1, head(9, 9), How::Pushed);
        feed.offer(0, head(14, 66), How::Pushed);
        feed.distrust_leader();
        feed.offer(0, head(15, 67), How::Pushed);
        assert!(newest(&feed) == head(14, 66) && feed.is_void());
        feed.offer(1, head(10, 10), How::Pushed);
        assert_eq!((newest(&feed), feed.leader(), feed.is_void()), (head(10, 10), Some(1), false));
        feed.offer(0, head(16, 68), How::Pushed);
        assert_eq!(newest(&feed), head(10, 10));
        // Alone it is better than none.
        feed.lost(1);
        feed.offer(0, head(17, 69), How::Pushed);
        assert_eq!(newest(&feed), head(17, 69));
    }
}
