//! Units of work: commits, rollbacks, and the units that share them.

use std::sync::Arc;
use std::sync::mpsc::channel;

use futures::future::join_all;
use store::{Store, StoreError, Tx};

use crate::database::{Database, coins, jars, put};

crate::on_both_engines! {
    a_write_is_there_once_it_is_answered
    a_failing_unit_rolls_back_alone
    a_broken_statement_is_not_survived
    a_unit_sees_its_own_writes_and_returns_what_it_likes
    conflicting_keys_are_seen_without_an_error
    a_limit_holds_among_many_writers
    a_read_still_holds_at_the_commit
    a_caller_that_hangs_up_undoes_nothing
    closing_finishes_what_was_queued
    a_unit_that_holds_the_last_handle_does_not_hang
}

#[derive(Debug, PartialEq, thiserror::Error)]
enum Refused {
    #[error("refused")]
    OnPurpose,
    #[error("{0}")]
    Store(String),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

async fn a_write_is_there_once_it_is_answered(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    assert_eq!(coins(&store, 1).await?, Some(10));
    assert_eq!(coins(&store, 2).await?, None);
    Ok(())
}

async fn a_failing_unit_rolls_back_alone(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let units = (0..40i64).map(|id| {
        store.write(move |tx| {
            tx.execute("insert into jar (id, coins) values ($1, 1)", &[id.into()])?;
            if id % 4 == 0 { Err(Refused::OnPurpose) } else { Ok(()) }
        })
    });
    for (id, result) in join_all(units).await.into_iter().enumerate() {
        let expected = if id % 4 == 0 { Err(Refused::OnPurpose) } else { Ok(()) };
        assert_eq!(result, expected, "unit {id}");
    }
    assert_eq!(jars(&store).await?, 30);
    assert_eq!(coins(&store, 4).await?, None);
    Ok(())
}

async fn a_broken_statement_is_not_survived(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    let carries_on = store.write(|tx: &mut Tx<'_>| -> Result<(), StoreError> {
        tx.execute("update jar set coins = 11 where id = 1", &[])?;
        let _ = tx.execute("insert into jar (id, coins) values (1, 0)", &[]);
        Ok(())
    });
    let neighbour = put(&store, 2, 20);
    let (carried_on, neighbour) = futures::join!(carries_on, neighbour);
    assert!(matches!(carried_on, Err(StoreError::Swallowed)), "{carried_on:?}");
    neighbour?;
    assert_eq!(coins(&store, 1).await?, Some(10));
    assert_eq!(coins(&store, 2).await?, Some(20));

    let error = put(&store, 1, 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Sqlite(_) | StoreError::Postgres(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("(1)"), "the key is not printed: {error:?}");
    Ok(())
}

async fn a_unit_sees_its_own_writes_and_returns_what_it_likes(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let seen = store
        .write(|tx| -> Result<Vec<i64>, StoreError> {
            tx.execute("insert into jar (id, coins) values (1, 10), (2, 20)", &[])?;
            assert_eq!(tx.execute("update jar set coins = coins + $1", &[1.into()])?, 2);
            let rows = tx.rows("select coins from jar order by id {for_update}", &[])?;
            rows.iter().map(|row| row.int(0)).collect()
        })
        .await?;
    assert_eq!(seen, [11, 21]);
    Ok(())
}

async fn conflicting_keys_are_seen_without_an_error(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let insert = || {
        store.write(|tx| -> Result<bool, StoreError> {
            let row = tx.row(
                "insert into jar (id, coins) values ($1, $2) on conflict do nothing returning id",
                &[7.into(), 1.into()],
            )?;
            Ok(row.is_some())
        })
    };
    let fresh = join_all((0..20).map(|_| insert())).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(fresh.iter().filter(|fresh| **fresh).count(), 1);
    Ok(())
}

async fn take_one(store: &Store) -> Result<bool, StoreError> {
    let take = "update jar set coins = coins - 1 where id = 1 and coins >= 1 returning coins";
    store.write(move |tx| Ok::<_, StoreError>(tx.row(take, &[])?.is_some())).await
}

async fn a_limit_holds_among_many_writers(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    put(&store, 1, 50).await?;
    let taken = join_all((0..80).map(|_| take_one(&store))).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 50);
    assert_eq!(coins(&store, 1).await?, Some(0));
    Ok(())
}

/// Units that read and then write without a lock: on Postgres they conflict and run again until no update is lost.
async fn a_read_still_holds_at_the_commit(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    put(&store, 1, 0).await?;
    let add_one = || {
        store.write(|tx| -> Result<(), StoreError> {
            let row = tx.row("select coins from jar where id = 1", &[])?.ok_or(StoreError::ManyRows(0))?;
            tx.execute("update jar set coins = $1 where id = 1", &[(row.int(0)? + 1).into()])?;
            Ok(())
        })
    };
    join_all((0..120).map(|_| add_one())).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    assert_eq!(coins(&store, 1).await?, Some(120));
    assert_eq!(store.is_sqlite(), store.stats().retries == 0);
    Ok(())
}

async fn a_caller_that_hangs_up_undoes_nothing(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Arc::new(std::sync::Mutex::new(may_go));
    let caller = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .write(move |tx| -> Result<(), StoreError> {
                    begun.send(()).unwrap();
                    may_go.lock().unwrap().recv().unwrap();
                    tx.execute("insert into jar (id, coins) values (1, 10)", &[])?;
                    Ok(())
                })
                .await
        }
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go.send(())?;
    store.close().await;
    let store = database.open().await?;
    assert_eq!(coins(&store, 1).await?, Some(10));
    Ok(())
}

async fn closing_finishes_what_was_queued(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let callers: Vec<_> = (0..100)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { put(&store, id, 1).await })
        })
        .collect();
    // Each caller has its handle until it is answered, so closing waits for all of them.
    store.close().await;
    for caller in callers {
        caller.await??;
    }
    let store = database.open().await?;
    assert_eq!(jars(&store).await?, 100);
    Ok(())
}

async fn a_unit_that_holds_the_last_handle_does_not_hang(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let held = store.clone();
    let write = store.write(move |tx| -> Result<(), StoreError> {
        let _ = held.is_sqlite();
        tx.execute("insert into jar (id, coins) values (1, 10)", &[])?;
        Ok(())
    });
    write.await?;
    store.close().await;
    let store = database.open().await?;
    assert_eq!(coins(&store, 1).await?, Some(10));
    Ok(())
}

/// Many units wait behind a slow one; they go in a few commits, not in one each.
#[tokio::test]
async fn waiting_units_share_commits() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    let store = database.open().await?;
    let before = store.stats();
    let (go, may_go) = channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let slow = store.write(move |_| -> Result<(), StoreError> {
        let _ = may_go.lock().unwrap().recv();
        Ok(())
    });
    let many = join_all((0..640).map(|id| put(&store, id, 1)));
    // The futures are polled in order, so all are queued behind the slow one when it is released.
    let (slow, many, ()) = futures::join!(slow, many, async move { drop(go) });
    slow?;
    many.into_iter().collect::<Result<Vec<()>, _>>()?;
    let after = store.stats();
    assert_eq!(after.units - before.units, 641);
    let commits = after.commits - before.commits;
    // Ten full batches after the slow one; a loaded machine ends some of them by time.
    assert!((11..200).contains(&commits), "{commits} commits");
    assert_eq!(jars(&store).await?, 640);
    Ok(())
}

/// SQLite rolls back the whole transaction when the disk is full, so the others of the batch run again without the
/// culprit.
#[tokio::test]
async fn a_full_disk_fails_only_what_does_not_fit() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    let store = database.open().await?;
    let (go, may_go) = channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let slow = store.write(move |tx| -> Result<(), StoreError> {
        let pages = tx.row("pragma page_count", &[])?.ok_or(StoreError::ManyRows(0))?.int(0)?;
        tx.rows_dynamic(&format!("pragma max_page_count = {}", pages + 8), &[])?;
        let _ = may_go.lock().unwrap().recv();
        Ok(())
    });
    let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = runs.clone();
    let before = store.write(move |tx| -> Result<(), StoreError> {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        tx.execute("insert into jar (id, coins) values (1, 10)", &[])?;
        Ok(())
    });
    let large = store.write(|tx| {
        let body = "x".repeat(1024 * 1024);
        let sql = "insert into quote (request_id, created_at, expires_at, body) values ($1, 1, 2, $2)";
        tx.execute(sql, &[vec![1u8].into(), body.into()])
    });
    let after = put(&store, 2, 20);
    let (slow, before, large, after, ()) = futures::join!(slow, before, large, after, async move { drop(go) });
    slow?;
    before?;
    after?;
    match large.unwrap_err() {
        StoreError::Sqlite(error) => assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull)),
        other => panic!("{other:?}"),
    }
    // Once with the batch and once alone, unless the machine stalled between them and each had its own batch.
    assert!((1..=2).contains(&runs.load(std::sync::atomic::Ordering::SeqCst)));
    assert_eq!(coins(&store, 1).await?, Some(10));
    assert_eq!(coins(&store, 2).await?, Some(20));
    Ok(())
}

#[tokio::test]
async fn a_closed_database_is_one_file() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    store.close().await;
    let path = std::path::PathBuf::from(database.url.trim_start_matches("sqlite:"));
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap())?.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(left.len(), 1, "{left:?}");
    Ok(())
}
