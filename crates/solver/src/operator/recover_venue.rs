//! Recovery of a restored database on the venue: the payments that the account's history shows are imported.
//!
//! A payment is known by its memo, as one on a chain is by the last bytes of its calldata.

use std::sync::Arc;

use store::{Tx, blocks, lanes, venue_txs};
use venue::{Listed, VenueError};

use super::recover::{Import, Report, import};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, key_of};
use crate::payments::venue_tx::{head_at, sent_tx};
use crate::solver::Solver;

/// Pages of the history that are read.
const MAX_PAGES: usize = 10_000;

/// Imports what the account has paid. `progress` is called for every transfer. Nothing else may be running on this
/// database.
pub async fn recover(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    progress: impl Fn(u64, u64),
) -> Result<Report, SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
    let now = venue.client.status().await?.time_millis / 1_000;
    // Read before the history: whatever has used a nonce below it is listed, or holds the recovery up.
    let used = venue.client.next_nonce(venue.account, venue.key_index).await?.get();
    let sent = history(venue, now).await?;
    let total = u64::try_from(sent.len()).unwrap_or(u64::MAX);
    let mut report = Report { blocks: total, ..Report::default() };
    for (at, listed) in (1..).zip(&sent) {
        let tx = venue.client.transaction(listed.hash).await?;
        let tx = tx.ok_or(SolverError::InvariantViolated("the venue lists a transfer of ours and does not show it"))?;
        let unfinished = "a transfer of ours has not ended on the venue yet: try again in a moment";
        let Some(sent) = sent_tx(venue, &tx) else {
            let ours = tx.transfer.is_some_and(|signed| signed.transfer.key_index == venue.key_index);
            if ours {
                return Err(SolverError::InvariantViolated(unfinished));
            }
            // Sent with another key of the account, by hand.
            report.unknown += 1;
            continue;
        };
        let (context, router, head) = (solver.context(), handle.chain.router, head_at(listed.time_millis / 1_000));
        let digest = tx.hash;
        let unit = move |tx: &mut Tx<'_>| {
            venue_txs::note(tx, key_of(digest), &digest.to_string())?;
            import(tx, chain, router, head, &sent, &context)
        };
        match solver.store.write(unit).await? {
            Import::Known => {}
            Import::Settled => report.imported += 1,
            Import::Unknown => report.unknown += 1,
        }
        progress(at, total);
    }
    let unit = move |tx: &mut Tx<'_>| {
        lanes::raise_nonce(tx, chain, wallet, used)?;
        lanes::quarantine(tx, chain, wallet, None)?;
        if blocks::cursor(tx, chain)?.is_none() {
            let head = head_at(now);
            let cursor = blocks::Cursor { number: head.number, hash: head.hash };
            blocks::advance(tx, chain, cursor, head.timestamp(), 1)?;
            blocks::set_rescanned(tx, chain, now)?;
        }
        Ok::<_, SolverError>(())
    };
    solver.store.write(unit).await?;
    Ok(report)
}

/// All transfers out of the account, oldest first.
async fn history(venue: &VenueChain, now: u64) -> Result<Vec<Listed>, SolverError> {
    let token = venue.token(now).ok_or(SolverError::InvariantViolated("recovery needs the account's keys"))?;
    let (mut sent, mut cursor) = (Vec::<Listed>::new(), None);
    for _ in 0..MAX_PAGES {
        let page = venue.client.transfers(venue.account, &token, cursor.as_deref()).await?;
        for listed in page.transfers {
            if listed.from == venue.account && sent.iter().all(|known| known.hash != listed.hash) {
                sent.push(listed);
            }
        }
        if page.next.is_none() || page.next == cursor {
            sent.reverse();
            return Ok(sent);
        }
        cursor = page.next;
    }
    Err(VenueError::Invalid("the history does not end within the pages that are read").into())
}
