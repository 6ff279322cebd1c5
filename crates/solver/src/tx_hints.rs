//! Transactions that clients say they have sent: looked up beside everything else, a few at a time.
//!
//! A hint and no more. Money is taken in by the walk along the chain alone, whether or not anybody announces it; what is
//! announced is written into the story of the request it names, and the walk is told to look for new blocks now.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use domain::ids::{OrderId, RequestId};
use domain::request::State;
use evm::HeardTx;
use metrics::counter;
use store::{Tx, events, requests};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::chain_handle::ChainHandle;
use crate::error::{Chained, SolverError};
use crate::solver::Solver;

/// Announcements of one chain that wait to be looked up. One more is not noted.
const MAX_HINTS: usize = 1_024;
/// Hashes remembered, so that saying it twice costs nothing. Beyond it all are forgotten.
const REMEMBERED: usize = 8_192;
/// Transactions looked up in one round.
const HINTS_PER_ROUND: usize = 16;
/// How often a transaction is asked for that no node knows yet, and how long apart.
const TRIES: u8 = 5;
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Under which an announcement is told in a request's story.
const RULE: &str = "announced";

/// What waits to be looked up on one chain.
#[derive(Debug, Default)]
pub struct TxHints {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Announcement>,
    seen: HashSet<B256>,
}

#[derive(Clone, Copy, Debug)]
struct Announcement {
    tx: B256,
    tries: u8,
    due: Instant,
}

impl TxHints {
    /// Takes note and returns at once. Says whether it will be looked up.
    pub fn note(&self, tx: B256) -> bool {
        let mut waiting = self.waiting();
        if waiting.queue.len() >= MAX_HINTS {
            counter!("causeway_announcements_dropped_total").increment(1);
            return false;
        }
        if waiting.seen.len() >= REMEMBERED {
            waiting.seen.clear();
        }
        if !waiting.seen.insert(tx) {
            return false;
        }
        waiting.queue.push_back(Announcement { tx, tries: TRIES, due: Instant::now() });
        drop(waiting);
        self.more.notify_one();
        true
    }

    fn due(&self, now: Instant) -> Vec<Announcement> {
        let mut waiting = self.waiting();
        let (due, later): (VecDeque<_>, VecDeque<_>) = waiting.queue.drain(..).partition(|it| it.due <= now);
        let (due, rest) =
            due.into_iter().enumerate().fold((Vec::new(), Vec::new()), |(mut now, mut rest), (at, it)| {
                if at < HINTS_PER_ROUND {
                    now.push(it)
                } else {
                    rest.push(it)
                }
                (now, rest)
            });
        waiting.queue = rest.into_iter().chain(later).collect();
        due
    }

    fn again(&self, announcement: Announcement) {
        let tries = announcement.tries.saturating_sub(1);
        let mut waiting = self.waiting();
        if tries > 0 && waiting.queue.len() < MAX_HINTS {
            waiting.queue.push_back(Announcement { tries, due: Instant::now() + ROUND_INTERVAL, ..announcement });
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    loop {
        for announcement in handle.tx_hints.due(Instant::now()) {
            match look_up(&solver, &handle, announcement.tx).await {
                Ok(true) => {}
                Ok(false) => handle.tx_hints.again(announcement),
                Err(failure) => {
                    debug!(chain.id = %handle.id(), tx = %announcement.tx, error = %Chained(&failure), "cannot look up what was announced");
                    handle.tx_hints.again(announcement);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = handle.tx_hints.more.notified() => {}
            () = tokio::time::sleep(ROUND_INTERVAL) => {}
        }
    }
}

/// Says whether the transaction is known to a node.
async fn look_up(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, hash: B256) -> Result<bool, SolverError> {
    let Some(heard) = handle.nodes.heard(hash).await? else { return Ok(false) };
    let mined = heard.block_hash.is_some();
    let names = names(handle, &heard);
    let (chain, now) = (handle.id(), solver.now());
    let unit = move |tx: &mut Tx<'_>| {
        for name in &names {
            let order = match name {
                Name::Order(order) => Some(*order),
                Name::Request(id) => requests::find(tx, *id)?.map(|request| request.order_id),
            };
            let Some(order) = order else { continue };
            let Some(request) = requests::lock_order(tx, order)? else { continue };
            let here = request.quote.ask.origin.chain == chain;
            if here && request.state == State::Waiting && !events::has(tx, request.id, RULE)? {
                let figures = serde_json::json!({ "chain": chain.0, "tx": hash, "mined": mined });
                events::append(tx, request.id, State::Waiting, RULE, &figures, now)?;
            }
            break;
        }
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await?;
    if mined {
        handle.nodes.look().await;
    }
    Ok(true)
}

/// What a transaction may name: each has to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Request(RequestId),
    Order(OrderId),
}

/// A deposit has the order as its last word, whether it calls the depository or only carries the id; what enters by our
/// other contracts names the request.
fn names(handle: &ChainHandle, heard: &HeardTx) -> Vec<Name> {
    let Some(to) = heard.to else { return Vec::new() };
    let named = handle.watch.entry.and_then(|entry| entry.request_in(to, &heard.input)).map(Name::Request);
    let deposits = to == handle.chain.depository || handle.chain.token(to).is_some();
    let last = heard.input.last_chunk::<32>().filter(|_| deposits);
    named.into_iter().chain(last.map(|word| Name::Order(OrderId(B256::from(*word))))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn what_is_said_twice_is_looked_up_once_and_the_queue_is_bounded() {
        let tx_hints = TxHints::default();
        assert!(tx_hints.note(hash(1)) && !tx_hints.note(hash(1)));
        for number in 2..=MAX_HINTS {
            assert!(tx_hints.note(hash(number)));
        }
        assert!(!tx_hints.note(hash(MAX_HINTS + 1)), "there is no room");
        let now = Instant::now();
        let mut taken = 0;
        loop {
            let due = tx_hints.due(now);
            if due.is_empty() {
                break;
            }
            assert!(due.len() <= HINTS_PER_ROUND);
            taken += due.len();
        }
        assert_eq!(taken, MAX_HINTS);
        assert!(tx_hints.note(hash(MAX_HINTS + 1)));
    }

    #[test]
    fn what_nobody_knows_is_given_up() {
        let tx_hints = TxHints::default();
        tx_hints.note(hash(1));
        let mut looked_up = 0;
        while let Some(it) = tx_hints.due(Instant::now() + ROUND_INTERVAL * 10).pop() {
            looked_up += 1;
            tx_hints.again(it);
        }
        assert_eq!(looked_up, TRIES);
    }
}
