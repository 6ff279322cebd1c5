//! Idempotency keys: answers kept under the caller's own name for a call.

use alloy_primitives::B256;
use domain::api_key::ApiKeyId;
use domain::time::Timestamp;
use ring::digest;

use crate::{StoreError, Tx, Value};

/// A call under its idempotency key.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: ApiKeyId,
    pub name: String,
    pub fingerprint: B256,
    /// Random: identifies the handler that answers it.
    pub owner: B256,
}

impl Call {
    /// SHA-256 of path and body, which tells two calls apart.
    pub fn fingerprint(path: &str, body: &[u8]) -> B256 {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(path.as_bytes());
        context.update(b"\n");
        context.update(body);
        B256::from_slice(context.finish().as_ref())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The call is ours to answer.
    Ours,
    /// Another handler is about to answer it.
    Underway,
    Answered {
        status: u16,
        answer: String,
    },
    /// The name was used for another call.
    Differs,
}

/// Claims a call to be answered, or returns its state. A call claimed before `abandoned` and not answered is taken
/// over.
pub fn claim(tx: &mut Tx<'_>, call: &Call, abandoned: Timestamp, now: Timestamp) -> Result<Claimed, StoreError> {
    let key = || Value::from(call.key.to_string());
    let taken = tx.row(
        "insert into idempotent_call (key_id, name, fingerprint, owner, created_at) values ($1, $2, $3, $4, $5)
         on conflict (key_id, name) do update set owner = excluded.owner, created_at = excluded.created_at
         where idempotent_call.status is null and idempotent_call.created_at < $6
         and idempotent_call.fingerprint = excluded.fingerprint returning owner",
        &[key(), (&call.name).into(), call.fingerprint.into(), call.owner.into(), now.into(), abandoned.into()],
    )?;
    if taken.is_some() {
        return Ok(Claimed::Ours);
    }
    Ok(find(tx, call)?.unwrap_or(Claimed::Underway))
}

/// The state of a call. None if its answer was not kept.
pub fn find(tx: &mut Tx<'_>, call: &Call) -> Result<Option<Claimed>, StoreError> {
    let row = tx.row(
        "select fingerprint, status, answer from idempotent_call where key_id = $1 and name = $2",
        &[call.key.to_string().into(), (&call.name).into()],
    )?;
    row.map(|row| {
        if row.b256(0)? != call.fingerprint {
            return Ok(Claimed::Differs);
        }
        Ok(match (row.opt_uint(1)?, row.opt_text(2)?) {
            (Some(status), Some(answer)) => {
                let status = u16::try_from(status).map_err(|_| StoreError::OutOfRange("a status"))?;
                Claimed::Answered { status, answer: answer.to_owned() }
            }
            _ => Claimed::Underway,
        })
    })
    .transpose()
}

/// Keeps the answer, if the call is still ours.
pub fn keep(tx: &mut Tx<'_>, call: &Call, status: u16, answer: &str) -> Result<(), StoreError> {
    tx.execute(
        "update idempotent_call set status = $4, answer = $5
         where key_id = $1 and name = $2 and owner = $3 and status is null",
        &[call.key.to_string().into(), (&call.name).into(), call.owner.into(), status.into(), answer.into()],
    )?;
    Ok(())
}

/// Frees the name: nothing was done.
pub fn drop(tx: &mut Tx<'_>, call: &Call) -> Result<(), StoreError> {
    tx.execute(
        "delete from idempotent_call where key_id = $1 and name = $2 and owner = $3 and status is null",
        &[call.key.to_string().into(), (&call.name).into(), call.owner.into()],
    )?;
    Ok(())
}

/// Deletes expired answers in one small batch. Returns whether there may be more.
pub fn prune(tx: &mut Tx<'_>, before: Timestamp) -> Result<bool, StoreError> {
    const ROWS_PER_PRUNE: i64 = 200;
    let gone = tx.execute(
        "delete from idempotent_call where (key_id, name) in
         (select key_id, name from idempotent_call where created_at < $1 order by created_at limit $2)",
        &[before.into(), Value::Int(ROWS_PER_PRUNE)],
    )?;
    Ok(i64::try_from(gone).is_ok_and(|gone| gone == ROWS_PER_PRUNE))
}
