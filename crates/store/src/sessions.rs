//! Sessions of the dashboard. The cookie's text is not stored, only its hash.

use alloy_primitives::{Address, B256};
use domain::time::Timestamp;

use crate::{StoreError, Tx};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub token_hash: B256,
    pub account: Address,
    /// The nonce of the message that was signed.
    pub nonce: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Opens a session. False if its nonce has opened one before: a signature is good once.
pub fn open(tx: &mut Tx<'_>, session: &Session) -> Result<bool, StoreError> {
    let opened = tx.execute(
        "insert into dashboard_session (token_hash, account, nonce, created_at, expires_at) values ($1, $2, $3, $4, $5)
         on conflict do nothing",
        &[
            session.token_hash.into(),
            session.account.into(),
            (&session.nonce).into(),
            session.created_at.into(),
            session.expires_at.into(),
        ],
    )?;
    Ok(opened > 0)
}

/// The open session of a token, unless it has expired.
pub fn find(tx: &mut Tx<'_>, token_hash: B256, now: Timestamp) -> Result<Option<Session>, StoreError> {
    let row = tx.row(
        "select account, nonce, created_at, expires_at from dashboard_session
         where token_hash = $1 and expires_at > $2",
        &[token_hash.into(), now.into()],
    )?;
    row.map(|row| {
        Ok(Session {
            token_hash,
            account: row.address(0)?,
            nonce: row.text(1)?.to_owned(),
            created_at: row.time(2)?,
            expires_at: row.time(3)?,
        })
    })
    .transpose()
}

/// Ends a session now. Its row stays until its time is over, so that its nonce opens no other one.
pub fn end(tx: &mut Tx<'_>, token_hash: B256, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update dashboard_session set expires_at = $2 where token_hash = $1 and expires_at > $2",
        &[token_hash.into(), now.into()],
    )?;
    Ok(())
}

/// Deletes sessions that ended before a time, which lies further back than any nonce lives.
pub fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute(
        "delete from dashboard_session where token_hash in
         (select token_hash from dashboard_session where expires_at < $1 order by expires_at limit 500)",
        &[before.into()],
    )
}
