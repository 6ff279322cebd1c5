//! Transfers that the walk has passed: the venue lists a transfer under the time of its queueing, and only once it is
//! committed, so one that was queued for longer than the walk reads back is never listed before its cursor.
//!
//! A slow walk reads hours of the history again, a page and a few transfers in a round, with calls that nothing else
//! needs.

use std::sync::Arc;
use std::time::Instant;

use evm::Head;
use metrics::counter;
use tracing::{debug, info, warn};
use venue::{Client, VenueError};

use crate::chain::venue_walk::{Looked, look_at, unknown};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::VenueChain;
use crate::handle::venue_rescan::Pass;
use crate::solver::Solver;

/// Pages of one pass. A longer history is a person's to look at, with `causeway audit`.
const MAX_PAGES: usize = 256;
/// Transfers that one round reads by their hash.
const MAX_READS_PER_ROUND: usize = 4;

/// The seconds of the history that a pass takes transfers from: behind the walk, and within its reach.
#[derive(Clone, Copy, Debug)]
struct Span {
    oldest: u64,
    before: u64,
}

/// Goes on with the slow walk. True if it took a transfer in.
pub(super) async fn rescan(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    (cursor, began): (u64, u64),
    head: Head,
) -> Result<bool, SolverError> {
    let Some(mut pass) = venue.rescan.take(Instant::now()) else { return Ok(false) };
    let span = Span {
        oldest: head.time.saturating_sub(venue.rescan.reach_secs()).max(began),
        before: cursor.saturating_sub(venue.client.overlap().as_secs()),
    };
    let client = venue.client.spare();
    let result = match read_page(solver, handle, venue, &client, (&mut pass, span), head).await {
        Ok(()) => read_queued(solver, handle, venue, &client, &mut pass, head).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(took) => {
            venue.rescan.put_back(pass, Instant::now());
            Ok(took)
        }
        // The round goes on without it: whatever waits here has waited before.
        Err(SolverError::Venue(error)) if is_passing(&error) => {
            debug!(%error, "the slow walk along the venue waits");
            venue.rescan.put_back(pass, Instant::now());
            Ok(false)
        }
        Err(SolverError::Venue(error)) => {
            warn!(%error, "the slow walk along the venue begins again later");
            venue.rescan.give_up(Instant::now());
            Ok(false)
        }
        Err(error) => {
            venue.rescan.put_back(pass, Instant::now());
            Err(error)
        }
    }
}

fn is_passing(error: &VenueError) -> bool {
    match error {
        VenueError::QuotaUsed(_) | VenueError::Busy(_) | VenueError::Unreachable(_) | VenueError::Failing(_) => true,
        VenueError::Refused { .. }
        | VenueError::TooLarge(_)
        | VenueError::Invalid(_)
        | VenueError::Json(_)
        | VenueError::BaseUrl => false,
    }
}

/// Reads the next page, unless transfers of the last one still wait.
async fn read_page(
    solver: &Arc<Solver>,
    handle: &ChainHandle,
    venue: &VenueChain,
    client: &Client,
    (pass, span): (&mut Pass, Span),
    head: Head,
) -> Result<(), SolverError> {
    if pass.read_all || !pass.queue.is_empty() {
        return Ok(());
    }
    let token = venue.token(head.time).ok_or(SolverError::InvariantViolated("a walk without the account's key"))?;
    let page = client.transfers(venue.account, &token, pass.page.as_deref()).await?;
    let secs = |millis: u64| millis / 1_000;
    let passed = !page.transfers.is_empty() && page.transfers.iter().all(|it| secs(it.time_millis) < span.oldest);
    let mut within = page.transfers;
    let now = Instant::now();
    within.retain(|it| {
        (span.oldest..span.before).contains(&secs(it.time_millis)) && !venue.no_deposits.has(it.hash, now)
    });
    within.sort_by_key(|it| (it.time_millis, it.hash));
    within.dedup_by_key(|it| it.hash);
    pass.queue = unknown(solver, handle, venue, within, span.oldest).await?.into();
    pass.pages = pass.pages.saturating_add(1);
    if pass.pages >= MAX_PAGES {
        warn!(chain.id = %handle.id(), "the venue's history is longer than the slow walk reads: `causeway audit` reads all");
    }
    pass.read_all = passed || page.next.is_none() || page.next == pass.page || pass.pages >= MAX_PAGES;
    pass.page = page.next;
    Ok(())
}

/// Reads queued transfers, and stores those that are not known. One that is not executed, or not shown, has its turn
/// again in the next pass.
async fn read_queued(
    solver: &Arc<Solver>,
    handle: &Arc<ChainHandle>,
    venue: &VenueChain,
    client: &Client,
    pass: &mut Pass,
    head: Head,
) -> Result<bool, SolverError> {
    let mut took = false;
    for _ in 0..MAX_READS_PER_ROUND {
        let Some(hash) = pass.queue.front().map(|it| it.hash) else { break };
        let looked = match look_at(solver, handle, (venue, client), hash, head).await {
            // The others do not wait for it.
            Err(SolverError::Venue(error)) if !is_passing(&error) => {
                debug!(%hash, %error, "a transfer that the walk has passed cannot be read");
                Looked::Open
            }
            looked => looked?,
        };
        if looked == Looked::Stored {
            info!(chain.id = %handle.id(), %hash, "the venue listed a transfer after the walk had passed its time");
            counter!("causeway_venue_late_transfers_total").increment(1);
            took = true;
        }
        if looked != Looked::Open {
            venue.missed.read(hash);
        }
        pass.queue.pop_front();
    }
    Ok(took)
}
