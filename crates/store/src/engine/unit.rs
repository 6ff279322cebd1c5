//! A unit of work on its way through a queue: the closure, its result, and the caller to answer.

use std::cell::Cell;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::error::Fault;
use crate::thread::or_abort;
use crate::{StoreError, Tx};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A unit that waited for the store would wait for itself.
pub(crate) fn assert_outside() {
    debug_assert!(!INSIDE.get(), "a unit of work called the store: pass its Tx on instead");
}

/// The fate of the transaction that a unit ran in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Commit,
    /// The unit returned an error, or the failed statement would fail again.
    RollBack,
    /// The unit was stopped by a transient fault.
    Again(Fault),
}

/// Erases the result type of [`Pending`], so that units of all kinds share a queue.
pub(crate) trait Unit: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict;
    /// True when the caller has gone. A write is done all the same.
    fn is_abandoned(&self) -> bool;
    /// Sends the result of the last run to the caller, or the error in its place.
    fn answer(self: Box<Self>, ended: Result<(), StoreError>);
}

pub(crate) struct ReadUnit {
    pub unit: Box<dyn Unit>,
    pub deadline: Instant,
}

pub(crate) struct Pending<F, T, E> {
    unit: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Pending<F, T, E> {
    pub(crate) fn new(unit: F, reply: oneshot::Sender<Result<T, E>>) -> Self {
        Self { unit, result: None, reply }
    }
}

impl<F, T, E> Unit for Pending<F, T, E>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict {
        INSIDE.set(true);
        let result = or_abort("a unit of work", || (self.unit)(tx));
        INSIDE.set(false);
        let verdict = match (tx.fault(), &result) {
            (None, Ok(_)) => Verdict::Commit,
            (None, Err(_)) | (Some(Fault::Statement), _) => Verdict::RollBack,
            (Some(passing), _) => Verdict::Again(passing),
        };
        let swallowed = tx.fault().is_some() && result.is_ok();
        self.result = Some(if swallowed { Err(StoreError::Swallowed.into()) } else { result });
        verdict
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn answer(self: Box<Self>, ended: Result<(), StoreError>) {
        let result = match (ended, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closed.into()),
            (Err(error), _) => Err(error.into()),
        };
        // The caller may have hung up, which undoes nothing.
        let _ = self.reply.send(result);
    }
}
