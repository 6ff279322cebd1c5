//! The walk along the venue: transfers into our account become deposits, and payments of ours that have ended are
//! applied.
//!
//! The venue has no blocks. Its second stands for one: a round reads the clock, then the payments on their way and the
//! transfers since the cursor. Its operator's word is all there is, so a transaction counts once it is executed and a
//! second read shows the same; what that word may cost is bounded by the chain's risk budget until a deposit is final.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256};
use domain::alarm::Alarm;
use evm::{Head, SeenDeposit};
use metrics::counter;
use serde_json::json;
use store::{Tx, blocks, deposits};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use venue::{Client, Digest, Listed, Mark, VenueError, VenueTx};

use crate::chain::apply_block::{Finals, apply_late, apply_ripe, publish_committed};
use crate::chain::tx_hints::{Name, announce};
use crate::chain::venue_payments::{apply_payments, name, settled};
use crate::chain::venue_start::{Checked, KEPT_SECONDS, cursor, start_checks};
use crate::chain::{venue_finality, venue_rescan, venue_voids};
use crate::error::{Chained, SolverError};
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, is_in_time, key_of};
use crate::handle::venue_hints::{Missed, Turn};
use crate::payments::venue_tx::{deposit, head_at, sender};
use crate::solver::Solver;

const RETRY_INTERVAL: Duration = Duration::from_millis(500);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time between two checks of a venue that has used fewer nonces than have ended: each is four calls.
const MAX_RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two rounds while payments are on their way.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// Pages of the history that one round reads. A walk that does not reach its mark takes nothing in.
const MAX_PAGES: usize = 64;
/// Transfers that one round reads by their hash. The rest have their turn in the next.
const MAX_READS_PER_ROUND: usize = 64;

/// Follows the venue until told to stop. After an error it waits and goes on from the same cursor.
pub async fn run(solver: Arc<Solver>, handle: Arc<ChainHandle>, stop: CancellationToken) {
    let Some(venue) = &handle.venue else { return };
    let mut pause = RETRY_INTERVAL;
    loop {
        match walk(&solver, &handle, venue, &stop, &mut pause).await {
            Ok(()) => return,
            Err(failure) => {
                warn!(chain.id = %handle.id(), error = %Chained(&failure), "cannot follow the venue, trying again");
                counter!("causeway_follow_errors_total", "chain" => handle.id().to_string()).increment(1);
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RETRY_INTERVAL),
        }
    }
}

async fn walk(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    stop: &CancellationToken,
    pause: &mut Duration,
) -> Result<(), SolverError> {
    let mut recheck = RETRY_INTERVAL;
    while handle.health.refusing().is_some() {
        match start_checks(solver, handle, venue).await? {
            Checked::Passed => break,
            Checked::Failed => {
                stop.cancelled().await;
                return Ok(());
            }
            Checked::Behind => tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(recheck) => recheck = (recheck * 2).min(MAX_RECHECK_INTERVAL),
            },
        }
    }
    let mut woken = solver.store.woken();
    loop {
        let began = Instant::now();
        let busy = round(solver, handle, venue).await?;
        *pause = RETRY_INTERVAL;
        let interval = if busy { venue.poll_interval.min(BUSY_INTERVAL) } else { venue.poll_interval };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(interval) => {}
            // A client says that it has sent a transfer: the next round finds it in the list, whichever it is.
            () = handle.tx_hints.more.notified() => {
                while !handle.tx_hints.due(Instant::now()).is_empty() {}
                // Anybody may say so, as often as they like, and a round costs calls that payments need.
                tokio::time::sleep((venue.poll_interval / 2).saturating_sub(began.elapsed())).await;
            }
            changed = woken.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

/// One look at the venue. True if payments of ours are on their way.
async fn round(solver: &Arc<Solver>, handle: &Arc<ChainHandle>, venue: &VenueChain) -> Result<bool, SolverError> {
    let chain = handle.id();
    let from =
        solver.store.read(move |tx| Ok::<_, SolverError>((blocks::cursor(tx, chain)?, blocks::rescanned(tx, chain)?)));
    let (Some(at), Some(began)) = from.await? else {
        return Err(SolverError::InvariantViolated("the walk along the venue has no beginning"));
    };
    let theirs = venue.client.status().await?.time_millis / 1_000;
    // The cursor never goes back: a clock that jumped ahead once would carry it past every transfer until then.
    if !is_in_time(theirs, solver.now()) {
        return Err(SolverError::InvariantViolated("the venue's clock differs from ours"));
    }
    let head = head_at(theirs.max(at.number));
    let busy = apply_payments(solver, handle, venue, head).await?;
    let transfers = match apply_transfers(solver, handle, venue, (at.number, began), head).await {
        // There is no call left for the list. Rows that are known do not need it: they go on, and the round ends with
        // this.
        Err(SolverError::Venue(error @ VenueError::QuotaUsed(_))) => Err(error),
        transfers => Ok(transfers?),
    };
    let mut took = transfers.as_ref().is_ok_and(|(_, took)| *took);
    took |= take_hinted(solver, handle, venue, began, head).await?;
    took |= venue_rescan::rescan(solver, handle, venue, (at.number, began), head).await?;
    handle.health.walked(head.number, true);
    let deposits = venue_finality::verified(solver, handle, venue, head).await?;
    let voids = venue_voids::verified(solver, handle, venue, head).await?;
    let finals = Finals::Only { deposits, voids };
    apply_ripe(solver, handle, head, finals).await?;
    publish_committed(solver, handle, head.number).await?;
    if took {
        solver.crash("cursor.before");
    }
    let (done_until, _) = transfers?;
    let (to, time) = (cursor(done_until), head_at(done_until).timestamp());
    let unit = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(blocks::advance(tx, chain, to, time, KEPT_SECONDS)?);
    solver.store.write(unit).await?;
    handle.health.taken.send_replace(head.number);
    Ok(busy)
}

/// Applies the transfers since the cursor. Returns the second up to which every transfer is applied, and whether there
/// was one.
async fn apply_transfers(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    (cursor, began): (u64, u64),
    head: Head,
) -> Result<(u64, bool), SolverError> {
    let token = venue.token(head.time).ok_or(SolverError::InvariantViolated("a walk without the account's key"))?;
    let since = Mark { time_millis: cursor.saturating_mul(1_000) };
    let mut listed = venue.client.incoming_since(venue.account, &token, Some(since), MAX_PAGES).await?.transfers;
    let now = Instant::now();
    listed.retain(|it| !venue.no_deposits.has(it.hash, now));
    let fresh = unknown(solver, handle, venue, listed, began).await?;
    let Turns { reads, given_up, mut held } = turns(&venue.missed, fresh, head.time, MAX_READS_PER_ROUND);
    given_up.into_iter().for_each(|hash| give_up(handle, hash));
    let (mut took, mut reads) = (false, reads.into_iter());
    while let Some(it) = reads.next() {
        let looked = match look_at(solver, handle, (venue, &venue.client), it.hash, head).await {
            // Anybody can send us a transfer that cannot be read. It waits, and the others do not.
            Err(SolverError::Venue(
                error @ (VenueError::Invalid(_) | VenueError::Json(_) | VenueError::TooLarge(_)),
            )) => {
                warn!(hash = %it.hash, %error, "a transfer into our account cannot be read");
                Looked::Open
            }
            // There are no more calls. The rest of the round needs few or none, and nobody misses what was not read.
            Err(SolverError::Venue(error @ (VenueError::QuotaUsed(_) | VenueError::Busy(_)))) => {
                debug!(%error, "transfers into our account wait to be read");
                held.hold(&it);
                reads.for_each(|it| held.hold(&it));
                break;
            }
            looked => looked?,
        };
        if looked != Looked::Open {
            venue.missed.read(it.hash);
            took |= looked == Looked::Stored;
        } else if venue.missed.is_given_up(it.hash, head.time) {
            give_up(handle, it.hash);
        } else {
            held.hold(&it);
        }
    }
    Ok((held.done(head.number).max(cursor), took))
}

/// The oldest second of a transfer that is not applied. It holds the cursor back: a later round lists the transfer
/// again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held(Option<u64>);

impl Held {
    fn hold(&mut self, listed: &Listed) {
        let secs = listed.time_millis / 1_000;
        self.0 = Some(self.0.map_or(secs, |oldest| oldest.min(secs)));
    }

    /// The second up to which nothing waits.
    fn done(self, now_secs: u64) -> u64 {
        self.0.map_or(now_secs, |oldest| oldest.saturating_sub(1).min(now_secs))
    }
}

/// The transfers of a round: those that it reads, in this order, and those that it does not.
#[derive(Debug, PartialEq, Eq)]
struct Turns {
    reads: Vec<Listed>,
    given_up: Vec<Digest>,
    held: Held,
}

/// Gives transfers their turns. Those that were never missed come first: anybody can send us some that cannot be read,
/// and the others must not stand behind them.
fn turns(missed: &Missed, fresh: Vec<Listed>, now_secs: u64, most: usize) -> Turns {
    let (mut reads, mut again, mut given_up, mut held) = (Vec::new(), Vec::new(), Vec::new(), Held::default());
    for it in fresh {
        match missed.turn(it.hash, now_secs) {
            Turn::First => reads.push(it),
            Turn::Again => again.push(it),
            Turn::Later => held.hold(&it),
            Turn::Never => given_up.push(it.hash),
        }
    }
    reads.append(&mut again);
    reads.iter().skip(most).for_each(|it| held.hold(it));
    reads.truncate(most);
    Turns { reads, given_up, held }
}

/// Tells a person of a transfer that nothing waits for any more.
fn give_up(handle: &ChainHandle, hash: Digest) {
    let what = format!("the venue lists transfer {hash} into our account and does not show it");
    handle.health.alarms.raise(Alarm::DepositDoubtful, what);
}

/// The transfers that are no deposits of ours yet, oldest first.
pub(super) async fn unknown(
    solver: &Arc<Solver>,
    handle: &ChainHandle,
    venue: &VenueChain,
    listed: Vec<Listed>,
    began: u64,
) -> Result<Vec<Listed>, SolverError> {
    let ours = |it: &Listed| it.to == venue.account && it.from != venue.account && !venue.sources.contains(&it.from);
    let listed: Vec<Listed> = listed.into_iter().filter(|it| ours(it) && it.time_millis / 1_000 >= began).collect();
    if listed.is_empty() {
        return Ok(listed);
    }
    let chain = handle.id();
    let read = move |tx: &mut Tx<'_>| {
        let mut fresh = Vec::new();
        for it in &listed {
            if deposits::find(tx, chain, key_of(it.hash), 0)?.is_none() {
                fresh.push(it.clone());
            }
        }
        Ok::<_, SolverError>(fresh)
    };
    solver.store.read(read).await
}

/// Takes in one transfer of the list, with the client of whoever looks.
pub(super) async fn look_at(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    (venue, client): (&VenueChain, &Client),
    hash: Digest,
    head: Head,
) -> Result<Looked, SolverError> {
    match client.transaction(hash).await? {
        Some(tx) => apply_tx(solver, handle, (venue, client), tx, head).await,
        None => Ok(Looked::Open),
    }
}

/// Takes in a transfer that a client named and that the list has not shown, however late the venue lists it: one in a
/// round, because anybody names whatever they like. True if there was one.
async fn take_hinted(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    began: u64,
    head: Head,
) -> Result<bool, SolverError> {
    let Some(hint) = venue.hints.next(Instant::now()) else { return Ok(false) };
    let tx = match venue.client.transaction(hint.hash).await {
        Ok(tx) => tx,
        Err(error) => {
            debug!(hash = %hint.hash, %error, "a transfer that a client named cannot be read now");
            None
        }
    };
    let Some((tx, transfer)) = tx.and_then(|tx| tx.transfer.map(|signed| (tx, signed.transfer))) else {
        venue.hints.again(hint, Instant::now(), venue.poll_interval);
        return Ok(false);
    };
    let named = Listed { hash: tx.hash, from: transfer.from, to: transfer.to, time_millis: tx.queued_at };
    if unknown(solver, handle, venue, vec![named], began).await?.is_empty() {
        return Ok(false);
    }
    match apply_tx(solver, handle, (venue, &venue.client), tx, head).await {
        Ok(Looked::Stored) => Ok(true),
        Ok(Looked::NoDeposit) => Ok(false),
        // It is on its way, or the venue does not answer: the list is not held up by it.
        Ok(Looked::Open) | Err(SolverError::Venue(_)) => {
            venue.hints.again(hint, Instant::now(), venue.poll_interval);
            let names = transfer.memo.order().map(Name::Order).into_iter().collect();
            let figures = json!({ "chain": handle.id().0, "tx": hint.hash.to_string(), "mined": false });
            announce(solver, handle.id(), names, figures).await?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// True if a transfer into our account was made with another fee than quotes of withdrawals state. Between accounts of
/// one wallet there is none.
fn is_fee_other(venue: &VenueChain, seen: &SeenDeposit, wallet: Address) -> bool {
    let ours = venue.keys.as_ref().is_some_and(|keys| keys.wallet.address() == wallet);
    !ours && seen.fee != Some(U256::from(venue.user_fee))
}

/// A transfer after a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// It has not ended yet, or is not shown.
    Open,
    /// It has ended, and nobody paid us with it.
    NoDeposit,
    Stored,
}

/// Takes in a transfer that the venue shows.
async fn apply_tx(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    (venue, client): (&VenueChain, &Client),
    tx: VenueTx,
    head: Head,
) -> Result<Looked, SolverError> {
    let Some(tx) = settled(client, tx).await? else { return Ok(Looked::Open) };
    // Whatever is no deposit has no row: without this it would be read in every round.
    let none = || {
        debug!(hash = %tx.hash, "a listed transfer is no deposit");
        venue.no_deposits.note(tx.hash, Instant::now());
        Ok(Looked::NoDeposit)
    };
    let Some(from) = sender(&tx) else { return none() };
    let wallet = solver.venue_accounts.read_with(client, venue, from, solver.now()).await?;
    let Some(wallet) = wallet else { return Ok(Looked::Open) };
    let Some(seen) = deposit(venue, &tx, wallet) else { return none() };
    name(solver, &[tx.hash]).await?;
    if is_fee_other(venue, &seen, wallet) {
        let (signed, stated) = (seen.fee.unwrap_or_default(), venue.user_fee);
        warn!(hash = %tx.hash, %signed, stated, "a user's transfer has another fee than `venue.user_fee`, which quotes state");
        counter!("causeway_venue_user_fees_differ_total").increment(1);
    }
    counter!("causeway_deposits_seen_total", "chain" => handle.id().to_string()).increment(1);
    // A deposit's time is that of its queueing; its place is the second in which it was seen.
    apply_late(solver, handle, Head { time: tx.queued_at / 1_000, ..head }, vec![seen]).await?;
    solver.crash("deposit.committed");
    Ok(Looked::Stored)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Bytes;
    use domain::venue::AccountIndex;
    use evm::Id;

    use super::*;
    use crate::handle::venue::tests::chain;

    #[test]
    fn a_fee_that_quotes_do_not_state_is_noticed() {
        let venue = chain();
        let seen = |fee: u64| SeenDeposit {
            tx: Default::default(),
            tx_index: 0,
            ordinal: 0,
            log_index: 0,
            id: Id::None,
            depositor: Address::ZERO,
            payer: Address::ZERO,
            sender: Address::ZERO,
            currency: Address::ZERO,
            amount: U256::from(1),
            to: None,
            input: Bytes::new(),
            value: U256::ZERO,
            fee: Some(U256::from(fee)),
        };
        let (ours, theirs) = (venue.keys.as_ref().unwrap().wallet.address(), Address::repeat_byte(9));
        assert!(!is_fee_other(&venue, &seen(venue.user_fee), theirs));
        assert!(is_fee_other(&venue, &seen(0), theirs) && is_fee_other(&venue, &seen(venue.user_fee + 1), theirs));
        assert!(!is_fee_other(&venue, &seen(0), ours));
    }

    fn listed(n: u64, secs: u64) -> Listed {
        let index = |n| AccountIndex::new(n).unwrap();
        let hash = format!("{n:080x}").parse().unwrap();
        Listed { hash, from: index(1), to: index(2), time_millis: secs * 1_000 }
    }

    #[test]
    fn transfers_that_cannot_be_read_hold_up_neither_the_others_nor_the_cursor_for_ever() {
        let (missed, now) = (Missed::default(), 1_000_000);
        let (stuck, gone, new) = (listed(1, 100), listed(2, 110), listed(3, 120));
        missed.is_given_up(stuck.hash, now);
        let all = vec![stuck.clone(), gone.clone(), new.clone()];
        let first = turns(&missed, all.clone(), now, 2);
        assert_eq!(first.reads, [gone.clone(), new.clone()], "one that was missed stands behind the others");
        assert_eq!(first.held.done(now), 99, "it has no turn in this round, and is not passed");
        missed.is_given_up(stuck.hash, now + 100);
        let waits = turns(&missed, all.clone(), now + 120, 64);
        assert_eq!((waits.reads.len(), waits.held.done(now)), (2, 99), "it is not due");
        for hash in [stuck.hash, gone.hash] {
            missed.is_given_up(hash, now);
            missed.is_given_up(hash, now + 10_000);
        }
        let last = turns(&missed, all, now + 20_000, 1);
        let expected = Turns { reads: vec![new], given_up: vec![stuck.hash, gone.hash], held: Held(None) };
        assert_eq!(last, expected, "given up ones use no turn and hold nothing");
        assert_eq!(last.held.done(now), now);
    }

    #[test]
    fn transfers_beyond_a_rounds_reads_hold_the_cursor() {
        let fresh: Vec<Listed> = (0..5).map(|n| listed(n, 200 + n)).collect();
        let round = turns(&Missed::default(), fresh.clone(), 1_000, 3);
        assert_eq!((round.reads, round.held.done(1_000)), (fresh[..3].to_vec(), 202));
    }
}
