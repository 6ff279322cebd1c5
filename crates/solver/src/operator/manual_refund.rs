//! Manual refunds: a person decides that a request which waits for its fill is refunded instead, or that the deposit of
//! one that has failed goes to the recovery address it names. Person and reason are kept with the request.

use std::sync::Arc;

use domain::ids::RequestId;
use domain::request::{Event, State};
use serde::Serialize;
use store::{Tx, deposits, requests, settlements};
use tracing::warn;

use crate::error::{Chained, SolverError};
use crate::orders::advance::advance;
use crate::orders::refund_recipient::recovery;
use crate::solver::Solver;

pub use crate::lifecycle::OPERATOR_REFUND as RULE;

/// The person who decided, and the reason, kept with the event.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    pub by: String,
    pub reason: String,
}

/// The reason why a request is not refunded by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRefunded {
    #[error("there is no such request")]
    Unknown,
    #[error("{0}")]
    Because(&'static str),
}

/// Gives up the fill of a request and refunds its deposit. Returns the request's new state.
pub async fn refund(
    solver: &Arc<Solver>,
    id: RequestId,
    decision: Decision,
) -> Result<Result<State, NotRefunded>, SolverError> {
    warn!(request.id = %id, by = %decision.by, reason = %decision.reason, "a person asks for a refund");
    // This code is not the worker, even in the worker's process: payments are noted as due for the worker.
    let context = solver.context().for_the_worker();
    let unit = move |tx: &mut Tx<'_>| {
        let Some(mut request) = requests::lock(tx, id)? else {
            let quoted = requests::find(tx, id)?.is_some();
            return Ok(Err(if quoted { NotRefunded::Because(NOTHING) } else { NotRefunded::Unknown }));
        };
        let decided = settlements::outcome(tx, request.order_id)?.is_some();
        let deposit = deposits::of_order(tx, request.order_id)?;
        let recoverable = deposit.is_some_and(|it| recovery(&request.quote, &it.deposit).is_some());
        if let Some(why) = why_not(request.state, decided, recoverable) {
            return Ok(Err(NotRefunded::Because(why)));
        }
        advance(tx, &mut request, Event::OperatorRefund, &decision, &context)?;
        Ok::<_, SolverError>(Ok(request.state))
    };
    let decided = solver.store.write(unit).await?;
    // If the wake-up is lost, the worker finds the refund at the next block.
    if let (Ok(_), Err(error)) = (&decided, solver.store.wake().await) {
        warn!(error = %Chained(&error), "the worker was not woken for a refund");
    }
    Ok(decided)
}

const NOTHING: &str = "nothing that counts has been deposited for it";

/// The reason against a refund, if there is one. A decided payment is given up only by proof that it will not pay.
const fn why_not(state: State, decided: bool, recoverable: bool) -> Option<&'static str> {
    match state {
        State::Waiting | State::Depositing => Some(NOTHING),
        State::Pending if decided => Some("its fill is decided, and what is mined in the end decides"),
        State::Pending => None,
        State::Submitted => Some("its fill is on its way, and what is mined in the end decides"),
        State::Success => Some("it was filled"),
        State::Refunding => Some("its refund is under way; its trace says what that waits for"),
        State::Refunded => Some("it was refunded already"),
        State::Failed if decided => Some("it has failed, and what was decided for it may still be mined"),
        State::Failed if recoverable => None,
        State::Failed => Some("it has failed, and its deposit names no recovery address that it could go to"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_for_its_fill_or_can_be_recovered_is_refunded_by_hand() {
        for state in State::ALL {
            let (pending, failed) = (state == State::Pending, state == State::Failed);
            assert_eq!(why_not(state, false, false).is_none(), pending, "{state:?}");
            assert_eq!(why_not(state, false, true).is_none(), pending || failed, "{state:?}");
            for recoverable in [false, true] {
                assert!(why_not(state, true, recoverable).is_some(), "{state:?}");
            }
        }
    }
}
