//! Migrations: applied once, and never guessed at.

use store::{Store, StoreError};

use crate::database::Database;

crate::on_both_engines! {
    migrating_twice_changes_nothing
    an_empty_database_is_refused_until_it_is_migrated
    a_newer_schema_is_refused
}

async fn migrating_twice_changes_nothing(database: Database) -> anyhow::Result<()> {
    let first = Store::migrate(&database.options)?;
    assert_eq!(first.first(), Some(&"0001_init"));
    assert_eq!(Store::migrate(&database.options)?, Vec::<&str>::new());
    Ok(())
}

async fn an_empty_database_is_refused_until_it_is_migrated(database: Database) -> anyhow::Result<()> {
    let error = Store::open(&database.options).unwrap_err();
    assert!(matches!(error, StoreError::Missing(_) | StoreError::SchemaOlder { found: 0, .. }), "{error}");
    assert!(error.to_string().contains("causeway migrate"), "{error}");
    Store::migrate(&database.options)?;
    Store::open(&database.options)?;
    Ok(())
}

async fn a_newer_schema_is_refused(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    store
        .write(|tx| tx.execute("insert into schema_migration (version, name) values (9999, 'later')", &[]))
        .await
        .map_err(anyhow::Error::from)?;
    store.close().await;
    for error in [Store::open(&database.options).unwrap_err(), Store::migrate(&database.options).unwrap_err()] {
        assert!(matches!(error, StoreError::SchemaNewer { found: 9999, .. }), "{error}");
    }
    Ok(())
}
