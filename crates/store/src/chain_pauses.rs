//! Pauses: chains on which an operator lets nothing new begin, with who decided it and why.

use std::fmt;

use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{Row, StoreError, Tx};

/// Chains that may be paused at once: a page and every process read all of them.
const MAX_IN_FORCE: u32 = 1_000;

/// A decision about a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub at: Timestamp,
    pub by: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub chain: ChainId,
    pub paused: Decision,
    /// None while it is in force.
    pub resumed: Option<Decision>,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "paused by {}: {}", self.paused.by, self.paused.reason)
    }
}

fn from_row(row: &Row) -> Result<Pause, StoreError> {
    let resumed = match (row.opt_time(4)?, row.opt_text(5)?, row.opt_text(6)?) {
        (Some(at), by, reason) => {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            Some(Decision { at, by: text(by), reason: text(reason) })
        }
        (None, ..) => None,
    };
    Ok(Pause {
        chain: ChainId(row.uint(0)?),
        paused: Decision { at: row.time(1)?, by: row.text(2)?.to_owned(), reason: row.text(3)?.to_owned() },
        resumed,
    })
}

/// Pauses a chain. False if it is paused already: the earlier decision stands.
pub fn pause(tx: &mut Tx<'_>, chain: ChainId, decision: &Decision) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into chain_pause (chain_id, paused_at, paused_by, reason) values ($1, $2, $3, $4)
         on conflict do nothing returning pause_id",
        &[chain.0.try_into()?, decision.at.into(), (&decision.by).into(), (&decision.reason).into()],
    )?;
    Ok(row.is_some())
}

/// Ends the pause of a chain. False if it is not paused.
pub fn resume(tx: &mut Tx<'_>, chain: ChainId, decision: &Decision) -> Result<bool, StoreError> {
    let ended = tx.execute(
        "update chain_pause set resumed_at = $2, resumed_by = $3, resume_reason = $4
         where chain_id = $1 and resumed_at is null",
        &[chain.0.try_into()?, decision.at.into(), (&decision.by).into(), (&decision.reason).into()],
    )?;
    Ok(ended > 0)
}

/// The pauses in force.
pub fn in_force(tx: &mut Tx<'_>) -> Result<Vec<Pause>, StoreError> {
    tx.rows(
        "select chain_id, paused_at, paused_by, reason, resumed_at, resumed_by, resume_reason from chain_pause
         where resumed_at is null order by chain_id limit $1",
        &[MAX_IN_FORCE.into()],
    )?
    .iter()
    .map(from_row)
    .collect()
}

/// The pause of a chain that is in force.
pub fn of(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Pause>, StoreError> {
    tx.row(
        "select chain_id, paused_at, paused_by, reason, resumed_at, resumed_by, resume_reason from chain_pause
         where chain_id = $1 and resumed_at is null",
        &[chain.0.try_into()?],
    )?
    .as_ref()
    .map(from_row)
    .transpose()
}

/// The newest pauses, those that ended included.
pub fn newest(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<Pause>, StoreError> {
    tx.rows(
        "select chain_id, paused_at, paused_by, reason, resumed_at, resumed_by, resume_reason from chain_pause
         order by pause_id desc limit $1",
        &[limit.into()],
    )?
    .iter()
    .map(from_row)
    .collect()
}
