//! Quotes: many to a commit, and none harmed by its neighbour.

use std::sync::mpsc::channel;

use alloy_primitives::B256;
use futures::future::join_all;
use store::{QuoteRow, Store, StoreError};

use crate::database::{Database, put};

crate::on_both_engines! {
    a_quote_is_there_once_it_is_answered
    a_conflicting_quote_hurts_no_other
    many_quotes_share_a_commit
    a_full_queue_is_busy_at_once
}

fn quote(number: u16) -> QuoteRow {
    let mut id = [0u8; 32];
    id[..2].copy_from_slice(&number.to_be_bytes());
    QuoteRow {
        request_id: B256::from(id),
        order_id: (!number.is_multiple_of(3)).then(|| B256::from(id)),
        created_at: 1_790_000_000_000,
        expires_at: 1_790_000_030_000,
        body: format!("{{\"number\":{number}}}"),
    }
}

async fn stored(store: &Store) -> Result<i64, StoreError> {
    store.read(|tx| tx.row("select count(*) from quote", &[])?.ok_or(StoreError::ManyRows(0))?.int(0)).await
}

async fn a_quote_is_there_once_it_is_answered(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    for number in 0..3 {
        store.write_quote(quote(number)).await?;
        let expected = quote(number);
        let row = store
            .read(move |tx| {
                let sql = "select order_id, created_at, expires_at, body from quote where request_id = $1";
                tx.row(sql, &[expected.request_id.into()])?.ok_or(StoreError::ManyRows(0))
            })
            .await
            .map_err(anyhow::Error::from)?;
        let expected = quote(number);
        assert_eq!(row.opt_b256(0)?, expected.order_id);
        assert_eq!((row.int(1)?, row.int(2)?), (expected.created_at, expected.expires_at));
        assert_eq!(row.text(3)?, expected.body);
    }
    Ok(())
}

async fn a_conflicting_quote_hurts_no_other(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    store.write_quote(quote(500)).await?;
    let results = join_all((450..600).map(|number| store.write_quote(quote(number)))).await;
    for (number, result) in (450..600).zip(results) {
        assert_eq!(result.is_err(), number == 500, "quote {number}: {result:?}");
    }
    assert_eq!(stored(&store).await?, 150);
    Ok(())
}

async fn many_quotes_share_a_commit(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let before = store.stats();
    let results = join_all((0..1000).map(|number| store.write_quote(quote(number)))).await;
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    let after = store.stats();
    assert_eq!(after.quotes - before.quotes, 1000);
    let commits = after.commits - before.commits;
    assert!(commits < 250, "{commits} commits");
    assert_eq!(stored(&store).await?, 1000);
    Ok(())
}

/// The queue is blocked: by a slow unit on SQLite, by a locked table on Postgres.
async fn a_full_queue_is_busy_at_once(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let sqlite = store.is_sqlite();
    let slow = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .write(move |tx| -> Result<(), StoreError> {
                    if !sqlite {
                        tx.execute("lock table quote in access exclusive mode", &[])?;
                    }
                    let _ = begun.send(());
                    let _ = may_go.lock().unwrap().recv();
                    Ok(())
                })
                .await
        }
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    let quotes: Vec<_> = (0..6000)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.write_quote(quote(number)).await })
        })
        .collect();
    // Quotes that found no room are answered while the others still wait.
    while quotes.iter().filter(|quote| quote.is_finished()).count() < 6000 - 4096 - 256 {
        tokio::task::yield_now().await;
    }
    if sqlite {
        // Money is waiting too, and is not refused.
        let money = put(&store, 1, 1);
        go.send(())?;
        money.await?;
    } else {
        go.send(())?;
    }
    slow.await??;
    let (mut written, mut busy) = (0, 0);
    for quote in quotes {
        match quote.await? {
            Ok(()) => written += 1,
            Err(StoreError::Busy) => busy += 1,
            Err(other) => return Err(other.into()),
        }
    }
    assert_eq!(written + busy, 6000);
    assert!(busy >= 6000 - 4096 - 256, "{busy} busy");
    assert_eq!(stored(&store).await?, written);
    Ok(())
}

#[tokio::test]
async fn a_disk_that_is_low_refuses_quotes_and_takes_money() -> anyhow::Result<()> {
    let mut database = crate::database::sqlite().await?;
    database.options.min_free_bytes = u64::MAX;
    let store = database.open().await?;
    let error = store.write_quote(quote(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::DiskLow), "{error}");
    put(&store, 1, 10).await?;
    Ok(())
}
