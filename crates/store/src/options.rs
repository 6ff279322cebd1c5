//! The location of the database and the number of threads that serve it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use url::Url;

use crate::StoreError;

mod postgres_route;

pub(crate) use postgres_route::Route;

#[derive(Clone, Debug)]
pub struct Options {
    pub url: DatabaseUrl,
    /// Threads that serve [`crate::Store::read`], each with its own connection.
    pub reader_threads: usize,
    /// Threads that serve [`crate::Store::list`], each with its own connection.
    pub list_threads: usize,
    /// Threads that serve [`crate::Store::write`] on Postgres. SQLite always has one writer.
    pub postgres_threads: usize,
    /// The longest a read may take, including its wait in the queue.
    pub read_limit: Duration,
    /// The longest a listing may take, including its wait in the queue.
    pub list_limit: Duration,
    /// The longest a thread waits for one Postgres transaction before the watchdog ends the process. Each statement has
    /// its own limit, enforced by the server: this one is for a server that no longer answers.
    pub silence_limit: Duration,
    /// Below this many free bytes beside the SQLite file, quotes are refused and money units go on.
    pub min_free_bytes: u64,
}

impl Options {
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            reader_threads: 3,
            list_threads: 2,
            postgres_threads: 6,
            read_limit: Duration::from_secs(5),
            list_limit: Duration::from_secs(5),
            silence_limit: Duration::from_secs(120),
            min_free_bytes: 256 * 1024 * 1024,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(PostgresUrl),
}

impl DatabaseUrl {
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        Self::Sqlite(path.as_ref().to_owned())
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            // SQLite would read these as an in-memory database or a URI, both of which lose money at exit.
            if path.is_empty() || path.starts_with(':') || path.contains('?') {
                return Err(StoreError::Url("sqlite needs the path of a file"));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return PostgresUrl::parse(text).map(Self::Postgres);
        }
        Err(StoreError::Url("must begin with sqlite: or postgres://"))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

/// A Postgres URL. It prints without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Url);

impl PostgresUrl {
    fn parse(text: &str) -> Result<Self, StoreError> {
        let url = Url::parse(text).map_err(|_| StoreError::Url("not a URL"))?;
        let url = Self(url);
        postgres_route::check_url(&url)?;
        Ok(url)
    }

    pub(crate) fn expose(&self) -> &Url {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query may carry a password too, so only scheme, user, host and database are shown.
        write!(f, "{}://", self.0.scheme())?;
        if !self.0.username().is_empty() {
            write!(f, "{}@", self.0.username())?;
        }
        write!(f, "{}", self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_url_is_the_path_of_a_file() {
        for (text, path) in [
            ("sqlite:causeway.db", "causeway.db"),
            ("sqlite://causeway.db", "causeway.db"),
            ("sqlite:///var/lib/causeway.db", "/var/lib/causeway.db"),
            ("sqlite:/var/lib/causeway.db", "/var/lib/causeway.db"),
        ] {
            assert_eq!(text.parse::<DatabaseUrl>().unwrap(), DatabaseUrl::Sqlite(path.into()), "{text}");
        }
    }

    #[test]
    fn a_url_of_no_database_is_refused() {
        for text in ["", "sqlite:", "sqlite::memory:", "sqlite:a?mode=memory", "mysql://x/y", "causeway.db"] {
            assert!(text.parse::<DatabaseUrl>().is_err(), "{text}");
        }
        for text in ["postgres://", "postgres://h/d?sslmode=maybe", "postgres://h/d?no_such_option=1"] {
            assert!(text.parse::<DatabaseUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let url: DatabaseUrl = "postgres://app:hunter2@db.example:6432/causeway?password=hunter2".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://app@db.example:6432/causeway");
        assert!(!format!("{url:?} {:?}", Options::new(url.clone())).contains("hunter2"));
    }
}
