//! Recovery of a restored database on the venue: the payments that the account's history shows are imported.
//!
//! A payment is known by its memo, as one on a chain is by the last bytes of its calldata.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, U256};
use domain::money::Amount;
use domain::venue::{Holding, TxStatus};
use store::{Tx, blocks, lanes, venue_txs};
use tracing::warn;
use venue::{Listed, VenueError, VenueTx};

use super::recover::{Import, Report, import};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, key_of};
use crate::handle::venue_patience::patiently;
use crate::payments::venue_tx::{head_at, sent_tx};
use crate::solver::Solver;

/// Time between two looks at the history while it does not explain every nonce.
const LIST_INTERVAL: Duration = Duration::from_secs(10);
/// Unexplained nonces that are named.
const MAX_SHOWN_NONCES: usize = 32;
/// Pages of the history that are read.
const MAX_PAGES: usize = 10_000;

/// Whether recovery goes on where the venue has used nonces of ours and lists no transfer for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// A transfer that is not listed may have paid: the recovery ends with an error.
    Refused,
    /// A person knows that these transfers have failed.
    Failed,
}

/// Imports what the account has paid. `progress` is called for every transfer. Nothing else may be running on this
/// database.
pub async fn recover(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    unlisted: Unlisted,
    progress: impl Fn(u64, u64),
) -> Result<Report, SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
    let now = patiently(|| venue.client.status()).await?.time_millis / 1_000;
    let lanes = solver.store.read(move |tx| lanes::all(tx, chain)).await?;
    let known = lanes.iter().find(|lane| lane.wallet == wallet).map_or(0, |lane| lane.next_nonce);
    // Read before the history: whatever has used a nonce below it is listed, or holds the recovery up.
    let used = patiently(|| venue.client.next_nonce(venue.account, venue.key_index)).await?.get();
    let mut sent = whole_history(solver, venue, known..used, unlisted).await?;
    // Of two transfers with one nonce the one that was executed counts, and comes first.
    sent.sort_by_key(|(_, tx)| tx.status != TxStatus::Executed);
    let total = u64::try_from(sent.len()).unwrap_or(u64::MAX);
    let mut report = Report { blocks: total, ..Report::default() };
    for (at, (listed, tx)) in (1..).zip(sent) {
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
        let (context, paid, head) = (solver.context(), paid(&tx), head_at(listed.time_millis / 1_000));
        let digest = tx.hash;
        let unit = move |tx: &mut Tx<'_>| {
            venue_txs::note(tx, key_of(digest), &digest.to_string())?;
            import(tx, chain, paid, head, &sent, &context)
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

/// Currency, recipient and amount of a transfer of ours.
fn paid(tx: &VenueTx) -> Option<(Address, Address, Amount)> {
    let transfer = tx.transfer.as_ref()?.transfer;
    let currency = Holding { asset: transfer.asset, route: transfer.to_route }.deposited_currency().packed()?;
    Some((currency, transfer.to.packed(), Amount::new(U256::from(transfer.amount.get()))))
}

/// The account's transfers, once they explain these nonces: a transfer that the venue holds and does not list would be
/// paid again. Those that stay unexplained when none of them can be executed any more are for a person to judge.
async fn whole_history(
    solver: &Solver,
    venue: &VenueChain,
    nonces: Range<u64>,
    unlisted: Unlisted,
) -> Result<Vec<(Listed, VenueTx)>, SolverError> {
    let began = Instant::now();
    let mut shown = BTreeMap::<B256, VenueTx>::new();
    loop {
        let now = u64::try_from(solver.now().secs()).unwrap_or_default();
        let sent = history(venue, now).await?;
        for listed in &sent {
            if shown.contains_key(&key_of(listed.hash)) {
                continue;
            }
            let tx = patiently(|| venue.client.transaction(listed.hash)).await?;
            let missing = "the venue lists a transfer of ours and does not show it";
            shown.insert(key_of(listed.hash), tx.ok_or(SolverError::InvariantViolated(missing))?);
        }
        let of_ours = |tx: &VenueTx| {
            let transfer = tx.transfer.as_ref().map(|signed| signed.transfer)?;
            (transfer.key_index == venue.key_index).then_some(transfer.nonce.get())
        };
        let explained: BTreeSet<u64> = shown.values().filter_map(of_ours).collect();
        let unexplained: Vec<u64> =
            nonces.clone().filter(|nonce| !explained.contains(nonce)).take(MAX_SHOWN_NONCES).collect();
        let late = began.elapsed() > venue.unlisted_timeout;
        if late && !unexplained.is_empty() && unlisted == Unlisted::Refused {
            return Err(SolverError::Unlisted { nonces: unexplained });
        }
        if unexplained.is_empty() || late {
            let shown = |listed: Listed| shown.remove(&key_of(listed.hash)).map(|tx| (listed, tx));
            return Ok(sent.into_iter().filter_map(shown).collect());
        }
        warn!(?unexplained, "the venue has used nonces of ours and does not list their transfers yet: waiting for it");
        tokio::time::sleep(LIST_INTERVAL.min(venue.unlisted_timeout)).await;
    }
}

/// All transfers out of the account, oldest first.
async fn history(venue: &VenueChain, now: u64) -> Result<Vec<Listed>, SolverError> {
    let token = venue.token(now).ok_or(SolverError::InvariantViolated("recovery needs the account's keys"))?;
    let (mut sent, mut known, mut cursor) = (Vec::<Listed>::new(), BTreeSet::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let page = patiently(|| venue.client.transfers(venue.account, &token, cursor.as_deref())).await?;
        let ours = page.transfers.into_iter().filter(|listed| listed.from == venue.account);
        sent.extend(ours.filter(|listed| known.insert(listed.hash)));
        if page.next.is_none() {
            sent.reverse();
            return Ok(sent);
        }
        if page.next == cursor {
            return Err(VenueError::Invalid("cursor does not move").into());
        }
        cursor = page.next;
    }
    Err(VenueError::Invalid("the history does not end within the pages that are read").into())
}
