//! The event log of each request: state, rule and the values the rule used.

use domain::ids::RequestId;
use domain::request::State;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

/// Appends an event. `figures` is a short JSON object of the rule's inputs.
pub fn append(
    tx: &mut Tx<'_>,
    request: RequestId,
    state: State,
    rule: &str,
    figures: &serde_json::Value,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into request_event (request_id, state, rule, figures, at) values ($1, $2, $3, $4, $5)",
        &[request.0.into(), state.as_str().into(), rule.into(), figures.to_string().into(), now.millis().into()],
    )?;
    Ok(())
}

/// The rules applied to a request, in order.
pub fn rules(tx: &mut Tx<'_>, request: RequestId) -> Result<Vec<(String, String)>, StoreError> {
    tx.rows("select state, rule from request_event where request_id = $1 order by sequence", &[request.0.into()])?
        .iter()
        .map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))
        .collect()
}

/// True if the rule was ever applied to the request.
pub fn has(tx: &mut Tx<'_>, request: RequestId, rule: &str) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from request_event where request_id = $1 and rule = $2 limit 1",
        &[request.0.into(), rule.into()],
    )?;
    Ok(row.is_some())
}

/// True if an event that was posted has the hash of a deposit.
pub fn has_told_deposit(tx: &mut Tx<'_>, request: RequestId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from request_event where request_id = $1 and posted is not null and posted not like $2 limit 1",
        &[request.0.into(), "%\"in_txs\":[]%".into()],
    )?;
    Ok(row.is_some())
}
