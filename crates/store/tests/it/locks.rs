//! One process per SQLite file.

use store::{Store, StoreError, lock};

#[tokio::test]
async fn the_lock_of_a_file_is_held_by_one() -> anyhow::Result<()> {
    let database = crate::database::sqlite().await?;
    Store::migrate(&database.options)?;
    let held = lock(&database.options)?;
    assert!(held.is_some());
    let error = lock(&database.options).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error}");
    assert!(error.to_string().contains("another causeway serve is running"), "{error}");
    drop(held);
    assert!(lock(&database.options)?.is_some());
    Ok(())
}
