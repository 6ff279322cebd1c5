//! Listings: the requests that match a condition, page by page.
//!
//! The columns they filter by are written by [`refresh`], off the way from deposit to fill, from the request's quote and
//! its transactions.

mod condition;
mod page;
mod record;
mod unpaid;

use domain::catalog::Catalog;
use domain::facts::{Facts, Feature};
use domain::ids::RequestId;
use domain::quote::Quote;

pub use condition::{Column, Condition, Number, TxRole};
pub use page::{Listing, Position, Sort, count, page};
pub use record::{DepositPaid, Listed, PaymentMade, listed};
pub use unpaid::unpaid;

use crate::{StoreError, Tx, Value, stored_quote};

/// True if the facts of a request are missing or no longer true.
pub fn any_unlisted(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    Ok(!tx.rows("select 1 from request where unlisted = 1 limit 1", &[])?.is_empty())
}

/// Writes the facts of requests that are new or have ended. Returns how many there were: fewer than `most` means that
/// none is left.
pub fn refresh(tx: &mut Tx<'_>, catalog: &Catalog, most: u16) -> Result<usize, StoreError> {
    let rows = tx.rows("select request_id, quote from request where unlisted = 1 limit $1", &[most.into()])?;
    for row in &rows {
        let id = row.request_id(0)?;
        match stored_quote::of(row, 1) {
            Ok(quote) => put(tx, id, &quote, catalog)?,
            // A quote of a newer build is listed by that build.
            Err(_) => {
                tx.execute("update request set unlisted = 0 where request_id = $1", &[id.into()])?;
            }
        }
    }
    Ok(rows.len())
}

fn put(tx: &mut Tx<'_>, id: RequestId, quote: &Quote, catalog: &Catalog) -> Result<(), StoreError> {
    let facts = Facts::of(quote, catalog);
    let fast = tx.row("select attempt from fast_fill where request_id = $1 and voided = 0", &[id.into()])?;
    let fast = fast.map(|_| Feature::FastFill);
    let features = facts.features.iter().chain(&fast).fold(0, |bits, feature| bits | feature.bit());
    let fill_millis = fill_millis(tx, id)?;
    tx.execute(
        "update request set account = $2, recipient = $3, origin_chain = $4, destination_chain = $5, currency_in = $6,
         currency_out = $7, request_type = $8, key_id = $9, referrer = $10, amount_usd = $11, app_fees_usd = $12,
         features = $13, fill_millis = $14, unlisted = 0 where request_id = $1",
        &[
            id.into(),
            facts.user.into(),
            facts.recipient.into(),
            facts.origin.0.try_into()?,
            facts.destination.0.try_into()?,
            facts.currency_in.into(),
            facts.currency_out.into(),
            facts.request_type.as_str().into(),
            facts.key.map(|key| key.to_string()).into(),
            facts.referrer.into(),
            facts.amount.0.into(),
            facts.app_fees.0.into(),
            features.into(),
            fill_millis.into(),
        ],
    )?;
    Ok(())
}

/// From the user's first transaction to our last, where both are there.
fn fill_millis(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<i64>, StoreError> {
    let row = tx.row(
        "select min(case when direction = 'in' then block_time end), max(case when direction = 'out' then block_time end)
         from transaction_record where request_id = $1 and succeeded = 1 and gone = 0",
        &[Value::from(id)],
    )?;
    let Some(row) = row else { return Ok(None) };
    let (first, last) = (row.opt_int(0)?, row.opt_int(1)?);
    Ok(first.zip(last).map(|(first, last)| last.saturating_sub(first).max(0)))
}
