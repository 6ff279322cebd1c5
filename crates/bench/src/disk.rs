//! The cost of durability on this disk: no commit can be answered sooner than a small synced append.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::stats::{Latency, nanos};

const APPENDS: usize = 300;
/// About as much as the WAL of a database grows with one quote.
const APPEND: [u8; 4096] = [7; 4096];

pub(crate) fn synced_appends(folder: &Path) -> Result<Latency> {
    let mut file = tempfile::tempfile_in(folder)?;
    let append = |_| -> Result<u64> {
        let began = Instant::now();
        file.write_all(&APPEND)?;
        file.sync_data()?;
        Ok(nanos(began.elapsed()))
    };
    Ok(Latency::of((0..APPENDS).map(append).collect::<Result<_>>()?))
}
