//! Sending a transaction: three outcomes, of which only one is certain.

use serde::Deserialize;

use super::error::VenueError;
use super::{Client, weight};
use crate::field::Digest;
use crate::signed::SignedTransfer;
use crate::transfer::TX_TYPE;

/// The outcome of one attempt to send. None of them proves a payment: that is the transaction's status.
#[derive(Debug)]
pub enum Sent {
    /// The venue has taken it under the hash we expected.
    Taken,
    /// The venue says no. That it did not take the same bytes earlier only its hash and the account's next nonce can
    /// show.
    Refused(VenueError),
    /// No answer, or one that says nothing: the transaction may have been taken.
    Unknown(VenueError),
}

#[derive(Deserialize)]
struct Answer {
    tx_hash: String,
}

impl Client {
    /// Sends once. The caller has stored the transaction and its hash before.
    pub async fn send(&self, transfer: &SignedTransfer) -> Sent {
        let (kind, info) = (TX_TYPE.to_string(), transfer.to_json());
        let form = [("tx_type", kind.as_str()), ("tx_info", &info)];
        match self.fetch.post::<Answer>("/api/v1/sendTx", weight::SEND, &form).await {
            Ok(answer) if answer.tx_hash.parse::<Digest>().ok() == Some(transfer.hash(self.network)) => Sent::Taken,
            Ok(_) => Sent::Unknown(VenueError::Invalid("tx_hash is not the hash of the transaction")),
            Err(error) => match error {
                VenueError::Refused { .. } | VenueError::QuotaUsed(_) | VenueError::Busy(_) => Sent::Refused(error),
                VenueError::Unreachable(_)
                | VenueError::Failing(_)
                | VenueError::TooLarge(_)
                | VenueError::Invalid(_)
                | VenueError::Json(_)
                | VenueError::BaseUrl => Sent::Unknown(error),
            },
        }
    }
}
