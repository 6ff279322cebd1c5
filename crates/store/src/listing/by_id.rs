//! Requests that only somebody who knows their id finds: quotes that nobody has acted on, which are no requests yet,
//! and requests of a moment ago, whose facts are not written yet.

use alloy_primitives::B256;
use domain::catalog::Catalog;
use domain::facts::Facts;

use super::condition::Condition;
use super::fill_millis;
use super::fits::Facing;
use super::page::{Position, Sort};
use super::record::{Listed, listed};
use crate::requests;
use crate::{StoreError, Tx};

/// Those with one of these ids as their request's or their order's, where the condition holds for them. Each with its
/// place in the order of the listing.
pub fn by_id(
    tx: &mut Tx<'_>,
    ids: &[B256],
    condition: &Condition,
    sort: Sort,
    catalog: &Catalog,
) -> Result<Vec<(Position, Listed)>, StoreError> {
    let mut found: Vec<(Position, Listed)> = Vec::new();
    for id in ids {
        let Some(listed) = find(tx, *id)? else { continue };
        if found.iter().any(|(position, _)| position.id == listed.request.id) {
            continue;
        }
        let facts = Facts::of(&listed.request.quote, catalog);
        let fill_millis = fill_millis(tx, listed.request.id, facts.same_chain)?;
        let it = Facing { listed: &listed, facts: &facts, fill_millis };
        let key = it.number(sort.by);
        if let (true, Some(key)) = (it.fits(condition), key) {
            found.push((Position { key, id: listed.request.id }, listed));
        }
    }
    Ok(found)
}

fn find(tx: &mut Tx<'_>, id: B256) -> Result<Option<Listed>, StoreError> {
    let quote = tx.row("select request_id from quote where request_id = $1 or order_id = $1", &[id.into()])?;
    if let Some(row) = quote {
        return Ok(requests::find(tx, row.request_id(0)?)?.map(Listed::unpaid));
    }
    let begun = tx.rows(
        "select request_id from request where (request_id = $1 or order_id = $1) and account is null limit 1",
        &[id.into()],
    )?;
    begun.first().map_or(Ok(None), |row| listed(tx, row.request_id(0)?))
}
