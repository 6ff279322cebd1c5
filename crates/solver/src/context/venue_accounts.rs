//! Accounts of the venue: whether an index exists, and whose wallet it belongs to.
//!
//! A quote names an account that nobody has asked about before perhaps once: only then it waits for the venue.
//! Everything after that, the paying commit included, reads memory.

use std::time::Duration;

use alloy::primitives::Address;
use domain::time::Timestamp;
use domain::venue::AccountIndex;
use tracing::debug;
use venue::{Client, VenueError};

use super::cache::Cache;
use crate::handle::venue::VenueChain;

/// Age at which an account is read again. It never disappears.
const ACCOUNT_TTL: Duration = Duration::from_secs(3_600);
/// The same for one that does not exist: it may be opened.
const MISSING_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct VenueAccounts {
    wallets: Cache<AccountIndex, Option<Address>>,
}

impl VenueAccounts {
    /// The wallet of an account: `Some(None)` where there is no such account, None where that is not known.
    pub fn known(&self, index: AccountIndex) -> Option<Option<Address>> {
        let (wallet, at) = self.wallets.get(&index)?;
        let fresh = if wallet.is_some() { ACCOUNT_TTL } else { MISSING_FOR };
        (at.elapsed() < fresh).then_some(wallet)
    }

    /// The wallet behind 20 bytes of a row of the venue, if it is known, however long ago it was read.
    pub fn wallet_of(&self, packed: Address) -> Option<Address> {
        let index = AccountIndex::unpacked(packed).ok()?;
        self.wallets.get(&index).and_then(|(wallet, _)| wallet)
    }

    /// Reads an account, unless it is known, and waits for it. The fee of our transfers is asked for beside it.
    pub async fn read(
        &self,
        venue: &VenueChain,
        index: AccountIndex,
        now: Timestamp,
    ) -> Result<Option<Address>, VenueError> {
        self.read_with(&venue.client, venue, index, now).await
    }

    /// The same for a quote, which anybody can ask for with any index: such reads have a small part of the quota, and
    /// those of callers without a key a smaller one.
    pub async fn read_for_quote(
        &self,
        venue: &VenueChain,
        index: AccountIndex,
        with_key: bool,
        now: Timestamp,
    ) -> Result<Option<Address>, VenueError> {
        self.read_with(&venue.client.for_quotes(with_key), venue, index, now).await
    }

    /// The same with a client of another purpose.
    pub(crate) async fn read_with(
        &self,
        client: &Client,
        venue: &VenueChain,
        index: AccountIndex,
        now: Timestamp,
    ) -> Result<Option<Address>, VenueError> {
        if let Some(known) = self.known(index) {
            return Ok(known);
        }
        let wallet = client.account(index).await?.map(|account| account.wallet);
        self.wallets.answered(index, Some(wallet));
        if wallet.is_some() {
            self.ask_fee(client, venue, index, now).await;
        }
        Ok(wallet)
    }

    /// Asks what a transfer of ours to this account costs. Between accounts of one wallet it is free, which says
    /// nothing about others.
    pub async fn learn_fee(&self, venue: &VenueChain, to: AccountIndex, now: Timestamp) {
        self.ask_fee(&venue.client, venue, to, now).await;
    }

    async fn ask_fee(&self, client: &Client, venue: &VenueChain, to: AccountIndex, now: Timestamp) {
        let ours = venue.keys.as_ref().map(|keys| keys.wallet.address());
        let secs = u64::try_from(now.secs()).unwrap_or_default();
        let (true, Some(token)) = (self.wallet_of(to.packed()) != ours, venue.token(secs)) else { return };
        match client.transfer_fee(venue.account, to, &token).await {
            Ok(fee) => venue.set_own_fee(fee),
            Err(error) => debug!(%error, "the fee of our transfers on the venue is not known"),
        }
    }
}
