//! The venue's HTTP API, as far as transfers need it.
//!
//! Every answer is bounded in size and checked against the question before anybody sees it. Reading is tried again;
//! sending is not: an error may come after the venue has taken the transaction, and its hash, known beforehand, says
//! whether it has.

mod answers;
mod error;
mod fetch;
mod history;
mod quota;
mod send;

use std::time::Duration;

use alloy_primitives::Address;
use domain::venue::AccountIndex;
use url::Url;

pub use self::answers::{AccountState, Status, VenueTx};
pub use self::error::VenueError;
pub use self::history::{Listed, Mark, Page, Transfers};
pub use self::quota::Quota;
pub use self::send::Sent;

use self::answers::{Accounts, ApiKeys, FeeAnswer, NextNonce, StatusAnswer, TxAnswer};
use self::fetch::{Fetch, Query};
use self::history::OVERLAP;
use self::quota::Purpose;
use crate::auth::AuthToken;
use crate::field::Digest;
use crate::key::PublicKey;
use crate::limits::{Fee, KeyIndex, Nonce};
use crate::network::Network;

/// Weights of calls in the venue's rate limits.
mod weight {
    pub(super) const SEND: u32 = 6;
    pub(super) const NONCE: u32 = 6;
    pub(super) const KEYS: u32 = 150;
    pub(super) const FEE: u32 = 500;
    pub(super) const OTHER: u32 = 300;
}

#[derive(Clone, Debug)]
pub struct Options {
    pub base_url: Url,
    pub network: Network,
    /// For one attempt, the whole answer included.
    pub timeout: Duration,
    pub quota: Quota,
}

/// Clones share the connections and the quota.
#[derive(Clone, Debug)]
pub struct Client {
    fetch: Fetch,
    network: Network,
    overlap: Duration,
}

impl Client {
    pub fn new(options: Options) -> Result<Self, VenueError> {
        let Options { base_url, network, timeout, quota } = options;
        Ok(Self { fetch: Fetch::new(base_url, timeout, quota)?, network, overlap: OVERLAP })
    }

    /// The same with another time that a walk reads behind its mark.
    pub fn with_overlap(self, overlap: Duration) -> Self {
        Self { overlap, ..self }
    }

    /// How far behind its mark a walk reads, for transfers that are listed late.
    pub fn overlap(&self) -> Duration {
        self.overlap
    }

    /// The same client for reading that may wait: it leaves more of the quota to everything else.
    pub fn spare(&self) -> Self {
        Self { fetch: self.fetch.reading_for(Purpose::Spare), ..self.clone() }
    }

    /// The same client for reading that a caller can cause: it has a quarter of the reads of a minute, and half of that
    /// where the caller has no key.
    pub fn for_quotes(&self, with_key: bool) -> Self {
        let purpose = if with_key { Purpose::Quote } else { Purpose::OpenQuote };
        Self { fetch: self.fetch.reading_for(purpose), ..self.clone() }
    }

    pub fn network(&self) -> Network {
        self.network
    }

    /// The venue's clock, and that it is the network we sign for.
    pub async fn status(&self) -> Result<Status, VenueError> {
        let answer: StatusAnswer = self.fetch.get("/", &Query::new(weight::OTHER)).await?;
        answer.checked(self.network)
    }

    /// None where the venue knows no such account.
    pub async fn account(&self, index: AccountIndex) -> Result<Option<AccountState>, VenueError> {
        let query = Query::new(weight::OTHER).with("by", "index").with("value", index);
        let Some(answer) = found(self.fetch.get::<Accounts>("/api/v1/account", &query).await)? else { return Ok(None) };
        answer.one(index)
    }

    /// The accounts of a wallet, its main one first. None has the wallet's address in it by our word: the venue says
    /// so.
    pub async fn accounts_of(&self, wallet: Address) -> Result<Vec<AccountIndex>, VenueError> {
        let query = Query::new(weight::OTHER).with("by", "l1_address").with("value", wallet);
        let answer = found(self.fetch.get::<Accounts>("/api/v1/account", &query).await)?;
        answer.map_or(Ok(Vec::new()), |answer| answer.of_wallet(wallet))
    }

    /// The key that the venue verifies an account's transactions with. None for a key that is not registered.
    pub async fn public_key(&self, account: AccountIndex, key: KeyIndex) -> Result<Option<PublicKey>, VenueError> {
        let query = Query::new(weight::KEYS).with("account_index", account).with("api_key_index", key.get());
        let answer = found(self.fetch.get::<ApiKeys>("/api/v1/apikeys", &query).await)?;
        answer.map_or(Ok(None), |answer| answer.one(account, key))
    }

    pub async fn next_nonce(&self, account: AccountIndex, key: KeyIndex) -> Result<Nonce, VenueError> {
        self.fetch.get::<NextNonce>("/api/v1/nextNonce", &nonce_query(account, key)).await?.checked()
    }

    /// The same for whoever is about to send: reading that has used up its part of the quota must not stop payments.
    pub async fn next_nonce_to_send(&self, account: AccountIndex, key: KeyIndex) -> Result<Nonce, VenueError> {
        let query = nonce_query(account, key).before_sending();
        self.fetch.get::<NextNonce>("/api/v1/nextNonce", &query).await?.checked()
    }

    /// The fee of a transfer between two accounts. The token is one of the sender's.
    pub async fn transfer_fee(
        &self,
        from: AccountIndex,
        to: AccountIndex,
        token: &AuthToken,
    ) -> Result<Fee, VenueError> {
        let query = Query::new(weight::FEE).with("account_index", from).with("to_account_index", to).signed(token);
        self.fetch.get::<FeeAnswer>("/api/v1/transferFeeInfo", &query).await?.checked()
    }

    /// A transaction by its hash. None is no proof that there is none: the venue may not have heard of it yet, or have
    /// forgotten.
    pub async fn transaction(&self, hash: Digest) -> Result<Option<VenueTx>, VenueError> {
        let query = Query::new(weight::OTHER).with("by", "hash").with("value", hash);
        let answer = found(self.fetch.get::<TxAnswer>("/api/v1/tx", &query).await)?;
        answer.map(|answer| answer.checked(hash, self.network)).transpose()
    }
}

fn nonce_query(account: AccountIndex, key: KeyIndex) -> Query {
    Query::new(weight::NONCE).with("account_index", account).with("api_key_index", key.get())
}

fn found<T>(answer: Result<T, VenueError>) -> Result<Option<T>, VenueError> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
