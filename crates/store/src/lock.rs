//! The file lock: one process per SQLite file. On Postgres several processes may serve a database, with leases for
//! roles.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;

use crate::{DatabaseUrl, Options, StoreError};

/// Held for as long as the process serves the file. The operating system releases it, however the process ends.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

/// Closing the file alone would not do: a child that was just forked has it open too, and with it the lock, until it
/// becomes another program.
impl Drop for FileLock {
    fn drop(&mut self) {
        // Where it fails, the lock ends with the file.
        let _ = self.file.unlock();
    }
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
        Ok(()) => Ok(Some(FileLock { file })),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.display().to_string())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_owner_though_a_child_has_inherited_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(DatabaseUrl::Sqlite(folder.path().join("causeway.db")));
        let held = lock(&options).unwrap().unwrap();
        let inherited = held.file.try_clone().unwrap();
        assert!(matches!(lock(&options), Err(StoreError::Locked(_))));
        drop(held);
        assert!(lock(&options).unwrap().is_some());
        drop(inherited);
    }
}
