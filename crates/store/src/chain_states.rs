//! The worker's view of each chain, for the other processes.

use domain::ids::ChainId;

use crate::leases::{self, Kind, State};
use crate::{StoreError, Tx, Value};

/// How long after the worker's death its last word is good: as long as another may take to follow it.
const GRACE_MILLIS: i64 = 30_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainState {
    pub chain: ChainId,
    /// Epoch of the worker's lease under which the row was written.
    pub epoch: i64,
    /// The reason why no payments are made on the chain.
    pub refusing: Option<String>,
}

/// Written by the current worker.
pub fn put(tx: &mut Tx<'_>, chain: ChainId, refusing: Option<&str>) -> Result<(), StoreError> {
    tx.execute(
        "insert into chain_state (chain_id, epoch, refusing)
         values ($1, (select epoch from lease where kind = 'worker'), $2)
         on conflict (chain_id) do update set epoch = excluded.epoch, refusing = excluded.refusing",
        &[chain.0.try_into()?, refusing.map_or(Value::Null, Into::into)],
    )?;
    Ok(())
}

pub fn all(tx: &mut Tx<'_>) -> Result<Vec<ChainState>, StoreError> {
    let rows = tx.rows("select chain_id, epoch, refusing from chain_state", &[])?;
    rows.iter()
        .map(|row| {
            let refusing = row.opt_text(2)?.map(str::to_owned);
            Ok(ChainState { chain: ChainId(row.uint(0)?), epoch: row.int(1)?, refusing })
        })
        .collect()
}

/// The worker's word on a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Why it makes no payments there, or that it does.
    Good(Option<String>),
    /// It has just begun and not looked yet.
    Awaited,
    /// There is nobody to ask.
    None(&'static str),
}

/// The word of a worker that is gone is no good: the database may have been restored from a backup since.
pub fn judge(worker: Option<&State>, state: Option<&ChainState>) -> Word {
    let Some(worker) = worker.filter(|worker| worker.held) else { return Word::None("no worker is active") };
    if worker.expired_millis.is_some_and(|millis| millis > GRACE_MILLIS) {
        return Word::None("the worker is heard of no more, and no other has followed it");
    }
    match state {
        Some(state) if state.epoch == worker.epoch => Word::Good(state.refusing.clone()),
        Some(_) | None => Word::Awaited,
    }
}

/// Why nothing may be signed for on a chain, as the database has it now: only the word of the living worker counts.
pub fn refusing(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<String>, StoreError> {
    let worker = leases::all(tx)?.into_iter().find(|lease| lease.kind == Kind::Worker);
    let state = all(tx)?.into_iter().find(|state| state.chain == chain);
    Ok(match judge(worker.as_ref(), state.as_ref()) {
        Word::Good(refusing) => refusing,
        Word::None(why) => Some(why.to_owned()),
        Word::Awaited => Some("the worker has not finished its checks".to_owned()),
    })
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
