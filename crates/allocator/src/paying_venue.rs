//! The venue as the allocator knows it: a client to read with, and the account that pays for us.

use domain::catalog::Chain;
use domain::venue::AccountIndex;
use venue::Client;

/// The venue, as far as evidence needs it: no keys.
#[derive(Clone, Debug)]
pub struct PayingVenue {
    pub client: Client,
    pub chain: Chain,
    /// The account that pays for us.
    pub account: AccountIndex,
    /// Seconds after which an executed transfer is final.
    pub finality_secs: u64,
}
