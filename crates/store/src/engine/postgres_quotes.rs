//! Quotes on Postgres: one thread, many rows per commit.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use super::measure::{Counts, quotes_queued};
use super::quote_insert::{PendingQuote, QUOTES_PER_BATCH, insert_chunk, next_chunk};
use super::watchdog::Waiting;
use crate::connection::Link;
use crate::error::Fault;
use crate::thread::spawn;
use crate::{StoreError, Tx};

pub(crate) fn start(
    mut link: Link,
    mut quotes: mpsc::Receiver<PendingQuote>,
    counts: Arc<Counts>,
    waiting: Waiting,
    running: watch::Sender<()>,
) -> Result<(), StoreError> {
    spawn("store-quotes", running, move || {
        while let Some(first) = quotes.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < QUOTES_PER_BATCH
                && let Ok(quote) = quotes.try_recv()
            {
                batch.push(quote);
            }
            quotes_queued(quotes.len());
            write(&mut link, batch, &counts, &waiting);
        }
    })
}

fn write(link: &mut Link, quotes: Vec<PendingQuote>, counts: &Counts, waiting: &Waiting) {
    match waiting.during(|| commit(link, &quotes, counts)) {
        // The commit may have happened: a retry would only conflict with its own rows.
        Err(StoreError::CommitUnknown) => answer(quotes, &Err(StoreError::CommitUnknown)),
        Err(_) if quotes.len() > 1 => {
            for quote in quotes {
                let result = waiting.during(|| commit(link, std::slice::from_ref(&quote), counts));
                quote.answer(result);
            }
        }
        result => answer(quotes, &result),
    }
}

fn answer(quotes: Vec<PendingQuote>, result: &Result<(), StoreError>) {
    for quote in quotes {
        quote.answer(result.clone());
    }
}

fn commit(link: &mut Link, quotes: &[PendingQuote], counts: &Counts) -> Result<(), StoreError> {
    let result = transact(link, quotes, counts);
    // A connection that broke while idle is detected here, before anything was written.
    if let Err((_, Some(Fault::Lost))) = &result {
        link.lose();
        return transact(link, quotes, counts).map_err(|(error, _)| error);
    }
    result.map_err(|(error, _)| error)
}

fn transact(link: &mut Link, quotes: &[PendingQuote], counts: &Counts) -> Result<(), (StoreError, Option<Fault>)> {
    let (client, statements) = link.connected().map_err(|error| (error, None))?;
    // One statement against unique keys: it needs no more isolation than the server's default.
    let transaction = client.transaction().map_err(|error| (error.into(), Some(Fault::Lost)))?;
    let mut tx = Tx::postgres(transaction, statements);
    let mut rest = quotes;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(next_chunk(rest.len()));
        insert_chunk(&mut tx, chunk).map_err(|error| (error, tx.fault()))?;
        rest = after;
    }
    let began = Instant::now();
    match tx.commit() {
        Ok(()) => {
            counts.committed(0, quotes.len(), began.elapsed());
            Ok(())
        }
        Err(error) if Fault::of(&error) == Fault::Lost => {
            link.lose();
            Err((StoreError::CommitUnknown, None))
        }
        Err(error) => Err((error.into(), None)),
    }
}
