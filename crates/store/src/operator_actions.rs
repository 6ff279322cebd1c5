//! Actions of operators in the dashboard: written before they are done, completed after.

use alloy_primitives::Address;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub at: Timestamp,
    pub account: Address,
    /// The name of the command.
    pub action: String,
    /// The request or chain that it was done to.
    pub subject: String,
    pub reason: String,
    /// None until it is done, and for good where the process died meanwhile.
    pub outcome: Option<String>,
}

/// Records an action that is about to be done, and returns its id.
pub fn begin(tx: &mut Tx<'_>, action: &Action) -> Result<i64, StoreError> {
    let row = tx.row(
        "insert into operator_action (at, account, action, subject, reason) values ($1, $2, $3, $4, $5)
         returning action_id",
        &[
            action.at.into(),
            action.account.into(),
            (&action.action).into(),
            (&action.subject).into(),
            (&action.reason).into(),
        ],
    )?;
    row.ok_or(StoreError::ManyRows(0))?.int(0)
}

/// Records how an action ended.
pub fn complete(tx: &mut Tx<'_>, id: i64, outcome: &str) -> Result<(), StoreError> {
    tx.execute("update operator_action set outcome = $2 where action_id = $1", &[id.into(), outcome.into()])?;
    Ok(())
}

/// The newest actions.
pub fn newest(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<Action>, StoreError> {
    let rows = tx.rows(
        "select at, account, action, subject, reason, outcome from operator_action order by action_id desc limit $1",
        &[limit.into()],
    )?;
    rows.iter()
        .map(|row| {
            Ok(Action {
                at: row.time(0)?,
                account: row.address(1)?,
                action: row.text(2)?.to_owned(),
                subject: row.text(3)?.to_owned(),
                reason: row.text(4)?.to_owned(),
                outcome: row.opt_text(5)?.map(str::to_owned),
            })
        })
        .collect()
}
