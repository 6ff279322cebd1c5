//! Saved views: filters of the dashboard's list of requests that an account keeps under a name.

use alloy_primitives::Address;
use domain::time::Timestamp;

use crate::{StoreError, Tx};

/// Views of one account. More are refused: a page shows all of them.
pub const MAX_VIEWS: u32 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedView {
    pub name: String,
    /// The filters as the query of an address.
    pub query: String,
}

/// Keeps a view, in place of one of the same name. False if the account has as many as it may have.
pub fn save(tx: &mut Tx<'_>, account: Address, view: &SavedView, now: Timestamp) -> Result<bool, StoreError> {
    let others = tx.row(
        "select count(*) from dashboard_view where account = $1 and name <> $2",
        &[account.into(), (&view.name).into()],
    )?;
    if others.map_or(Ok(0), |row| row.uint(0))? >= u64::from(MAX_VIEWS) {
        return Ok(false);
    }
    tx.execute(
        "insert into dashboard_view (account, name, query, created_at) values ($1, $2, $3, $4)
         on conflict (account, name) do update set query = excluded.query",
        &[account.into(), (&view.name).into(), (&view.query).into(), now.into()],
    )?;
    Ok(true)
}

/// The views of an account, the oldest first.
pub fn of(tx: &mut Tx<'_>, account: Address) -> Result<Vec<SavedView>, StoreError> {
    tx.rows(
        "select name, query from dashboard_view where account = $1 order by created_at, name limit $2",
        &[account.into(), MAX_VIEWS.into()],
    )?
    .iter()
    .map(|row| Ok(SavedView { name: row.text(0)?.to_owned(), query: row.text(1)?.to_owned() }))
    .collect()
}

/// Deletes a view of an account. One of another account stays.
pub fn delete(tx: &mut Tx<'_>, account: Address, name: &str) -> Result<(), StoreError> {
    tx.execute("delete from dashboard_view where account = $1 and name = $2", &[account.into(), name.into()])?;
    Ok(())
}
