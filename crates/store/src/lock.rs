//! The file lock: one process per SQLite file. On Postgres several processes may serve a database, with leases for
//! roles.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;

use crate::{DatabaseUrl, Options, StoreError};

/// Held for as long as the process serves the file. The operating system releases it, however the process ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

/// Takes the lock beside a SQLite file, or fails if another process has it. Postgres has no such lock.
pub fn lock(options: &Options) -> Result<Option<FileLock>, StoreError> {
    let DatabaseUrl::Sqlite(path) = &options.url else { return Ok(None) };
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let io = |source| StoreError::File { path: path.clone(), source: Arc::new(source) };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock { _file: file })),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.display().to_string())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}
