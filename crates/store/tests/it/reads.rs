//! Reads: bounded, consistent, and without effect.

use std::time::Duration;

use store::{Store, StoreError};

use crate::database::{Database, coins, put};

crate::on_both_engines! {
    a_read_cannot_write
    a_slow_read_is_stopped
    a_read_sees_one_moment
    an_audit_reads_one_moment_without_a_limit
}

async fn a_read_cannot_write(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let result = store.read(|tx| tx.execute("insert into jar (id, coins) values (1, 1)", &[])).await;
    assert!(result.is_err(), "{result:?}");
    assert_eq!(coins(&store, 1).await?, None);
    Ok(())
}

async fn a_slow_read_is_stopped(mut database: Database) -> anyhow::Result<()> {
    database.options.read_limit = Duration::from_millis(300);
    database.options.reader_threads = 1;
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    let endless = "with recursive step (n) as (select 1 union all select n + 1 from step where n < 2000000000) \
        select count(*) from step";
    let error = store.read(move |tx| tx.row(endless, &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::Timeout), "{error}");
    // The one reader is free again, though perhaps not at once.
    let mut attempts = 0;
    loop {
        match coins(&store, 1).await {
            Ok(found) => break assert_eq!(found, Some(10)),
            Err(StoreError::Timeout) if attempts < 20 => attempts += 1,
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

async fn a_read_sees_one_moment(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let read = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .read(move |tx| -> Result<_, StoreError> {
                    let mut look = || {
                        let row = tx.row("select coins from jar where id = 1", &[])?;
                        row.ok_or(StoreError::ManyRows(0))?.int(0)
                    };
                    let before = look()?;
                    let _ = begun.send(());
                    let _ = may_go.lock().unwrap().recv();
                    Ok((before, look()?))
                })
                .await
        }
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    store.write(|tx| tx.execute("update jar set coins = 11 where id = 1", &[])).await.map_err(anyhow::Error::from)?;
    go.send(())?;
    assert_eq!(read.await??, (10, 10));
    assert_eq!(coins(&store, 1).await?, Some(11));
    Ok(())
}

async fn an_audit_reads_one_moment_without_a_limit(mut database: Database) -> anyhow::Result<()> {
    database.options.read_limit = Duration::from_millis(1);
    let store = database.open().await?;
    put(&store, 1, 10).await?;
    let options = database.options.clone();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let audit = tokio::task::spawn_blocking(move || {
        Store::snapshot(&options, move |tx| -> Result<_, StoreError> {
            let before = tx.rows("select coins from jar", &[])?;
            let _ = begun.send(());
            let _ = may_go.recv();
            Ok((before, tx.rows("select coins from jar", &[])?))
        })
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await??;
    put(&store, 2, 20).await?;
    go.send(())?;
    let (before, after) = audit.await??;
    assert_eq!(before, after);
    assert_eq!(before.len(), 1);

    // A snapshot also works from a thread that drives a runtime.
    let written = Store::snapshot(&database.options, |tx| tx.execute("delete from jar", &[]));
    assert!(written.is_err(), "{written:?}");
    Ok(())
}
