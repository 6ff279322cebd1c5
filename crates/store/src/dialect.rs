//! The SQL dialects: the only place that knows how the two engines differ.
//!
//! Statements are written once, with `$1` parameters and the named fragments below. Differences in behaviour (type of a
//! sum, time of the database) are hidden here too, so that no statement asks which engine it runs on.

use std::borrow::Cow;

use crate::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// Name, SQLite text, Postgres text.
const FRAGMENTS: [(&str, &str, &str); 9] = [
    ("bytes", "blob", "bytea"),
    ("identity", "integer primary key autoincrement", "bigint generated always as identity primary key"),
    // SQLite has one writer, so a running unit holds every row.
    ("for_update", "", "for update"),
    ("for_share", "", "for share"),
    // Listeners are notified when the unit commits. On SQLite there is no other process to notify.
    ("wake", "select 1", "select pg_notify('causeway', '')"),
    // No transaction older than the first runs any more, and none as young as the second has begun. On SQLite whoever
    // reads has nobody beside it.
    ("running_from", "0", "cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint)"),
    ("running_to", "0", "cast(cast(pg_snapshot_xmax(pg_current_snapshot()) as text) as bigint)"),
    // Before a column: no index on it is used. SQLite has no statistics here to choose among indexes by; Postgres has.
    ("off_index", "+", ""),
    // Leases use the database's clock, independent of the machine that asks.
    (
        "now_ms",
        "cast(unixepoch('subsec') * 1000 as integer)",
        "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
    ),
];

impl Dialect {
    /// Expands a statement for this engine. Quoted text is left alone.
    pub fn expand(self, sql: &str) -> Result<String, StoreError> {
        let mut out = String::with_capacity(sql.len() + 32);
        let mut rest = sql;
        while let Some(at) = rest.find(['\'', '{', '$', '-']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if rest.starts_with('\'') {
                let end = rest[1..].find('\'').ok_or_else(|| bad("a quote is not closed", sql))? + 2;
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            } else if rest.starts_with('{') {
                let end = rest.find('}').ok_or_else(|| bad("a brace is not closed", sql))?;
                out.push_str(self.fragment(&rest[1..end]).ok_or_else(|| bad("unknown fragment", sql))?);
                rest = &rest[end + 1..];
            } else if rest.starts_with('$') {
                // In SQLite `$1` is a named parameter, numbered by first appearance; `?1` is the first parameter.
                out.push(if self == Self::Sqlite { '?' } else { '$' });
                rest = &rest[1..];
            } else if rest.starts_with("--") {
                // A comment is dropped, because it may hold an apostrophe.
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            } else {
                out.push('-');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn fragment(self, name: &str) -> Option<&'static str> {
        let (_, sqlite, postgres) = FRAGMENTS.iter().find(|(known, _, _)| *known == name)?;
        Some(match self {
            Self::Sqlite => sqlite,
            Self::Postgres => postgres,
        })
    }
}

fn bad(what: &str, sql: &str) -> StoreError {
    let start: Cow<'_, str> = sql.chars().take(80).collect();
    StoreError::Dialect(format!("{what} in `{start}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_spelled_for_each_engine() {
        for (sql, sqlite, postgres) in [
            ("select a from t where b = $1 and c = $12", "select a from t where b = ?1 and c = ?12", ""),
            ("create table t (a {bytes})", "create table t (a blob)", "create table t (a bytea)"),
            ("select 1 from t where {off_index}a = 1", "select 1 from t where +a = 1", "select 1 from t where a = 1"),
            ("select 1 from t {for_update}", "select 1 from t ", "select 1 from t for update"),
            ("select '{x} $1', $1", "select '{x} $1', ?1", ""),
            ("select 'it''s $1', $1 - 1", "select 'it''s $1', ?1 - 1", ""),
            ("select 1 -- it's $1 {x}\nfrom t", "select 1 \nfrom t", "select 1 \nfrom t"),
        ] {
            assert_eq!(Dialect::Sqlite.expand(sql).unwrap(), sqlite);
            let postgres = if postgres.is_empty() { sql } else { postgres };
            assert_eq!(Dialect::Postgres.expand(sql).unwrap(), postgres);
        }
    }

    #[test]
    fn a_misspelt_statement_is_refused() {
        for sql in ["select {nothing}", "select {bytes", "select 'open"] {
            assert!(matches!(Dialect::Sqlite.expand(sql), Err(StoreError::Dialect(_))), "{sql}");
        }
    }
}
