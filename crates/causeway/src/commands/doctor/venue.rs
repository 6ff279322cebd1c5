//! The venue: its network and clock, the account, its keys and its balance.

use solver::ChainHandle;
use solver::handle::venue::VenueChain;

use super::Findings;
use crate::env::clock;

/// The largest difference between the venue's clock and ours that the service starts with.
const MAX_CLOCK_DIFFERENCE_SECS: i64 = 30;

pub(super) async fn check(findings: &mut Findings, handle: &ChainHandle) {
    let Some(venue) = &handle.venue else { return };
    findings.warn(
        "the venue has one operator: its word is money there",
        "keep `risk.open_usd` at what an hour of it may cost you",
    );
    let status = match venue.client.status().await {
        Ok(status) => status,
        Err(error) => return findings.fail(error, "is `venue.url` right, and `venue.network_id`?"),
    };
    let apart = i64::try_from(status.time_millis / 1_000).unwrap_or(i64::MAX).saturating_sub(clock().secs());
    match apart.abs() <= MAX_CLOCK_DIFFERENCE_SECS {
        true => findings.ok(format!("the network is {}, and the clocks agree", venue.client.network().0)),
        false => findings.fail(format!("the venue's clock is {apart} seconds ahead"), "set the clock of this machine"),
    }
    check_account(findings, venue).await;
}

async fn check_account(findings: &mut Findings, venue: &VenueChain) {
    let index = venue.account;
    let account = match venue.client.account(index).await {
        Ok(Some(account)) => account,
        Ok(None) => return findings.fail(format!("there is no account {index}"), "correct `venue.account`"),
        Err(error) => return findings.fail(error, "is the venue reachable?"),
    };
    findings.ok(format!("account {index} of wallet {}", account.wallet));
    if account.available == 0 {
        findings.warn(format!("account {index} has no USDC"), "fund it, from an account in `venue.sources`");
    } else {
        findings.ok(format!("it can pay {} units of USDC", account.available));
    }
    let Some(keys) = &venue.keys else { return };
    if keys.wallet.address() != account.wallet {
        findings.fail(format!("the wallet key is that of {}", keys.wallet.address()), "correct `venue.wallet_key`");
    }
    match venue.client.public_key(index, venue.key_index).await {
        Ok(Some(key)) if key.bytes() == keys.api.public().bytes() => {
            findings.ok(format!("key {} is registered", venue.key_index.get()));
        }
        Ok(_) => findings.fail(
            format!("the key is not key {} of account {index}", venue.key_index.get()),
            "register it with the venue, or correct `venue.api_key` and `venue.api_key_index`",
        ),
        Err(error) => findings.fail(error, "is the venue reachable?"),
    }
}
