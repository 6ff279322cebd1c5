//! Connections to the two engines, as the store's threads and the migrations open them.

mod postgres_link;
mod sqlite;

pub(crate) use postgres_link::{Link, Session, jittered};
pub(crate) use sqlite::{Access, open as open_sqlite};
