//! One page of a listing, by keyset: the next page begins behind the last row of this one, whatever was inserted since.

use domain::ids::RequestId;

use super::condition::{Condition, Number, Sql};
use crate::{StoreError, Tx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub by: Number,
    pub descending: bool,
}

/// A row's place in the order of a listing. The id decides between equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub key: i64,
    pub id: RequestId,
}

impl Sort {
    /// True if one place comes after another.
    pub fn is_after(self, place: Position, other: Position) -> bool {
        if self.descending { place < other } else { place > other }
    }
}

#[derive(Clone, Debug)]
pub struct Listing {
    pub condition: Condition,
    pub sort: Sort,
    pub after: Option<Position>,
    pub limit: u16,
}

/// The requests of one page, in order.
///
/// No index serves two columns that may each match. Such alternatives are asked one by one, each by an index of its own:
/// the first of all are among the first of each.
pub fn page(tx: &mut Tx<'_>, listing: &Listing) -> Result<Vec<Position>, StoreError> {
    let mut all = Vec::new();
    for condition in listing.condition.alternatives() {
        all.extend(one(tx, listing, &condition)?);
    }
    all.sort_unstable();
    all.dedup();
    if listing.sort.descending {
        all.reverse();
    }
    all.truncate(listing.limit.into());
    Ok(all)
}

fn one(tx: &mut Tx<'_>, listing: &Listing, condition: &Condition) -> Result<Vec<Position>, StoreError> {
    let (key, descending) = (listing.sort.by.name(), listing.sort.descending);
    let mut sql = Sql::default();
    sql.push(&format!("select request.request_id, {key} from request where request.account is not null and "));
    sql.condition(condition)?;
    if let Some(after) = listing.after {
        let (value, id) = (sql.arg(after.key), sql.arg(after.id));
        let sign = if descending { "<" } else { ">" };
        sql.push(&format!(" and ({key}, request.request_id) {sign} ({value}, {id})"));
    }
    let direction = if descending { "desc" } else { "asc" };
    let limit = sql.arg(listing.limit);
    sql.push(&format!(" order by {key} {direction}, request.request_id {direction} limit {limit}"));
    let rows = tx.rows_dynamic(&sql.text, &sql.args)?;
    rows.iter().map(|row| Ok(Position { id: row.request_id(0)?, key: row.int(1)? })).collect()
}

/// The number of all requests that match.
pub fn count(tx: &mut Tx<'_>, condition: &Condition) -> Result<u64, StoreError> {
    let mut sql = Sql::default();
    sql.push("select count(*) from request where request.account is not null and ");
    sql.condition(condition)?;
    let rows = tx.rows_dynamic(&sql.text, &sql.args)?;
    rows.first().map_or(Ok(0), |row| row.uint(0))
}
