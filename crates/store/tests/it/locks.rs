//! One worker per database.

use store::{Store, StoreError, lock};

use crate::database::Database;

crate::on_both_engines! {
    the_lock_is_held_by_one
}

async fn the_lock_is_held_by_one(database: Database) -> anyhow::Result<()> {
    Store::migrate(&database.options)?;
    let held = lock(&database.options)?;
    assert!(!held.is_lost());
    let error = lock(&database.options).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error}");
    assert!(error.to_string().contains("another causeway serve is running"), "{error}");
    drop(held);
    // A session ends a moment after its holder.
    loop {
        match lock(&database.options) {
            Ok(_) => return Ok(()),
            Err(StoreError::Locked(_)) => tokio::task::yield_now().await,
            Err(other) => return Err(other.into()),
        }
    }
}
