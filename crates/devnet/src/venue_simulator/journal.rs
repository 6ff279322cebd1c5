//! The journal: every change of the books, a line each, on disk before it counts.

use std::fs::{OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use alloy_primitives::Address;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::locked::Locked;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum Entry {
    /// An account, with its first API key.
    Opened { account: u64, wallet: Address, pays_fees: bool, key_index: u64, public_key: String },
    /// Money from outside.
    Funded { account: u64, asset: u64, route: u64, units: u64 },
    /// A transaction that was verified and taken: the sender pays now.
    Taken { info: String, at: u64 },
    /// A transaction that was verified and came too late: it is known by its hash, and nobody pays.
    Rejected { info: String, at: u64 },
    /// A transaction in its next state: the recipient is paid at the commit, the sender gets back what failed.
    Moved { hash: String, status: u64, at: u64 },
}

#[derive(Debug)]
pub(super) struct Journal {
    file: Locked,
}

impl Journal {
    /// Opens the file for this process alone, and reads it. A last line without its end was never acknowledged, and
    /// goes.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>)> {
        let shown = path.display();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("cannot open {shown}"))?;
        let mut file = match Locked::new(file) {
            Ok(file) => file,
            Err(TryLockError::WouldBlock) => bail!("{shown} is in use by another venue simulator"),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock {shown}")),
        };
        let mut entries = Vec::new();
        let (mut reader, mut line, mut end) = (BufReader::new(&*file), String::new(), 0);
        loop {
            line.clear();
            let length = reader.read_line(&mut line).with_context(|| format!("cannot read {shown}"))?;
            if !line.ends_with('\n') {
                break;
            }
            entries.push(serde_json::from_str(&line).with_context(|| format!("{shown}, byte {end}"))?);
            end += u64::try_from(length)?;
        }
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok((Self { file }, entries))
    }

    pub(super) fn append(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).context("cannot write the venue simulator's journal")?;
        self.file.sync_data().context("cannot sync the venue simulator's journal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn funded(units: u64) -> Entry {
        Entry::Funded { account: 1, asset: 3, route: 0, units }
    }

    #[test]
    fn a_journal_is_read_back_and_a_torn_line_is_dropped() {
        let folder = crate::scratch("venue-journal-").unwrap();
        let path = folder.path().join("journal");
        let (mut journal, entries) = Journal::open(&path).unwrap();
        assert_eq!(entries, []);
        journal.append(&funded(1)).unwrap();
        journal.append(&funded(2)).unwrap();
        assert!(Journal::open(&path).is_err(), "one process at a time");
        journal.file.write_all(b"{\"entry\":\"fun").unwrap();
        drop(journal);
        let (mut journal, entries) = Journal::open(&path).unwrap();
        assert_eq!(entries, [funded(1), funded(2)]);
        journal.append(&funded(3)).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&path).unwrap().1, [funded(1), funded(2), funded(3)]);
    }
}
