//! A fresh database for each test.

use store::{Options, Store, StoreError};
use tempfile::TempDir;

pub struct Database {
    pub url: String,
    pub options: Options,
    _dir: Option<TempDir>,
}

impl Database {
    /// A migrated, open store, with a table to play with.
    pub async fn open(&self) -> anyhow::Result<Store> {
        Store::migrate(&self.options)?;
        let store = Store::open(&self.options)?;
        store
            .write(|tx| {
                tx.execute("create table if not exists jar (id bigint primary key, coins bigint not null)", &[])
            })
            .await
            .map_err(anyhow::Error::from)?;
        Ok(store)
    }
}

pub async fn sqlite() -> anyhow::Result<Database> {
    let dir = devnet::scratch("causeway-store-")?;
    let url = format!("sqlite:{}", dir.path().join("causeway.db").display());
    Ok(Database { options: Options::new(url.parse()?), url, _dir: Some(dir) })
}

pub async fn postgres() -> anyhow::Result<Database> {
    let url = devnet::Postgres::shared().await.fresh_database().await?.to_string();
    Ok(Database { options: Options::new(url.parse()?), url, _dir: None })
}

pub async fn put(store: &Store, id: i64, coins: i64) -> Result<(), StoreError> {
    store
        .write(move |tx| {
            tx.execute("insert into jar (id, coins) values ($1, $2)", &[id.into(), coins.into()])?;
            Ok(())
        })
        .await
}

pub async fn coins(store: &Store, id: i64) -> Result<Option<i64>, StoreError> {
    store
        .read(move |tx| {
            let row = tx.row("select coins from jar where id = $1", &[id.into()])?;
            row.map(|row| row.int(0)).transpose()
        })
        .await
}

pub async fn jars(store: &Store) -> Result<i64, StoreError> {
    store.read(|tx| tx.row("select count(*) from jar", &[])?.ok_or(StoreError::ManyRows(0))?.int(0)).await
}
