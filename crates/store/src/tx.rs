//! The transaction of either engine, given to a unit of work: the only way to the database.
//!
//! It remembers the first failed statement. Such a unit is never committed, even if it returns ok: Postgres would roll
//! it back silently, and SQLite must not differ. Idempotency is `on conflict do nothing returning`: no row means
//! "already there".

mod on_postgres;
mod on_sqlite;

use std::any::Any;
use std::time::Instant;

pub(crate) use on_postgres::Statements;
pub(crate) use on_sqlite::Texts;

use crate::error::Fault;
use crate::{Dialect, Row, StoreError, Value};

pub struct Tx<'a> {
    engine: Engine<'a>,
    fault: Option<Fault>,
    deadline: Option<Instant>,
    kept: Option<Box<dyn Any>>,
}

enum Engine<'a> {
    Sqlite(&'a rusqlite::Connection, &'a mut Texts),
    Postgres(postgres::Transaction<'a>, &'a mut Statements),
}

impl<'a> Tx<'a> {
    /// The transaction (or savepoint) is already open; the code that opened it ends it.
    pub(crate) fn sqlite(connection: &'a rusqlite::Connection, texts: &'a mut Texts) -> Self {
        Self { engine: Engine::Sqlite(connection, texts), fault: None, deadline: None, kept: None }
    }

    pub(crate) fn postgres(transaction: postgres::Transaction<'a>, statements: &'a mut Statements) -> Self {
        Self { engine: Engine::Postgres(transaction, statements), fault: None, deadline: None, kept: None }
    }

    /// Sets a deadline after which no statement begins.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Leaves one value of this unit to its next statements, in place of the last.
    pub(crate) fn keep<T: 'static>(&mut self, value: T) {
        self.kept = Some(Box::new(value));
    }

    /// Takes the value that was left, if it is one of these.
    pub(crate) fn take_kept<T: 'static>(&mut self) -> Option<T> {
        self.kept.take().and_then(|kept| kept.downcast().ok()).map(|kept| *kept)
    }

    /// Drops the value that was left: it is no longer true.
    pub(crate) fn forget_kept(&mut self) {
        self.kept = None;
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Commits a Postgres transaction; a SQLite transaction ends with its batch.
    pub(crate) fn commit(self) -> Result<(), postgres::Error> {
        match self.engine {
            Engine::Postgres(transaction, _) => transaction.commit(),
            Engine::Sqlite(..) => Ok(()),
        }
    }

    pub(crate) fn roll_back(self) -> Result<(), postgres::Error> {
        match self.engine {
            Engine::Postgres(transaction, _) => transaction.rollback(),
            Engine::Sqlite(..) => Ok(()),
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self.engine {
            Engine::Sqlite(..) => Dialect::Sqlite,
            Engine::Postgres(..) => Dialect::Postgres,
        }
    }

    /// All rows of a statement, `returning` included.
    pub fn rows(&mut self, sql: &'static str, args: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.run(|engine| match engine {
            Engine::Sqlite(connection, texts) => texts.rows(connection, sql, args),
            Engine::Postgres(transaction, statements) => statements.rows(transaction, sql, args),
        })
    }

    /// The row of a statement that yields one or none. More than one is an error.
    pub fn row(&mut self, sql: &'static str, args: &[Value]) -> Result<Option<Row>, StoreError> {
        let mut rows = self.rows(sql, args)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            many => Err(StoreError::ManyRows(many)),
        }
    }

    /// Runs a statement and returns the number of rows changed. A statement with `returning` goes to [`Tx::rows`].
    pub fn execute(&mut self, sql: &'static str, args: &[Value]) -> Result<u64, StoreError> {
        self.run(|engine| match engine {
            Engine::Sqlite(connection, texts) => texts.execute(connection, sql, args),
            Engine::Postgres(transaction, statements) => statements.execute(transaction, sql, args),
        })
    }

    /// Runs a statement composed at run time, for listings with filters. Values still travel as arguments.
    pub fn rows_dynamic(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.run(|engine| match engine {
            Engine::Sqlite(connection, texts) => texts.rows_dynamic(connection, sql, args),
            Engine::Postgres(transaction, statements) => statements.rows_dynamic(transaction, sql, args),
        })
    }

    fn run<T>(
        &mut self,
        statement: impl FnOnce(&mut Engine<'a>) -> Result<T, (StoreError, Fault)>,
    ) -> Result<T, StoreError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(StoreError::Timeout);
        }
        statement(&mut self.engine).map_err(|(error, fault)| {
            self.fault.get_or_insert(fault);
            error
        })
    }
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("dialect", &self.dialect()).field("fault", &self.fault).finish_non_exhaustive()
    }
}
