//! The checks before the walk along the venue begins, and where it begins.

use store::blocks::Cursor;
use store::{Tx, blocks, chain_states, lanes, payments};
use tracing::{error, info};

use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, VenueKeys, is_in_time};
use crate::payments::venue_tx::head_at;
use crate::solver::Solver;

/// Seconds of the walk that are kept.
pub(super) const KEPT_SECONDS: u64 = 7_200;

/// The end of the start-up checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    Passed,
    /// A person has to change something, and to start us again.
    Failed,
    /// The venue has used fewer nonces than have ended here. It may only be late with the last one, so it is asked
    /// again.
    Behind,
}

/// The start-up checks. They compare the network, the clock, the account, its keys and its nonce with ours: a database
/// that knows fewer nonces than the venue is an old backup, and could pay twice; one whose payments are ahead of the
/// venue has another key than they were made for, and none of them could ever be sent.
pub(super) async fn start_checks(
    solver: &Solver,
    handle: &ChainHandle,
    venue: &VenueChain,
) -> Result<Checked, SolverError> {
    let (chain, wallet) = (handle.id(), venue.account.packed());
    solver.store.write(move |tx| lanes::register(tx, chain, wallet)).await?;
    let status = venue.client.status().await?;
    let theirs = i64::try_from(status.time_millis / 1_000).unwrap_or(i64::MAX);
    let apart = theirs.saturating_sub(solver.now().secs());
    if !is_in_time(status.time_millis / 1_000, solver.now()) {
        handle.health.refuse(Some(format!("the venue's clock is {apart} seconds ahead of ours: set the clock")));
        return Err(SolverError::InvariantViolated("the venue's clock differs from ours"));
    }
    let keys =
        venue.keys.as_ref().ok_or(SolverError::InvariantViolated("the worker has no keys of the venue's account"))?;
    if let Some(why) = wrong_account(venue, keys).await? {
        error!(chain.id = %chain, "{why}");
        refuse(solver, handle, Some(why)).await?;
        return Ok(Checked::Failed);
    }
    let used = venue.client.next_nonce(venue.account, venue.key_index).await?.get();
    let read =
        move |tx: &mut Tx<'_>| Ok::<_, SolverError>((lanes::all(tx, chain)?, payments::unmined(tx, chain, wallet, 1)?));
    let (known, open) = solver.store.read(read).await?;
    let ours = known.iter().find(|lane| lane.wallet == wallet).map_or(0, |lane| lane.next_nonce);
    let lowest_open = open.first().map_or(ours, |stored| stored.payment.nonce);
    if used > ours {
        let why = format!(
            "the database is older than the venue: account {} has used {used} nonces there and the database knows {ours}; \
             no payments are made on the venue until `causeway recover` has imported what was sent",
            venue.account
        );
        error!(chain.id = %chain, "{why}");
        refuse(solver, handle, Some(why)).await?;
        return Ok(Checked::Failed);
    }
    if let Some(why) = venue.wrong_key_index(used, lowest_open) {
        if handle.health.refusing().is_none_or(|told| *told != why) {
            error!(chain.id = %chain, "{why}");
        }
        refuse(solver, handle, Some(why)).await?;
        return Ok(Checked::Behind);
    }
    begin(solver, handle, status.time_millis / 1_000).await?;
    refuse(solver, handle, None).await?;
    Ok(Checked::Passed)
}

/// The reason why the configured keys are not those of the configured account.
async fn wrong_account(venue: &VenueChain, keys: &VenueKeys) -> Result<Option<String>, SolverError> {
    let (account, index) = (venue.account, venue.key_index.get());
    let Some(state) = venue.client.account(account).await? else {
        return Ok(Some(format!("the venue has no account {account}: correct `venue.account`")));
    };
    if state.wallet != keys.wallet.address() {
        let (theirs, ours) = (state.wallet, keys.wallet.address());
        return Ok(Some(format!("account {account} is {theirs}'s, and `venue.wallet_key` is the key of {ours}")));
    }
    let registered = venue.client.public_key(account, venue.key_index).await?;
    if registered.is_none_or(|key| key.bytes() != keys.api.public().bytes()) {
        return Ok(Some(format!("`venue.api_key` is not key {index} of account {account}")));
    }
    Ok(None)
}

/// Publishes the reason why no payments are made here, or None if they are, to this process and all others.
async fn refuse(solver: &Solver, handle: &ChainHandle, why: Option<String>) -> Result<(), SolverError> {
    let (chain, told) = (handle.id(), why.clone());
    if why.is_some() {
        handle.health.refuse(why.clone());
    }
    solver.store.write(move |tx| chain_states::put(tx, chain, told.as_deref())).await?;
    handle.health.refuse(why);
    Ok(())
}

/// Notes where the walk begins, with a database that is new to the venue: transfers before that are not deposits.
async fn begin(solver: &Solver, handle: &ChainHandle, now_secs: u64) -> Result<(), SolverError> {
    let chain = handle.id();
    let unit = move |tx: &mut Tx<'_>| {
        if blocks::cursor(tx, chain)?.is_some() {
            return Ok(false);
        }
        blocks::advance(tx, chain, cursor(now_secs), head_at(now_secs).timestamp(), KEPT_SECONDS)?;
        blocks::set_rescanned(tx, chain, now_secs)?;
        Ok::<_, SolverError>(true)
    };
    if solver.store.write(unit).await? {
        info!(chain.id = %chain, "following the venue from second {now_secs}");
    }
    Ok(())
}

pub(super) fn cursor(secs: u64) -> Cursor {
    Cursor { number: secs, hash: head_at(secs).hash }
}
