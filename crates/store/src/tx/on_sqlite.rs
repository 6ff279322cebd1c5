//! Statements on SQLite. rusqlite keeps the prepared statements; here is kept how each text is spelled for SQLite.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};

use crate::error::Fault;
use crate::{Dialect, Row, StoreError, Value};

type Result<T> = std::result::Result<T, (StoreError, Fault)>;

/// Keyed by address: the texts are `'static`, so one address is always one text.
#[derive(Debug, Default)]
pub(crate) struct Texts(HashMap<(usize, usize), String>);

impl Texts {
    pub(crate) fn rows(&mut self, connection: &Connection, sql: &'static str, args: &[Value]) -> Result<Vec<Row>> {
        query(connection, self.spell(sql)?, args)
    }

    pub(crate) fn rows_dynamic(&mut self, connection: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        query(connection, &Dialect::Sqlite.expand(sql).map_err(of_statement)?, args)
    }

    pub(crate) fn execute(&mut self, connection: &Connection, sql: &'static str, args: &[Value]) -> Result<u64> {
        let mut statement = connection.prepare_cached(self.spell(sql)?).map_err(failed)?;
        statement.execute(params_from_iter(args)).map(|changed| changed as u64).map_err(failed)
    }

    fn spell(&mut self, sql: &'static str) -> Result<&str> {
        match self.0.entry((sql.as_ptr() as usize, sql.len())) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(Dialect::Sqlite.expand(sql).map_err(of_statement)?)),
        }
    }
}

fn query(connection: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(args)).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let mut values = Vec::with_capacity(columns);
        for index in 0..columns {
            values.push(match row.get_ref(index).map_err(failed)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(value) => Value::Int(value),
                ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
                ValueRef::Text(value) => Value::Text(String::from_utf8(value.to_vec()).map_err(|_| {
                    of_statement(StoreError::Column { index, wanted: "text", found: "text that is not utf-8" })
                })?),
                // Only arithmetic that left the integers gives one; Postgres would answer with a numeric.
                ValueRef::Real(_) => {
                    return Err(of_statement(StoreError::Column { index, wanted: "a value", found: "a float" }));
                }
            });
        }
        found.push(Row::new(values));
    }
    Ok(found)
}

fn of_statement(error: StoreError) -> (StoreError, Fault) {
    (error, Fault::Statement)
}

fn failed(error: rusqlite::Error) -> (StoreError, Fault) {
    // Only the watch over slow reads interrupts.
    if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
        return of_statement(StoreError::Timeout);
    }
    of_statement(error.into())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}
