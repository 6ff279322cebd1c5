//! The venue: its network and clock, the account, its keys, its balance, and what it has sent.

use alloy::primitives::U256;
use domain::money::Amount;
use solver::handle::venue::VenueChain;
use solver::{ChainHandle, Solver};
use store::{StoreError, Tx, lanes, payments};
use venue::AccountState;

use super::Findings;
use crate::env::clock;

/// The largest difference between the venue's clock and ours that the service starts with.
const MAX_CLOCK_DIFFERENCE_SECS: i64 = 30;

pub(super) async fn check(findings: &mut Findings, solver: &Solver, handle: &ChainHandle) {
    let Some(venue) = &handle.venue else { return };
    findings.warn(
        "the venue has one operator: its word is money there",
        "keep `risk.open_usd` at what an hour of it may cost you",
    );
    let status = match venue.client.status().await {
        Ok(status) => status,
        Err(error) => {
            let mend = "is the venue up, and are `venue.url` and `venue.network_id` right?";
            return findings.fail(solver::error::Chained(&error), mend);
        }
    };
    let apart = i64::try_from(status.time_millis / 1_000).unwrap_or(i64::MAX).saturating_sub(clock().secs());
    match apart.abs() <= MAX_CLOCK_DIFFERENCE_SECS {
        true => findings.ok(format!("the network is {}, and the clocks agree", venue.client.network().0)),
        false => findings.fail(format!("the venue's clock is {apart} seconds ahead"), "set the clock of this machine"),
    }
    let index = venue.account;
    let account = match venue.client.account(index).await {
        Ok(Some(account)) => account,
        Ok(None) => return findings.fail(format!("there is no account {index}"), "correct `venue.account`"),
        Err(error) => return findings.fail(solver::error::Chained(&error), "is the venue reachable?"),
    };
    findings.ok(format!("account {index} of wallet {}", account.wallet));
    check_balance(findings, handle, &account);
    check_keys(findings, venue, &account).await;
    check_nonces(findings, solver, handle, venue).await;
}

/// Deposits are filled, and withdrawals sent back, out of this balance alone.
fn check_balance(findings: &mut Findings, handle: &ChainHandle, account: &AccountState) {
    let (index, native) = (account.index, &handle.chain.native);
    let available = Amount::new(U256::from(account.available));
    let shown = available.formatted(native.decimals);
    if account.available == 0 {
        let mend = "fund it, from an account in `venue.sources`; until then nothing is filled there";
        return findings.fail(format!("account {index} has no USDC that it can pay"), mend);
    }
    match native.target {
        Some(target) if available.units().saturating_mul(U256::from(2)) < target.units() => {
            let what =
                format!("account {index} can pay only {shown} of the {} USDC", target.formatted(native.decimals));
            findings.warn(what, "fund it, from an account in `venue.sources`, or lower `venue.target`");
        }
        Some(_) | None => findings.ok(format!("it can pay {shown} USDC")),
    }
}

async fn check_keys(findings: &mut Findings, venue: &VenueChain, account: &AccountState) {
    let Some(keys) = &venue.keys else { return };
    if keys.wallet.address() != account.wallet {
        findings.fail(format!("the wallet key is that of {}", keys.wallet.address()), "correct `venue.wallet_key`");
    }
    match venue.client.public_key(account.index, venue.key_index).await {
        Ok(Some(key)) if key.bytes() == keys.api.public().bytes() => {
            findings.ok(format!("key {} is registered", venue.key_index.get()));
        }
        Ok(_) => findings.fail(
            format!("the key is not key {} of account {}", venue.key_index.get(), account.index),
            "register it with the venue, or correct `venue.api_key` and `venue.api_key_index`",
        ),
        Err(error) => findings.fail(solver::error::Chained(&error), "is the venue reachable?"),
    }
}

/// A database that knows fewer nonces than the venue is an old one, and a lane in quarantine pays nobody.
async fn check_nonces(findings: &mut Findings, solver: &Solver, handle: &ChainHandle, venue: &VenueChain) {
    let (chain, wallet, index) = (handle.id(), venue.account.packed(), venue.account);
    let read =
        move |tx: &mut Tx<'_>| Ok::<_, StoreError>((lanes::all(tx, chain)?, payments::unmined(tx, chain, wallet, 1)?));
    let (lanes, open) = match solver.store.read(read).await {
        Ok(read) => read,
        Err(error) => return findings.fail(solver::error::Chained(&error), "is the database healthy?"),
    };
    let lane = lanes.iter().find(|lane| lane.wallet == wallet);
    let known = lane.map_or(0, |lane| lane.next_nonce);
    let lowest_open = open.first().map_or(known, |stored| stored.payment.nonce);
    match venue.client.next_nonce(index, venue.key_index).await {
        Ok(used) if used.get() > known => findings.fail(
            format!("account {index} has used {} nonces, and the database knows {known}", used.get()),
            "stop the service, run `causeway recover`, start it again",
        ),
        Ok(used) => match venue.wrong_key_index(used.get(), lowest_open) {
            Some(why) => findings.fail(why, "the service makes no payments on the venue with this key"),
            None => findings.ok("the database knows every nonce that the account has used"),
        },
        // A key that is not registered has no nonce: that is told above.
        Err(error) => findings.fail(solver::error::Chained(&error), "is the venue reachable, and the key registered?"),
    }
    if let Some(why) = lane.and_then(|lane| lane.quarantined.as_ref()) {
        findings.fail(format!("account {index} is quarantined: {why}"), "make sure nothing else uses its key");
    }
}
