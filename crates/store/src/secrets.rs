//! Secrets that all processes of a deployment share. The first process to need one makes it.

use alloy_primitives::B256;

use crate::{StoreError, Tx};

/// The secret of this name; `fresh` where there is none yet, which must be random.
pub fn shared(tx: &mut Tx<'_>, name: &str, fresh: B256) -> Result<B256, StoreError> {
    tx.execute(
        "insert into shared_secret (name, secret) values ($1, $2) on conflict (name) do nothing",
        &[name.into(), fresh.into()],
    )?;
    let row = tx.row("select secret from shared_secret where name = $1", &[name.into()])?;
    row.map_or(Ok(fresh), |row| row.b256(0))
}
