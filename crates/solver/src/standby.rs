//! A standby process's view of the chains: the worker's position, the chains where it makes no payments, and the
//! amounts already promised. It is read from the database twice a second.

use std::time::{Duration, Instant};

use store::chain_states::{self, Word};
use store::leases::{self, Kind};
use store::{Tx, blocks, deposits};
use tracing::warn;

use crate::error::{Chained, SolverError};
use crate::payments::lane::committed;
use crate::solver::Solver;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Deposits of one chain looked at in one poll.
const MAX_DEPOSITS: i64 = 1_024;

/// Keeps the chain handles as the worker reports them. Runs until its future is dropped.
pub async fn keep(solver: &Solver) {
    let mut trouble = false;
    loop {
        match look(solver).await {
            Ok(()) => trouble = false,
            Err(failure) => {
                if !trouble {
                    warn!(error = %Chained(&failure), "cannot read the worker's reports");
                }
                trouble = true;
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn look(solver: &Solver) -> Result<(), SolverError> {
    let chains = solver.chains.clone();
    let read = move |tx: &mut Tx<'_>| {
        let leases = leases::all(tx)?;
        let worker = leases.into_iter().find(|lease| lease.kind == Kind::Worker);
        let mut seen = Vec::new();
        for (&chain, handle) in &chains {
            let Some(cursor) = blocks::cursor(tx, chain)? else { continue };
            let above = (*handle.health.taken.borrow()).min(cursor.number);
            // The first look has no block to begin from, and nothing read before it.
            let new = if above == 0 { Vec::new() } else { deposits::above(tx, chain, above, MAX_DEPOSITS)? };
            let movers: Vec<_> = new.iter().flat_map(|stored| stored.deposit.parties()).collect();
            seen.push((chain, cursor.number, committed(tx, handle, cursor.number)?.0, movers));
        }
        Ok::<_, SolverError>((worker, chain_states::all(tx)?, seen))
    };
    let (worker, states, seen) = solver.store.read(read).await?;
    let seen_at = Instant::now();
    for (chain, number, amounts, movers) in seen {
        let Some(handle) = solver.chains.get(&chain) else { continue };
        handle.moved_money.note(movers, seen_at);
        handle.health.taken.send_replace(number);
        handle.health.commit(amounts);
    }
    for handle in solver.chains.values() {
        let state = states.iter().find(|state| state.chain == handle.id());
        match chain_states::judge(worker.as_ref(), state) {
            Word::Good(refusing) => handle.health.refuse(refusing),
            Word::None(why) => handle.health.refuse(Some(why.to_owned())),
            // For promises, the previous worker's report is good enough for a moment.
            Word::Awaited => {}
        }
    }
    Ok(())
}
