//! Statements on Postgres: prepared once per connection, arguments checked against what the server inferred.

use std::collections::HashMap;

use postgres::types::{ToSql, Type};
use postgres::{Statement, Transaction};

use crate::error::Fault;
use crate::{Dialect, Row, StoreError, Value};

type Result<T> = std::result::Result<T, (StoreError, Fault)>;

/// Listings have a few dozen shapes; when there are more than this they are prepared anew.
const DYNAMIC_STATEMENTS: usize = 128;

/// The prepared statements of one connection; they die with it.
#[derive(Default)]
pub(crate) struct Statements {
    /// Keyed by address: the texts are `'static`, so one address is always one text.
    fixed: HashMap<(usize, usize), Statement>,
    dynamic: HashMap<String, Statement>,
}

impl Statements {
    pub(crate) fn rows(&mut self, tx: &mut Transaction<'_>, sql: &'static str, args: &[Value]) -> Result<Vec<Row>> {
        let statement = self.fixed(tx, sql)?;
        query(tx, &statement, args)
    }

    pub(crate) fn execute(&mut self, tx: &mut Transaction<'_>, sql: &'static str, args: &[Value]) -> Result<u64> {
        let statement = self.fixed(tx, sql)?;
        let bound = bind(&statement, args)?;
        tx.execute(&statement, &borrowed(&bound)).map_err(failed)
    }

    pub(crate) fn rows_dynamic(&mut self, tx: &mut Transaction<'_>, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        if let Some(statement) = self.dynamic.get(sql) {
            return query(tx, &statement.clone(), args);
        }
        let statement = prepare(tx, sql)?;
        if self.dynamic.len() >= DYNAMIC_STATEMENTS {
            self.dynamic.clear();
        }
        self.dynamic.insert(sql.to_owned(), statement.clone());
        query(tx, &statement, args)
    }

    fn fixed(&mut self, tx: &mut Transaction<'_>, sql: &'static str) -> Result<Statement> {
        let key = (sql.as_ptr() as usize, sql.len());
        if let Some(statement) = self.fixed.get(&key) {
            return Ok(statement.clone());
        }
        let statement = prepare(tx, sql)?;
        self.fixed.insert(key, statement.clone());
        Ok(statement)
    }
}

fn prepare(tx: &mut Transaction<'_>, sql: &str) -> Result<Statement> {
    let sql = Dialect::Postgres.expand(sql).map_err(|error| (error, Fault::Statement))?;
    tx.prepare(&sql).map_err(failed)
}

fn query(tx: &mut Transaction<'_>, statement: &Statement, args: &[Value]) -> Result<Vec<Row>> {
    let bound = bind(statement, args)?;
    let rows = tx.query(statement, &borrowed(&bound)).map_err(failed)?;
    rows.iter().map(read).collect()
}

fn borrowed<'a>(bound: &'a [Box<dyn ToSql + Sync + 'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    bound.iter().map(|arg| &**arg as _).collect()
}

fn failed(error: postgres::Error) -> (StoreError, Fault) {
    let fault = Fault::of(&error);
    // Only reads are cancelled, by the time limit of their session.
    if error.code() == Some(&postgres::error::SqlState::QUERY_CANCELED) {
        return (StoreError::Timeout, fault);
    }
    (error.into(), fault)
}

fn read(row: &postgres::Row) -> Result<Row> {
    let mut values = Vec::with_capacity(row.len());
    for (index, column) in row.columns().iter().enumerate() {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index).map(Value::from),
            Type::INT4 => row.try_get::<_, Option<i32>>(index).map(Value::from),
            Type::BOOL => row.try_get::<_, Option<bool>>(index).map(Value::from),
            Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<String>>(index).map(Value::from),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index).map(Value::from),
            Type::VOID => Ok(Value::Null),
            _ => {
                // Mostly a sum without `cast(… as bigint)`, which is a numeric here and an integer on SQLite.
                let error = StoreError::Column { index, wanted: "a portable type", found: "another (cast it)" };
                return Err((error, Fault::Statement));
            }
        };
        values.push(value.map_err(|error| (error.into(), Fault::Statement))?);
    }
    Ok(Row::new(values))
}

/// The server infers the type of each parameter; a value that does not fit is found before it is sent.
fn bind<'a>(statement: &Statement, args: &'a [Value]) -> Result<Vec<Box<dyn ToSql + Sync + 'a>>> {
    let wanted = statement.params();
    if wanted.len() != args.len() {
        let error = StoreError::Dialect(format!("{} arguments for {} parameters", args.len(), wanted.len()));
        return Err((error, Fault::Statement));
    }
    let mut bound = Vec::with_capacity(args.len());
    for (index, (arg, wanted)) in args.iter().zip(wanted).enumerate() {
        let fit: Option<Box<dyn ToSql + Sync>> = match (arg, wanted) {
            (Value::Int(value), &Type::INT8) => Some(Box::new(value)),
            (Value::Int(value), &Type::INT4) => i32::try_from(*value).ok().map(|value| Box::new(value) as _),
            (Value::Bool(value), &Type::BOOL) => Some(Box::new(value)),
            (Value::Text(value), &(Type::TEXT | Type::VARCHAR)) => Some(Box::new(value)),
            (Value::Bytes(value), &Type::BYTEA) => Some(Box::new(value)),
            (Value::Null, &Type::INT8) => Some(Box::new(None::<i64>)),
            (Value::Null, &Type::INT4) => Some(Box::new(None::<i32>)),
            (Value::Null, &Type::BOOL) => Some(Box::new(None::<bool>)),
            (Value::Null, &(Type::TEXT | Type::VARCHAR)) => Some(Box::new(None::<String>)),
            (Value::Null, &Type::BYTEA) => Some(Box::new(None::<Vec<u8>>)),
            _ => None,
        };
        bound.push(fit.ok_or_else(|| {
            let wanted = wanted.name().to_owned();
            (StoreError::Argument { number: index + 1, wanted, found: arg.kind() }, Fault::Statement)
        })?);
    }
    Ok(bound)
}

impl std::fmt::Debug for Statements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statements").field("fixed", &self.fixed.len()).finish_non_exhaustive()
    }
}
