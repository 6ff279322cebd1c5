//! What a process that is not the worker knows of the chains: how far the worker is, where it makes no payments, and what
//! it has promised already. It is read from the database, every moment.

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
/// How long after the worker's death its last word is good: as long as another may take to follow it.
const GRACE_MILLIS: i64 = 30_000;

/// Keeps the sites as the worker has them. Ends with whoever awaits it.
pub async fn keep(solver: &Solver) {
    let mut trouble = false;
    loop {
        match look(solver).await {
            Ok(()) => trouble = false,
            Err(failure) => {
                if !trouble {
                    warn!(error = %Chained(&failure), "cannot see what the worker does");
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
            // For what is promised, the word of the one before is good enough for a moment.
            Word::Awaited => {}
        }
    }
    Ok(())
}

/// Why nothing may be signed for on a chain, as the database has it now: only the word of the worker there is counts.
pub fn refusing(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<String>, SolverError> {
    let worker = leases::all(tx)?.into_iter().find(|lease| lease.kind == Kind::Worker);
    let state = chain_states::all(tx)?.into_iter().find(|state| state.chain == chain);
    Ok(match judge(worker.as_ref(), state.as_ref()) {
        Word::Good(refusing) => refusing,
        Word::None(why) => Some(why.to_owned()),
        Word::Awaited => Some("the worker has not finished its checks".to_owned()),
    })
}

/// What the worker says of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// Why it makes no payments there, or that it does.
    Good(Option<String>),
    /// It has just begun and not looked yet.
    Awaited,
    /// There is nobody to ask.
    None(&'static str),
}

/// The word of a worker that is gone is no good: the database may have been restored from a backup since.
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
    fn only_the_word_of_a_worker_that_lives_counts() {
        assert_eq!(judge(Some(&worker(3, true, None)), Some(&state(3, None))), Word::Good(None));
        assert_eq!(judge(Some(&worker(3, true, None)), Some(&state(3, Some("x")))), Word::Good(Some("x".to_owned())));
        // It died a moment ago, and another will follow.
        assert_eq!(judge(Some(&worker(3, true, Some(5_000))), Some(&state(3, None))), Word::Good(None));
        // Another has followed, and not looked yet.
        assert_eq!(judge(Some(&worker(4, true, None)), Some(&state(3, None))), Word::Awaited);
        assert_eq!(judge(Some(&worker(4, true, None)), None), Word::Awaited);
        // As in a backup: whoever held it is long dead, or had let go of it.
        let long_dead = judge(Some(&worker(3, true, Some(i64::MAX))), Some(&state(3, None)));
        let let_go = judge(Some(&worker(3, false, None)), Some(&state(3, None)));
        for nobody in [long_dead, let_go, judge(None, None)] {
            assert!(matches!(nobody, Word::None(_)), "{nobody:?}");
        }
    }
}
