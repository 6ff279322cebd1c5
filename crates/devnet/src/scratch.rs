//! Scratch folders of tests and temporary servers.

use std::io;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use tempfile::{Builder, TempDir};

/// A file system in memory, where there is one.
const MEMORY: &str = "/dev/shm";
/// Ten times the size of all databases of one test binary.
const ENOUGH_BYTES: u64 = 4 << 30;

/// A folder that is removed when it is dropped. It lies in memory where there is room for it and `$TMPDIR` does not say
/// otherwise: the result of a test is not to depend on how full or how slow a disk is.
#[expect(clippy::disallowed_methods, reason = "the folder for temporary files is the user's choice")]
pub fn scratch(prefix: &str) -> io::Result<TempDir> {
    let mut builder = Builder::new();
    let builder = builder.prefix(prefix);
    match std::env::var_os("TMPDIR").is_none() && has_room(Path::new(MEMORY)) {
        true => builder.tempdir_in(MEMORY),
        false => builder.tempdir(),
    }
}

fn has_room(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|facts| facts.blocks_available().saturating_mul(facts.fragment_size()) >= ENOUGH_BYTES)
}
