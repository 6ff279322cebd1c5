//! The format of a stored quote, with its version.
//!
//! A row says by `v` which layout it has; rows from before there was one have none, and are version 1. A layout that
//! rows exist in is never changed: another one is another module with another number, written from then on, and the
//! older is still read. The structs here mirror the rows, not the rules, so `domain` may rename what it likes.
//!
//! Every quote is a row, at the highest rate of all that is stored, so its text is kept short: two of them fit a page
//! of SQLite, also with pools on both sides or a sponsor. A member that is nothing is left out, and one that always has
//! the same members is a list of them. Rows that name them are read all the same. A list keeps its order and its length
//! for ever: another order would be read as other figures, and an older build refuses a longer one.

use domain::quote::Quote;
use serde::Deserialize;

use crate::columns::unknown;
use crate::{Row, StoreError};

#[cfg(test)]
mod tests;
pub(crate) mod text;
pub(crate) mod v1;

/// The text of a quote's row.
pub(crate) fn write(quote: &Quote) -> String {
    text::to_json(&v1::Quote::from(quote))
}

/// The quote in a column.
pub(crate) fn of(row: &Row, index: usize) -> Result<Quote, StoreError> {
    let text = row.text(index)?;
    match version(text) {
        Some(v1::VERSION) => v1::read_quote(text).ok_or(unknown(index, "a quote")),
        Some(found) => Err(StoreError::FormatNewer { found, known: v1::VERSION }),
        None => Err(unknown(index, "a quote")),
    }
}

/// The version of a row, of whichever layout. None where it is no row at all.
pub(crate) fn version(text: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(default = "v1::version")]
        v: u32,
    }
    serde_json::from_str(text).ok().map(|Versioned { v }| v)
}
