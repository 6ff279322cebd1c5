//! Commands of the operator: gas refills, manual refunds, pauses of chains, recovery of a lost database.

pub mod gas_refill;
pub mod manual_refund;
pub mod pauses;
pub mod recover;
pub mod recover_venue;

use std::sync::Arc;

use domain::ids::{ChainId, RequestId};
use domain::request::State;
use store::chain_pauses::{Decision, Pause};

use crate::error::SolverError;
use crate::solver::Solver;

/// The commands as the operator's routes call them.
#[derive(Clone, Debug)]
pub struct Commands(pub Arc<Solver>);

impl Commands {
    /// Gives up the fill of a request and refunds its deposit. Returns the request's new state.
    pub async fn refund(
        &self,
        id: RequestId,
        decision: manual_refund::Decision,
    ) -> Result<Result<State, manual_refund::NotRefunded>, SolverError> {
        manual_refund::refund(&self.0, id, decision).await
    }

    /// Pauses a chain, or ends its pause, and says which pause is in force then.
    pub async fn set_paused(
        &self,
        chain: ChainId,
        paused: bool,
        decision: Decision,
    ) -> Result<Option<Pause>, SolverError> {
        pauses::set(&self.0, chain, paused, decision).await
    }

    /// Gas of every wallet that should have some.
    pub async fn gas_report(&self) -> Result<Vec<gas_refill::Report>, SolverError> {
        gas_refill::report(&self.0).await
    }

    /// Asks the worker to refill every wallet that lacks gas.
    pub async fn refill_gas(&self) -> Result<(), SolverError> {
        gas_refill::ask(&self.0).await
    }
}
