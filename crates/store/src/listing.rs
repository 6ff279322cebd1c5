//! Listings: the requests that match a condition, page by page, and the events of those requests.
//!
//! The columns they filter by are written off the way from deposit to fill, from the request's quote and its
//! transactions: [`stale`] finds the requests that have changed since, and [`put`] writes the facts of one.

mod by_id;
mod condition;
mod fits;
mod page;
mod plan;
mod record;
mod stream;

use domain::catalog::Catalog;
use domain::facts::{Facts, Feature};
use domain::ids::RequestId;

pub use by_id::by_id;
pub use condition::{Column, Condition, Number, TxRole};
pub use page::{Listing, Position, Sort, count, page, steps};
pub use record::{DepositMissed, DepositPaid, Listed, PaymentMade, listed};
pub use stream::{Batch, Gap, Step, after, newest};

use crate::{StoreError, Tx, Value, stored_quote};

/// The facts of a request as they are now.
#[derive(Clone, Debug)]
pub struct Fresh {
    pub id: RequestId,
    /// The changes that they take into account.
    changes: i64,
    /// None for a quote that only a newer build reads, which also lists it.
    facts: Option<Facts>,
    features: i64,
    fill_millis: Option<i64>,
}

/// The facts of requests that have changed since theirs were written, at most so many.
pub fn stale(tx: &mut Tx<'_>, catalog: &Catalog, most: u16) -> Result<Vec<Fresh>, StoreError> {
    let rows =
        tx.rows("select request_id, unlisted, quote from request where unlisted > 0 limit $1", &[most.into()])?;
    let mut fresh = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, changes) = (row.request_id(0)?, row.int(1)?);
        let facts = stored_quote::of(row, 2).ok().map(|quote| Facts::of(&quote, catalog));
        let fast = tx.rows("select 1 from fast_fill where request_id = $1 and voided = 0 limit 1", &[id.into()])?;
        let fast = fast.first().map(|_| Feature::FastFill);
        let quoted = facts.iter().flat_map(|facts| &facts.features);
        let features = quoted.chain(&fast).fold(0, |bits, feature| bits | feature.bit());
        let same_chain = facts.as_ref().is_some_and(|facts| facts.same_chain);
        fresh.push(Fresh { id, changes, facts, features, fill_millis: fill_millis(tx, id, same_chain)? });
    }
    Ok(fresh)
}

/// Writes the facts of a request, unless it has changed again: then it is found once more.
pub fn put(tx: &mut Tx<'_>, fresh: &Fresh) -> Result<(), StoreError> {
    let Some(facts) = &fresh.facts else {
        tx.execute(
            "update request set unlisted = 0 where request_id = $1 and unlisted = $2",
            &[fresh.id.into(), fresh.changes.into()],
        )?;
        return Ok(());
    };
    tx.execute(
        "update request set account = $3, recipient = $4, origin_chain = $5, destination_chain = $6, currency_in = $7,
         currency_out = $8, request_type = $9, same_chain = $10, key_id = $11, referrer = $12, amount_usd = $13,
         app_fees_usd = $14, features = $15, fill_millis = $16, service_fees_usd = $17, unlisted = 0
         where request_id = $1 and unlisted = $2",
        &[
            fresh.id.into(),
            fresh.changes.into(),
            (&facts.user).into(),
            (&facts.recipient).into(),
            facts.origin.0.try_into()?,
            facts.destination.0.try_into()?,
            (&facts.currency_in).into(),
            (&facts.currency_out).into(),
            facts.request_type.as_str().into(),
            Value::Int(facts.same_chain.into()),
            facts.key.map(|key| key.to_string()).into(),
            facts.referrer.as_ref().into(),
            facts.amount.0.into(),
            facts.app_fees.0.into(),
            fresh.features.into(),
            fresh.fill_millis.into(),
            facts.service_fees.0.into(),
        ],
    )?;
    Ok(())
}

/// From the user's first transaction to the recipient's money: none on the same chain, where they are one. A refund is
/// no fill.
fn fill_millis(tx: &mut Tx<'_>, id: RequestId, same_chain: bool) -> Result<Option<i64>, StoreError> {
    let row = tx.row(
        "select min(case when t.direction = 'in' then t.block_time end),
         max(case when p.purpose = 'fill' then t.block_time end) from transaction_record t
         left join payment p on p.request_id = t.request_id and p.chain_id = t.chain_id
         and p.tx_hash = t.tx_hash where t.request_id = $1 and t.succeeded = 1 and t.gone = 0",
        &[Value::from(id)],
    )?;
    let Some(row) = row else { return Ok(None) };
    let (first, last) = (row.opt_int(0)?, row.opt_int(1)?);
    let last = if same_chain { first } else { last };
    Ok(first.zip(last).map(|(first, last)| last.saturating_sub(first).max(0)))
}
