//! The perpetuals venue: its transactions, its signatures and its HTTP API.
//!
//! Nothing here knows a database, an order book or the service's own rules. Randomness and the time are arguments.

mod auth;
mod client;
mod curve;
mod field;
mod key;
mod limits;
mod network;
mod schnorr;
mod signed;
mod transfer;
mod wire;

pub use crate::auth::{AuthToken, NotAToken, TokenClaims};
pub use crate::client::{
    AccountState, Client, Listed, Mark, Options, Page, Quota, Sent, Status, Transfers, VenueError, VenueTx,
};
pub use crate::field::{Digest, NotADigest};
pub use crate::key::{ApiKey, NotAKey, PublicKey};
pub use crate::limits::{Expiry, Fee, KeyIndex, Nonce, OutOfTransferRange};
pub use crate::network::Network;
pub use crate::schnorr::{NotASignature, Signature};
pub use crate::signed::{BadTransfer, SignedTransfer};
pub use crate::transfer::Transfer;
pub use crate::wire::BadField;
