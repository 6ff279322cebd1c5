//! The account that is signed in.

use alloy_primitives::{Address, B256};

/// The member of a form that carries the session's token.
pub(crate) const TOKEN_FIELD: &str = "formToken";

/// The holder of a session, found by the guard before any page is made.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub address: Address,
    pub operator: bool,
    /// The session, by the hash of its token.
    pub session: B256,
    /// The token that every form of this session carries.
    pub form_token: String,
    /// The network has a wallet that everybody may use.
    pub test_wallet: bool,
}
