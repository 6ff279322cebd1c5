//! Transactions that clients say they have sent: a bounded queue that a task of the chain works off.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use metrics::counter;
use tokio::sync::Notify;

/// Pending hints of one chain. One more is dropped.
const MAX_HINTS: usize = 1_024;
/// Hashes remembered, so that a repeated hint costs nothing. At this number all are forgotten.
const MAX_REMEMBERED: usize = 8_192;
/// Transactions looked up in one round.
const HINTS_PER_ROUND: usize = 16;
/// Lookups of a transaction that no node knows yet, and the time between them.
const TRIES: u8 = 5;
pub(crate) const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Transactions of one chain that clients say they have sent, until they are looked up.
#[derive(Debug, Default)]
pub struct TxHints {
    waiting: Mutex<Waiting>,
    pub(crate) more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Hint>,
    seen: HashSet<B256>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) tx: B256,
    tries: u8,
    due: Instant,
}

impl TxHints {
    /// Queues a hint without waiting. True if it will be looked up.
    pub fn note(&self, tx: B256) -> bool {
        let mut waiting = self.waiting();
        if waiting.queue.len() >= MAX_HINTS {
            counter!("causeway_hints_dropped_total").increment(1);
            return false;
        }
        if waiting.seen.len() >= MAX_REMEMBERED {
            waiting.seen.clear();
        }
        if !waiting.seen.insert(tx) {
            return false;
        }
        waiting.queue.push_back(Hint { tx, tries: TRIES, due: Instant::now() });
        drop(waiting);
        self.more.notify_one();
        true
    }

    pub(crate) fn due(&self, now: Instant) -> Vec<Hint> {
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

    pub(crate) fn again(&self, hint: Hint) {
        let tries = hint.tries.saturating_sub(1);
        let mut waiting = self.waiting();
        if tries > 0 && waiting.queue.len() < MAX_HINTS {
            waiting.queue.push_back(Hint { tries, due: Instant::now() + ROUND_INTERVAL, ..hint });
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn a_repeated_hint_is_looked_up_once_and_the_queue_is_bounded() {
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
    fn an_unknown_transaction_is_given_up() {
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
