//! A file for one owner at a time.

use std::fs::{File, TryLockError};
use std::ops::{Deref, DerefMut};

/// Locked until it is dropped. Closing the file alone would not do: a child that was just forked has it open too, and
/// with it the lock, until it becomes another program.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Locked {
    pub(crate) fn new(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Where it fails, the lock ends with the file.
        let _ = self.0.unlock();
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_owner_though_a_child_has_inherited_the_file() {
        let folder = crate::scratch("locked-").unwrap();
        let open = || Locked::new(File::create(folder.path().join("lock")).unwrap());
        let locked = open().unwrap();
        let inherited = locked.try_clone().unwrap();
        assert!(matches!(open(), Err(TryLockError::WouldBlock)), "one owner at a time");
        drop(locked);
        open().unwrap();
        drop(inherited);
    }
}
