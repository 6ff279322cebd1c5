//! A standby process's view of the chains: the worker's position, the chains where it makes no payments, and the
//! amounts already promised. It is read from the database twice a second.

use std::time::Duration;

use domain::ids::ChainId;
use store::chain_states::{self, ChainState};
use store::leases::{self, Kind, State};
use store::{Tx, blocks};
use tracing::warn;

use crate::error::{Chained, SolverError};
use crate::payments::lane::committed;
use crate::solver::Solver;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which a dead worker's last report is good: as long as a successor may take.
const GRACE_MILLIS: i64 = 30_000;

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
            seen.push((chain, cursor.number, committed(tx, handle, cursor.number)?.0));
        }
        Ok::<_, SolverError>((worker, chain_states::all(tx)?, seen))
    };
    let (worker, states, seen) = solver.store.read(read).await?;
    for (chain, number, amounts) in seen {
        let Some(handle) = solver.chains.get(&chain) else { continue };
        handle.health.taken.send_replace(number);
        handle.health.commit(amounts);
    }
    for handle in solver.chains.values() {
        let state = states.iter().find(|state| state.chain == handle.id());
        match judge(worker.as_ref(), state) {
            Word::Good(refusing) => handle.health.refuse(refusing),
            Word::None(why) => handle.health.refuse(Some(why.to_owned())),
            // For promises, the previous worker's report is good enough for a moment.
            Word::Awaited => {}
        }
    }
    Ok(())
}

/// The reason why nothing may be signed on a chain, as the database has it: only the current worker's report counts.
pub fn refusing(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<String>, SolverError> {
    let worker = leases::all(tx)?.into_iter().find(|lease| lease.kind == Kind::Worker);
    let state = chain_states::all(tx)?.into_iter().find(|state| state.chain == chain);
    Ok(match judge(worker.as_ref(), state.as_ref()) {
        Word::Good(refusing) => refusing,
        Word::None(why) => Some(why.to_owned()),
        Word::Awaited => Some("the worker has not finished its checks".to_owned()),
    })
}

/// The worker's report on a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// The reason why the worker makes no payments there; None if it makes them.
    Good(Option<String>),
    /// The worker has just started, and not checked the chain yet.
    Awaited,
    /// No worker is active.
    None(&'static str),
}

/// The report of a dead worker does not count: the database may have been restored from a backup since.
fn judge(worker: Option<&State>, state: Option<&ChainState>) -> Word {
    let Some(worker) = worker.filter(|worker| worker.held) else { return Word::None("no worker is active") };
    if worker.expired_millis.is_some_and(|millis| millis > GRACE_MILLIS) {
        return Word::None("the worker is heard of no more, and no other has followed it");
    }
    match state {
        Some(state) if state.epoch == worker.epoch => Word::Good(state.refusing.clone()),
        Some(_) | None => Word::Awaited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(epoch: i64, held: bool, expired_millis: Option<i64>) -> State {
        State { kind: Kind::Worker, epoch, name: None, held, expired_millis }
    }

    fn state(epoch: i64, refusing: Option<&str>) -> ChainState {
        ChainState { chain: ChainId(1), epoch, refusing: refusing.map(str::to_owned) }
    }

    #[test]
    fn only_the_report_of_a_live_worker_counts() {
        assert_eq!(judge(Some(&worker(3, true, None)), Some(&state(3, None))), Word::Good(None));
        assert_eq!(judge(Some(&worker(3, true, None)), Some(&state(3, Some("x")))), Word::Good(Some("x".to_owned())));
        // The worker died a moment ago, and a successor will follow.
        assert_eq!(judge(Some(&worker(3, true, Some(5_000))), Some(&state(3, None))), Word::Good(None));
        // The successor has not checked the chain yet.
        assert_eq!(judge(Some(&worker(4, true, None)), Some(&state(3, None))), Word::Awaited);
        assert_eq!(judge(Some(&worker(4, true, None)), None), Word::Awaited);
        // As in a backup: the holder is long dead, or had released the lease.
        let long_dead = judge(Some(&worker(3, true, Some(i64::MAX))), Some(&state(3, None)));
        let let_go = judge(Some(&worker(3, false, None)), Some(&state(3, None)));
        for nobody in [long_dead, let_go, judge(None, None)] {
            assert!(matches!(nobody, Word::None(_)), "{nobody:?}");
        }
    }
}
