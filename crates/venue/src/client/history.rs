//! Transfers of an account since a mark.
//!
//! The venue lists newest first, in pages, and without memos: the list says which transactions to look at, and the
//! transaction itself says what it pays. A transfer may be listed late or twice, so the walk goes a while beyond its
//! mark; whoever takes transfers in knows them by their hash.

use std::collections::HashSet;
use std::time::Duration;

use domain::venue::AccountIndex;
use serde::Deserialize;

use super::answers::millis;
use super::error::VenueError;
use super::fetch::Query;
use super::{Client, weight};
use crate::auth::AuthToken;
use crate::field::Digest;

/// How far behind its mark a walk reads unless it is told otherwise, for transfers that were listed late.
pub(super) const OVERLAP: Duration = Duration::from_secs(600);
const MAX_ROWS_PER_PAGE: usize = 1_000;
const MAX_CURSOR_BYTES: usize = 512;

/// A place in the history: everything listed before it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Milliseconds on the venue's clock.
    pub time_millis: u64,
}

/// A line of the history, to be read by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub hash: Digest,
    pub from: AccountIndex,
    pub to: AccountIndex,
    pub time_millis: u64,
}

/// A page, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub transfers: Vec<Listed>,
    pub next: Option<String>,
}

/// The transfers since a mark, oldest first, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfers {
    pub transfers: Vec<Listed>,
    /// The mark to continue from once these are applied.
    pub mark: Option<Mark>,
}

#[derive(Deserialize)]
struct Answer {
    transfers: Vec<Row>,
    cursor: String,
}

#[derive(Deserialize)]
struct Row {
    #[serde(rename = "type")]
    kind: String,
    from_account_index: u64,
    to_account_index: u64,
    tx_hash: String,
    timestamp: u64,
}

/// Kinds of rows that are transfers between accounts. Shares of pools and stakes are listed beside them.
const TRANSFERS: [&str; 3] = ["L2TransferInflow", "L2TransferOutflow", "L2SelfTransfer"];

impl Client {
    /// One page of the account's transfers, both ways, newest first.
    pub async fn transfers(
        &self,
        account: AccountIndex,
        token: &AuthToken,
        cursor: Option<&str>,
    ) -> Result<Page, VenueError> {
        let mut query = Query::new(weight::OTHER).with("account_index", account).signed(token);
        if let Some(cursor) = cursor {
            query = query.with("cursor", cursor);
        }
        self.fetch.get::<Answer>("/api/v1/transfer/history", &query).await?.checked(account)
    }

    /// All transfers to the account since the mark, or since its beginning. A walk that does not reach the mark within
    /// so many pages is an error, and nothing of it is returned: a gap would be somebody's deposit.
    pub async fn incoming_since(
        &self,
        account: AccountIndex,
        token: &AuthToken,
        since: Option<Mark>,
        max_pages: usize,
    ) -> Result<Transfers, VenueError> {
        let mut walk = Walk::new(since, self.overlap);
        let mut cursor = None;
        for _ in 0..max_pages {
            let page = self.transfers(account, token, cursor.as_deref()).await?;
            if walk.take(page.transfers)? || page.next.is_none() {
                return Ok(walk.finish(account));
            }
            if page.next == cursor {
                return Err(VenueError::Invalid("cursor does not move"));
            }
            cursor = page.next;
        }
        Err(VenueError::Invalid("cursor does not reach the mark within the pages that are read"))
    }
}

impl Answer {
    fn checked(self, account: AccountIndex) -> Result<Page, VenueError> {
        if self.transfers.len() > MAX_ROWS_PER_PAGE || self.cursor.len() > MAX_CURSOR_BYTES {
            return Err(VenueError::Invalid("transfers or cursor are too long"));
        }
        let is_transfer = |row: &Row| TRANSFERS.contains(&row.kind.as_str());
        let rows = self.transfers.into_iter().filter(is_transfer).map(|row| row.checked(account));
        let next = Some(self.cursor).filter(|cursor| !cursor.is_empty());
        Ok(Page { transfers: rows.collect::<Result<_, _>>()?, next })
    }
}

impl Row {
    fn checked(self, account: AccountIndex) -> Result<Listed, VenueError> {
        let invalid = VenueError::Invalid;
        let index = |index| AccountIndex::new(index).map_err(|_| invalid("account_index"));
        let (from, to) = (index(self.from_account_index)?, index(self.to_account_index)?);
        if from != account && to != account {
            return Err(invalid("transfers are another account's"));
        }
        Ok(Listed {
            hash: self.tx_hash.parse().map_err(|_| invalid("tx_hash"))?,
            from,
            to,
            time_millis: millis(self.timestamp).ok_or(invalid("timestamp"))?,
        })
    }
}

/// A walk back in time.
#[derive(Debug)]
struct Walk {
    end_millis: u64,
    since: Option<Mark>,
    seen: HashSet<Digest>,
    taken: Vec<Listed>,
}

/// Disorder within a page that is usual.
const MAX_DISORDER_MILLIS: u64 = OVERLAP.as_secs() * 1_000;

impl Walk {
    fn new(since: Option<Mark>, overlap: Duration) -> Self {
        let overlap = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        let end_millis = since.map_or(0, |mark| mark.time_millis.saturating_sub(overlap));
        Self { end_millis, since, seen: HashSet::new(), taken: Vec::new() }
    }

    /// Takes a page; true when the walk has passed its end.
    fn take(&mut self, page: Vec<Listed>) -> Result<bool, VenueError> {
        // A page that runs the other way means that the end of the walk is no end.
        if let [first, .., last] = page.as_slice()
            && last.time_millis > first.time_millis.saturating_add(MAX_DISORDER_MILLIS)
        {
            return Err(VenueError::Invalid("transfers are not listed newest first"));
        }
        let passed = !page.is_empty() && page.iter().all(|row| row.time_millis < self.end_millis);
        let fresh = page.into_iter().filter(|row| row.time_millis >= self.end_millis && self.seen.insert(row.hash));
        self.taken.extend(fresh);
        Ok(passed)
    }

    fn finish(self, account: AccountIndex) -> Transfers {
        let newest = self.taken.iter().map(|row| Mark { time_millis: row.time_millis }).max();
        let mut transfers: Vec<Listed> =
            self.taken.into_iter().filter(|row| row.to == account && row.from != account).collect();
        transfers.sort_by_key(|row| (row.time_millis, row.hash));
        Transfers { transfers, mark: newest.max(self.since) }
    }
}

#[cfg(test)]
mod tests {
    use poseidon_hash::Goldilocks;

    use super::*;

    const ME: u64 = 9;

    fn row(n: u64, seconds: u64) -> Listed {
        let index = |n| AccountIndex::new(n).unwrap();
        Listed { hash: Digest::of(&[Goldilocks(n)]), from: index(1), to: index(ME), time_millis: seconds * 1_000 }
    }

    fn finish(walk: Walk) -> Transfers {
        walk.finish(AccountIndex::new(ME).unwrap())
    }

    #[test]
    fn a_walk_ends_well_behind_its_mark() {
        let mut walk = Walk::new(Some(Mark { time_millis: 10_000_000 }), OVERLAP);
        assert!(!walk.take(vec![row(1, 10_100), row(2, 9_900)]).unwrap());
        assert!(!walk.take(vec![row(3, 9_500), row(4, 9_399)]).unwrap(), "one of them is within the overlap");
        assert!(walk.take(vec![row(5, 9_300)]).unwrap());
        let Transfers { transfers, mark } = finish(walk);
        assert_eq!(transfers, [row(3, 9_500), row(2, 9_900), row(1, 10_100)]);
        assert_eq!(mark, Some(Mark { time_millis: 10_100_000 }));
    }

    #[test]
    fn a_transfer_that_is_listed_twice_is_returned_once() {
        let mut walk = Walk::new(None, OVERLAP);
        walk.take(vec![row(1, 100), row(1, 100), row(2, 90)]).unwrap();
        walk.take(vec![row(2, 90), row(3, 80)]).unwrap();
        assert_eq!(finish(walk).transfers, [row(3, 80), row(2, 90), row(1, 100)]);
    }

    #[test]
    fn our_own_transfers_move_the_mark_and_are_no_deposits() {
        let mut walk = Walk::new(None, OVERLAP);
        let me = AccountIndex::new(ME).unwrap();
        let (out, own) = (Listed { from: me, to: row(1, 1).from, ..row(1, 100) }, Listed { from: me, ..row(2, 110) });
        walk.take(vec![own, out]).unwrap();
        assert_eq!(finish(walk), Transfers { transfers: vec![], mark: Some(Mark { time_millis: 110_000 }) });
    }

    #[test]
    fn a_list_that_runs_the_other_way_is_refused() {
        let mut walk = Walk::new(Some(Mark { time_millis: 10_000_000 }), OVERLAP);
        assert!(walk.take(vec![row(1, 100), row(2, 9_900)]).is_err());
    }

    #[test]
    fn an_empty_history_keeps_the_mark() {
        let mark = Some(Mark { time_millis: 5 });
        let mut walk = Walk::new(mark, OVERLAP);
        assert!(!walk.take(vec![]).unwrap());
        assert_eq!(finish(walk), Transfers { transfers: vec![], mark });
    }
}
