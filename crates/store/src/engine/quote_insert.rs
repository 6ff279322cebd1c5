//! Quotes, inserted many at a time.
//!
//! On Postgres several rows share a statement, and with it a round trip. The statement comes in a few fixed sizes, so
//! that each stays prepared. On SQLite each row has its own statement: SQLite journals the changes of a multi-row
//! statement, soon in a file, for the case that one of its rows fails.

use std::mem;
use std::sync::LazyLock;

use alloy_primitives::B256;
use domain::ids::OrderId;
use domain::quote::Quote;
use domain::time::Timestamp;
use tokio::sync::oneshot;

use crate::{StoreError, Tx, Value, stored_quote};

/// A quote as it is stored, until something happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRow {
    pub request_id: B256,
    /// Absent where the request has no order of the protocol.
    pub order_id: Option<B256>,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Milliseconds since the Unix epoch; pruned some time after.
    pub expires_at: i64,
    pub body: String,
}

impl QuoteRow {
    /// A quote without an order is found by its own id, which nothing can be deposited under.
    pub fn new(quote: &Quote, order_id: Option<OrderId>, expires_at: Timestamp) -> Self {
        Self {
            request_id: quote.id.0,
            order_id: Some(order_id.map_or(quote.id.0, |id| id.0)),
            created_at: quote.created_at.millis(),
            expires_at: expires_at.millis(),
            body: stored_quote::write(quote),
        }
    }
}

/// Quotes that share one commit at most.
pub(crate) const QUOTES_PER_BATCH: usize = 256;

/// Largest first. Any number of quotes is a sum of these.
static INSERTS: LazyLock<[(usize, String); 7]> =
    LazyLock::new(|| [64, 32, 16, 8, 4, 2, 1].map(|rows| (rows, insert(rows))));

const COLUMNS: usize = 5;

fn insert(rows: usize) -> String {
    let row = |row: usize| {
        let first = row * COLUMNS;
        format!("(${}, ${}, ${}, ${}, ${})", first + 1, first + 2, first + 3, first + 4, first + 5)
    };
    let rows = (0..rows).map(row).collect::<Vec<_>>().join(", ");
    format!("insert into quote (request_id, order_id, created_at, expires_at, body) values {rows}")
}

/// The number of `waiting` quotes that the next statement takes.
pub(crate) fn next_chunk(waiting: usize) -> usize {
    INSERTS.iter().map(|(rows, _)| *rows).find(|rows| *rows <= waiting).unwrap_or(0)
}

/// Writes one quote.
pub(crate) fn insert_one(tx: &mut Tx<'_>, PendingQuote { quote, .. }: &mut PendingQuote) -> Result<(), StoreError> {
    let sql = statement(1)?;
    // The text is lent to the statement, which would need a copy of its own.
    let args: [Value; COLUMNS] = [
        quote.request_id.into(),
        quote.order_id.into(),
        Value::Int(quote.created_at),
        Value::Int(quote.expires_at),
        Value::Text(mem::take(&mut quote.body)),
    ];
    let inserted = tx.execute(sql, &args);
    let [.., body] = args;
    if let Value::Text(body) = body {
        quote.body = body;
    }
    inserted.map(drop)
}

fn statement(rows: usize) -> Result<&'static str, StoreError> {
    let found = INSERTS.iter().find(|(size, _)| *size == rows);
    found.map(|(_, sql)| sql.as_str()).ok_or(StoreError::ManyRows(rows))
}

/// Writes as many quotes as [`next_chunk`] gave. All of them are in or none is.
pub(crate) fn insert_chunk(tx: &mut Tx<'_>, quotes: &[PendingQuote]) -> Result<(), StoreError> {
    let sql = statement(quotes.len())?;
    let mut args = Vec::with_capacity(quotes.len() * COLUMNS);
    for PendingQuote { quote, .. } in quotes {
        args.push(quote.request_id.into());
        args.push(quote.order_id.into());
        args.push(Value::Int(quote.created_at));
        args.push(Value::Int(quote.expires_at));
        args.push(Value::from(&quote.body));
    }
    tx.execute(sql, &args).map(drop)
}

/// A quote on its way through the queue.
pub(crate) struct PendingQuote {
    quote: QuoteRow,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

impl PendingQuote {
    pub(crate) fn new(quote: QuoteRow, reply: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { quote, reply }
    }

    pub(crate) fn answer(self, ended: Result<(), StoreError>) {
        // The caller may have hung up, which undoes nothing.
        let _ = self.reply.send(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_quotes_is_cut_into_prepared_sizes() {
        for (waiting, chunk) in [(0, 0), (1, 1), (3, 2), (4, 4), (15, 8), (63, 32), (64, 64), (256, 64)] {
            assert_eq!(next_chunk(waiting), chunk, "{waiting}");
        }
    }

    #[test]
    fn parameters_are_numbered_through() {
        let sql = insert(4);
        assert!(sql.contains("values ($1, $2, $3, $4, $5), ($6,"), "{sql}");
        assert!(sql.ends_with("$20)"), "{sql}");
    }
}
