//! Long reads, for audits: on a connection of their own, from one snapshot, and without a time limit.

use postgres::IsolationLevel;

use super::Store;
use crate::connection::{Access, Link, Session, open_sqlite};
use crate::options::Route;
use crate::thread::off_runtime;
use crate::tx::Texts;
use crate::{DatabaseUrl, Options, StoreError, Tx, migrate};

impl Store {
    /// Reads from one snapshot for as long as it takes, and blocks the calling thread meanwhile.
    ///
    /// On SQLite the WAL cannot restart while it lasts; on Postgres dead rows are kept. It is not for serving.
    pub fn snapshot<T, E>(options: &Options, unit: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        migrate::check(options)?;
        match &options.url {
            DatabaseUrl::Sqlite(path) => {
                let connection = open_sqlite(path, Access::Read)?;
                connection.execute_batch("begin").map_err(StoreError::from)?;
                unit(&mut Tx::sqlite(&connection, &mut Texts::default()))
            }
            DatabaseUrl::Postgres(url) => off_runtime(|| {
                let mut link = Link::new(Route::new(url)?, Session::Audit);
                let (client, statements) = link.connected()?;
                let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
                let transaction = builder.read_only(true).start().map_err(StoreError::from)?;
                unit(&mut Tx::postgres(transaction, statements))
            }),
        }
    }
}
