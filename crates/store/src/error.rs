//! Errors between a unit of work and the disk. No variant carries a statement's arguments.

use std::path::PathBuf;
use std::sync::Arc;

use postgres::error::{ErrorPosition, Severity, SqlState};

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("database url: {0}")]
    Url(&'static str),
    #[error("the database {} does not exist: run `causeway migrate`", .0.display())]
    Missing(PathBuf),
    #[error("the schema is at {found} and this build needs {needed}: run `causeway migrate`")]
    SchemaOlder { found: i64, needed: i64 },
    #[error("the schema is at {found}, newer than {known}, the last this build knows: run a newer build")]
    SchemaNewer { found: i64, known: i64 },
    /// A row written by a newer build.
    #[error("a row has format {found}, newer than {known}, the last this build knows: run a newer build")]
    FormatNewer { found: u32, known: u32 },
    #[error("migration {name} failed")]
    Migration { name: &'static str, source: Box<StoreError> },
    #[error("another causeway serve is running on this database (lock {0})")]
    Locked(String),
    /// Another process holds the lease under which the unit was to be written. Nothing was written.
    #[error("the lease of the {lease} was taken by another process")]
    Fenced { lease: &'static str },
    #[error("file {}", path.display())]
    File { path: PathBuf, source: Arc<std::io::Error> },
    #[error("a thread could not be started")]
    Thread(#[source] Arc<std::io::Error>),
    #[error("the quote queue is full")]
    Busy,
    #[error("too little free disk for quotes")]
    DiskLow,
    #[error("the database took too long")]
    Timeout,
    #[error("the store has stopped")]
    Closed,
    /// The answer to the commit was lost: the unit may or may not be written. Read its key; do not simply run it again.
    #[error("the outcome of the commit is unknown")]
    CommitUnknown,
    /// Other writers kept changing rows the unit had read. Nothing was written.
    #[error("gave up after {attempts} attempts against concurrent writers")]
    Contended { attempts: u32 },
    /// The database could not be reached. Nothing was written.
    #[error("the database is not reachable")]
    Unavailable(#[source] PostgresFault),
    #[error("sqlite")]
    Sqlite(#[source] Arc<rusqlite::Error>),
    #[error("postgres")]
    Postgres(#[source] PostgresFault),
    /// A unit carried on past a failed statement. On Postgres that transaction is already aborted, so neither engine
    /// commits it.
    #[error("a unit returned ok after a statement of it had failed")]
    Swallowed,
    #[error("column {index} is {found}, not {wanted}")]
    Column { index: usize, wanted: &'static str, found: &'static str },
    #[error("argument ${number} is {found}, the statement wants {wanted}")]
    Argument { number: usize, wanted: String, found: &'static str },
    #[error("one row was asked for and there were {0}")]
    ManyRows(usize),
    #[error("{0} does not fit a bigint")]
    OutOfRange(&'static str),
    /// A cause moves money once. Other content under the same id is a bug of ours, never a repetition.
    #[error("the ledger already has {0}, with other content")]
    EntryDiffers(String),
    #[error("the ledger has no hold {0}")]
    NoHold(String),
    #[error("more than was set aside would leave by {0}")]
    HoldExceeded(String),
    #[error(transparent)]
    Hold(#[from] domain::hold::IllegalTransition),
    #[error("sql: {0}")]
    Dialect(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> Self {
        Self::Postgres(PostgresFault::from(&error))
    }
}

/// A Postgres error without the parts that could quote a row: its `detail` prints the values of a conflicting key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
pub struct PostgresFault {
    pub code: Option<String>,
    pub message: String,
    pub constraint: Option<String>,
}

impl PostgresFault {
    pub(crate) fn lost() -> Self {
        Self { code: None, message: "the connection was lost again and again".to_owned(), constraint: None }
    }
}

impl From<&postgres::Error> for PostgresFault {
    fn from(error: &postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            // These causes come from the connection (refused, reset, TLS), not from a statement.
            let mut message = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(next) = cause {
                message = format!("{message}: {next}");
                cause = next.source();
            }
            return Self { code: None, message, constraint: None };
        };
        let mut message = db.message().to_owned();
        // Data exceptions put the offending value in the message itself.
        if db.code().code().starts_with("22") {
            message = "data exception".to_owned();
        }
        if let Some(ErrorPosition::Original(position)) = db.position() {
            message = format!("{message} at character {position}");
        }
        Self { code: Some(db.code().code().to_owned()), message, constraint: db.constraint().map(str::to_owned) }
    }
}

/// The effect of a failed statement on its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The statement is wrong or broke a constraint; a retry fails the same way.
    Statement,
    /// Concurrent writers conflicted; the unit is expected to run again.
    Contention,
    /// The connection is lost. Before a commit that means nothing was written.
    Lost,
}

impl Fault {
    pub(crate) fn of(error: &postgres::Error) -> Self {
        // Arguments are checked before sending, so an error without a server message comes from the connection.
        let Some(db) = error.as_db_error() else { return Self::Lost };
        let code = db.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
            return Self::Contention;
        }
        // A severity above error ends the session. A commit that met it may have been written before.
        if db.parsed_severity() != Some(Severity::Error) || code.code().starts_with("08") {
            return Self::Lost;
        }
        Self::Statement
    }
}
