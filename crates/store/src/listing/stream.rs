//! The events of requests that match a condition, in the order of their numbers, each exactly once.
//!
//! Postgres gives a number when an event is inserted and shows it when its transaction commits: a lower number may
//! appear after a higher one. So a reader stops at a missing number until every transaction that ran when it was missed
//! has ended: then it is there, or will never be. It also stops at a request whose facts are not true yet.

use domain::ids::RequestId;
use domain::request::State;
use domain::time::Timestamp;

use super::condition::{Condition, Sql};
use crate::columns::unknown;
use crate::{StoreError, Tx};

/// Events looked at in one statement.
const EVENTS_PER_BATCH: u16 = 100;

/// One step of a request, as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub sequence: i64,
    pub request: RequestId,
    pub state: State,
    pub at: Timestamp,
}

/// A number that was missing, and when it will be known for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The highest number that was there at the time.
    below: i64,
    /// All transactions that could have the missing one have ended when no older one runs than this.
    running_to: i64,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub steps: Vec<Step>,
    /// The number up to which every event has been looked at, matching or not.
    pub position: i64,
    /// The gap at which it stopped, to be handed in the next time.
    pub gap: Option<Gap>,
    /// There may be more at once.
    pub full: bool,
}

/// The number of the newest event.
pub fn newest(tx: &mut Tx<'_>) -> Result<i64, StoreError> {
    let row = tx.row("select coalesce(max(sequence), 0) from request_event", &[])?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// The next matching events after a position. `gap` is that of the batch before.
pub fn after(tx: &mut Tx<'_>, position: i64, condition: &Condition, gap: Option<Gap>) -> Result<Batch, StoreError> {
    let running = tx.row("select {running_from}, {running_to}", &[])?.ok_or(StoreError::ManyRows(0))?;
    let (running_from, running_to) = (running.int(0)?, running.int(1)?);
    let settled = gap.filter(|gap| running_from >= gap.running_to).map_or(position, |gap| gap.below);
    let mut sql = Sql { of_events: true, ..Sql::default() };
    sql.push("select e.sequence, e.request_id, e.state, e.at, coalesce(request.unlisted, 0), ");
    sql.push("cast(case when request.account is not null and ");
    sql.condition(condition)?;
    let (from, limit) = (sql.arg(position), sql.arg(EVENTS_PER_BATCH));
    sql.push(
        " then 1 else 0 end as bigint) from request_event e left join request on request.request_id = e.request_id",
    );
    sql.push(&format!(" where e.sequence > {from} order by e.sequence limit {limit}"));
    let rows = tx.rows_dynamic(&sql.text, &sql.args)?;
    let mut batch = Batch { steps: Vec::new(), position, gap: None, full: false };
    for row in &rows {
        let sequence = row.int(0)?;
        if sequence > settled && sequence != batch.position.saturating_add(1) {
            // Taken after the rows: whoever has a lower number began before the last of them was seen.
            let below = rows.last().map_or(Ok(sequence), |last| last.int(0))?;
            let seen = tx.row("select {running_to}", &[])?.map_or(Ok(running_to), |row| row.int(0))?;
            let open = gap.filter(|gap| running_from < gap.running_to);
            batch.gap = open.or(Some(Gap { below, running_to: seen }));
            return Ok(batch);
        }
        if row.int(4)? > 0 {
            batch.gap = gap.filter(|gap| batch.position < gap.below);
            return Ok(batch);
        }
        batch.position = sequence;
        if row.int(5)? == 1 {
            batch.steps.push(Step {
                sequence,
                request: row.request_id(1)?,
                state: State::parse(row.text(2)?).ok_or(unknown(2, "a state"))?,
                at: row.time(3)?,
            });
        }
    }
    batch.gap = gap.filter(|gap| batch.position < gap.below);
    batch.full = rows.len() == usize::from(EVENTS_PER_BATCH);
    Ok(batch)
}
