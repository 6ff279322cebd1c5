//! Trials: a fill in which code runs that is not ours is tried on a node before it is made.
//!
//! The decision asks for a trial and lets the fill wait; the trial is made in the background, and the fill is decided
//! again with its verdict. No decision waits for a node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::ids::OrderId;
use domain::revert::Revert;
use evm::Attempt;
use tokio::sync::Notify;

/// Time for which a verdict stands.
const VERDICT_TTL: Duration = Duration::from_secs(30);
/// Trials kept at a time. A fill beyond them waits.
const MAX_TRIALS: usize = 1_024;
/// Trials without an answer after which a fill is made untried: a node that cannot try must not keep money back.
const MAX_UNANSWERED: u32 = 3;

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    Refuses(Revert),
}

#[derive(Debug)]
struct Trial {
    attempt: Attempt,
    asked: Instant,
    under_way: bool,
    unanswered: u32,
    verdict: Option<Verdict>,
    /// Answered since a decision last asked.
    unread: bool,
}

/// The trials of a chain, by order.
#[derive(Debug, Default)]
pub struct Trials {
    open: Mutex<HashMap<OrderId, Trial>>,
    /// Notified when a trial is asked for.
    pub asked: Notify,
    /// Notified when trials have been made.
    pub made: Notify,
}

impl Trials {
    /// The verdict on an order's fill. None while it is being tried.
    pub fn verdict(&self, order: OrderId, attempt: impl FnOnce() -> Attempt) -> Option<Verdict> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trial) = open.get_mut(&order).filter(|trial| trial.asked.elapsed() < VERDICT_TTL) {
            trial.unread = false;
            if trial.unanswered >= MAX_UNANSWERED {
                return Some(Verdict::Passes);
            }
            if trial.verdict.is_none() {
                self.asked.notify_one();
            }
            return trial.verdict.clone();
        }
        if open.len() >= MAX_TRIALS {
            open.retain(|_, trial| trial.asked.elapsed() < VERDICT_TTL);
        }
        if open.len() < MAX_TRIALS {
            let asked = Instant::now();
            let attempt = attempt();
            let trial = Trial { attempt, asked, under_way: false, unanswered: 0, verdict: None, unread: false };
            open.insert(order, trial);
            self.asked.notify_one();
        }
        None
    }

    /// Trials that are still to be made. Each is handed out once until it is answered.
    pub fn take(&self, most: usize) -> Vec<(OrderId, Attempt)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = open.iter_mut().filter(|(_, trial)| trial.verdict.is_none() && !trial.under_way);
        let taken = waiting.take(most).map(|(order, trial)| {
            trial.under_way = true;
            (*order, trial.attempt.clone())
        });
        taken.collect()
    }

    /// True while a trial was made whose fill has not been decided again. It may be made before the commit that asked
    /// for it: then the fill is found a moment later.
    pub fn has_unread(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().any(|trial| trial.unread && trial.asked.elapsed() < VERDICT_TTL)
    }

    /// Notes the verdict of a trial; none if no node answered.
    pub fn answered(&self, order: OrderId, verdict: Option<Verdict>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trial) = open.get_mut(&order) else { return };
        (trial.under_way, trial.unread) = (false, true);
        trial.unanswered += u32::from(verdict.is_none());
        trial.verdict = verdict;
    }
}
