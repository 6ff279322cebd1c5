//! One page of a listing, by keyset: the next page begins behind the last row of this one, whatever was inserted since.

use domain::ids::RequestId;

use super::condition::{Condition, Number, Sql};
use super::plan;
use crate::{Dialect, StoreError, Tx};

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
/// No index serves two columns that may each match. Such alternatives are asked one by one, each by an index of its
/// own: the first of all are among the first of each.
pub fn page(tx: &mut Tx<'_>, listing: &Listing) -> Result<Vec<Position>, StoreError> {
    let mut all = Vec::new();
    for condition in plan::alternatives(&listing.condition, listing.sort.by) {
        let sql = statement(listing, &condition)?;
        for row in tx.rows_dynamic(&sql.text, &sql.args)? {
            all.push(Position { id: row.request_id(0)?, key: row.int(1)? });
        }
    }
    all.sort_unstable();
    all.dedup();
    if listing.sort.descending {
        all.reverse();
    }
    all.truncate(listing.limit.into());
    Ok(all)
}

/// The steps by which the engine finds a page, a line each, with the indexes it takes. For tests and measurements.
pub fn steps(tx: &mut Tx<'_>, listing: &Listing) -> Result<Vec<String>, StoreError> {
    let (explain, column) = match tx.dialect() {
        Dialect::Sqlite => ("explain query plan ", 3),
        Dialect::Postgres => ("explain (costs off) ", 0),
    };
    let mut lines = Vec::new();
    for condition in plan::alternatives(&listing.condition, listing.sort.by) {
        let sql = statement(listing, &condition)?;
        for row in tx.rows_dynamic(&format!("{explain}{}", sql.text), &sql.args)? {
            lines.push(row.text(column)?.to_owned());
        }
    }
    Ok(lines)
}

fn statement(listing: &Listing, condition: &Condition) -> Result<Sql, StoreError> {
    let (key, descending) = (listing.sort.by.name(), listing.sort.descending);
    let mut sql = Sql::default();
    sql.push(&format!("select request.request_id, {key} from request where request.account is not null"));
    plan::conjunction(&mut sql, condition, listing.sort.by)?;
    if let Some(after) = listing.after {
        let (value, id) = (sql.arg(after.key), sql.arg(after.id));
        let sign = if descending { "<" } else { ">" };
        sql.push(&format!(" and ({key}, request.request_id) {sign} ({value}, {id})"));
    }
    let direction = if descending { "desc" } else { "asc" };
    let limit = sql.arg(listing.limit);
    sql.push(&format!(" order by {key} {direction}, request.request_id {direction} limit {limit}"));
    Ok(sql)
}

/// The number of all requests that match.
pub fn count(tx: &mut Tx<'_>, condition: &Condition) -> Result<u64, StoreError> {
    let mut sql = Sql::default();
    sql.push("select count(*) from request where request.account is not null and ");
    sql.condition(condition)?;
    let rows = tx.rows_dynamic(&sql.text, &sql.args)?;
    rows.first().map_or(Ok(0), |row| row.uint(0))
}
