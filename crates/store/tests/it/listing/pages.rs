//! Pages: each request once, whatever is inserted between them and however many share a key.

use std::collections::BTreeSet;

use domain::ids::RequestId;
use store::listing::{self, Column, Condition, Listing, Number, Sort};
use store::{Store, StoreError, Tx};

use super::seeds::{BEGIN, id, order, write};
use crate::database::Database;

crate::on_both_engines! {
    pages_show_each_request_once_while_others_are_inserted
    a_listing_that_takes_too_long_is_ended_and_delays_nobody
}

const REQUESTS: u32 = 10_000;
/// Many share a millisecond, and many a worth.
const TIES: u32 = 40;

/// Inserts requests with their facts, without quotes that anybody would read.
fn insert(tx: &mut Tx<'_>, from: u32, count: u32) -> Result<(), StoreError> {
    for n in from..from + count {
        let at = BEGIN + i64::from(n / TIES);
        tx.execute(
            "insert into request (request_id, order_id, state, quote, created_at, updated_at, account, origin_chain,
             amount_usd, unlisted) values ($1, $2, $3, '', $4, $5, $6, $7, $8, 0)",
            &[
                id(n).into(),
                order(n).into(),
                if n % 3 == 0 { "success" } else { "pending" }.into(),
                at.into(),
                (at + i64::from(n % 7)).into(),
                format!("0x{:040x}", n % 5).into(),
                i64::from(n % 2).into(),
                i64::from(n % TIES).into(),
            ],
        )?;
    }
    Ok(())
}

/// Walks a listing page by page; between two pages, others are inserted.
async fn walk(
    store: &Store,
    condition: &Condition,
    sort: Sort,
    limit: u16,
    next: &mut u32,
) -> Result<Vec<RequestId>, StoreError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let listing = Listing { condition: condition.clone(), sort, after, limit };
        let page = store.list(move |tx| listing::page(tx, &listing)).await?;
        let is_last = page.len() < usize::from(limit);
        after = page.last().copied();
        all.extend(page.into_iter().map(|position| position.id));
        if is_last {
            return Ok(all);
        }
        let from = *next;
        *next += 3;
        write(store, move |tx| insert(tx, from, 3)).await?;
    }
}

async fn pages_show_each_request_once_while_others_are_inserted(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    write(&store, |tx| insert(tx, 1, REQUESTS)).await?;
    let mut next = REQUESTS + 1;
    let some =
        Condition::Any(vec![Condition::is(Column::State, "success"), Condition::Is(Column::OriginChain, 1.into())]);
    let fits = |n: u32| n.is_multiple_of(3) || n % 2 == 1;
    for by in [Number::CreatedAt, Number::UpdatedAt, Number::AmountUsd] {
        for descending in [false, true] {
            let there = next;
            let all = walk(&store, &some, Sort { by, descending }, 97, &mut next).await?;
            let once: BTreeSet<RequestId> = all.iter().copied().collect();
            assert_eq!(once.len(), all.len(), "{by:?} {descending}: a request twice");
            let missed = (1..there).filter(|n| fits(*n) && !once.contains(&id(*n))).count();
            assert_eq!(missed, 0, "{by:?} {descending}: requests that were there from the beginning");
            let matching: BTreeSet<RequestId> = (1..next).filter(|n| fits(*n)).map(id).collect();
            assert!(once.is_subset(&matching), "{by:?} {descending}: only what matches");
        }
    }
    Ok(())
}

/// Half a million combinations of rows take longer than the listing may.
async fn a_listing_that_takes_too_long_is_ended_and_delays_nobody(mut database: Database) -> anyhow::Result<()> {
    database.options.list_limit = std::time::Duration::from_millis(300);
    database.options.list_threads = 1;
    let store = database.open().await?;
    write(&store, |tx| insert(tx, 1, 2_000)).await?;
    let slow = store.list(|tx| {
        let sql =
            "select count(*) from request a, request b, request c where a.amount_usd + b.amount_usd = c.created_at";
        tx.rows(sql, &[]).map(drop)
    });
    let read = store.read(|tx| tx.rows("select count(*) from request", &[]).map(drop));
    let (slow, read) = tokio::join!(slow, read);
    let error: StoreError = slow.unwrap_err();
    let read: Result<(), StoreError> = read;
    assert!(read.is_ok() && matches!(error, StoreError::Timeout), "{error}");
    Ok(())
}
