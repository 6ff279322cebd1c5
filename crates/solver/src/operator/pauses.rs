//! Pauses of chains: an operator's decision that nothing new begins on a chain, neither a quote nor a payment. Payments
//! that are committed go on to their end, and deposits are recorded.
//!
//! The database has the decision, so that it outlives every process; each process reads it once a second.

use std::time::Duration;

use domain::ids::ChainId;
use store::chain_pauses::{self, Decision, Pause};
use store::{StoreError, Tx};
use tracing::{info, warn};

use crate::error::{Chained, SolverError};
use crate::solver::Solver;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the chain handles as the database has them. Runs until its future is dropped.
pub async fn keep(solver: &Solver) {
    let mut trouble = false;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match look(solver).await {
            Ok(()) => trouble = false,
            Err(failure) => {
                // The pauses that are known stay in force.
                if !trouble {
                    warn!(error = %Chained(&failure), "cannot read which chains are paused");
                }
                trouble = true;
            }
        }
    }
}

/// Takes over the pauses in force. The first look comes before anything is paid.
pub async fn look(solver: &Solver) -> Result<(), SolverError> {
    let pauses = solver.store.read(chain_pauses::in_force).await?;
    for handle in solver.chains.values() {
        let pause = pauses.iter().find(|pause| pause.chain == handle.id()).map(ToString::to_string);
        if handle.health.paused().as_deref() == pause.as_ref() {
            continue;
        }
        match &pause {
            Some(why) => info!(chain.id = %handle.id(), "chain {} is {why}", handle.id()),
            None => info!(chain.id = %handle.id(), "chain {} is not paused any more", handle.id()),
        }
        handle.health.pause(pause);
    }
    Ok(())
}

/// Pauses a chain, or ends its pause; this process knows of it at once.
pub(super) async fn set(
    solver: &Solver,
    chain: ChainId,
    paused: bool,
    decision: Decision,
) -> Result<Option<Pause>, SolverError> {
    let unit = move |tx: &mut Tx<'_>| {
        match paused {
            true => chain_pauses::pause(tx, chain, &decision)?,
            false => chain_pauses::resume(tx, chain, &decision)?,
        };
        chain_pauses::of(tx, chain)
    };
    let pause = solver.store.write::<_, StoreError>(unit).await?;
    look(solver).await?;
    // Payments that waited for the end of the pause are tried now.
    solver.store.wake().await?;
    Ok(pause)
}
