//! Audits that were run: when, how much they compared, and their findings.

use domain::time::Timestamp;

use crate::{StoreError, Tx};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRun {
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub compared: u64,
    /// Findings: zero is the good verdict.
    pub different: u64,
    /// The checks as JSON, as the command prints them.
    pub checks: String,
}

/// Runs that are kept. Older ones are deleted with the next: whoever needs them keeps the command's output.
const MAX_KEPT: i64 = 100;

pub fn record(tx: &mut Tx<'_>, run: &AuditRun) -> Result<(), StoreError> {
    let row = tx.row(
        "insert into audit_run (began_at, ended_at, compared, different, checks) values ($1, $2, $3, $4, $5)
         returning audit_id",
        &[
            run.began_at.into(),
            run.ended_at.into(),
            run.compared.try_into()?,
            run.different.try_into()?,
            (&run.checks).into(),
        ],
    )?;
    let id = row.ok_or(StoreError::ManyRows(0))?.int(0)?;
    tx.execute("delete from audit_run where audit_id <= $1", &[id.saturating_sub(MAX_KEPT).into()])?;
    Ok(())
}

/// The newest run.
pub fn last(tx: &mut Tx<'_>) -> Result<Option<AuditRun>, StoreError> {
    let row = tx.row(
        "select began_at, ended_at, compared, different, checks from audit_run order by audit_id desc limit 1",
        &[],
    )?;
    row.map(|row| {
        Ok(AuditRun {
            began_at: row.time(0)?,
            ended_at: row.time(1)?,
            compared: row.uint(2)?,
            different: row.uint(3)?,
            checks: row.text(4)?.to_owned(),
        })
    })
    .transpose()
}
