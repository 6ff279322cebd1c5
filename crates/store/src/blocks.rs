//! The blocks we have applied, and the cursor.

use alloy_primitives::B256;
use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub number: u64,
    pub hash: B256,
}

pub fn cursor(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Cursor>, StoreError> {
    let row = tx.row("select number, hash from chain_cursor where chain_id = $1", &[chain.0.try_into()?])?;
    row.map(|row| Ok(Cursor { number: row.uint(0)?, hash: row.b256(1)? })).transpose()
}

/// Moves the cursor to a fully stored block: the next start begins after it.
pub fn advance(tx: &mut Tx<'_>, chain: ChainId, to: Cursor, time: Timestamp, keep: u64) -> Result<(), StoreError> {
    tx.execute(
        "insert into block (chain_id, number, hash, time) values ($1, $2, $3, $4)
         on conflict (chain_id, number) do update set hash = excluded.hash, time = excluded.time",
        &[chain.0.try_into()?, to.number.try_into()?, to.hash.into(), time.millis().into()],
    )?;
    tx.execute(
        "delete from block where chain_id = $1 and number <= $2",
        &[chain.0.try_into()?, Value::Int(i64::try_from(to.number.saturating_sub(keep)).unwrap_or(i64::MAX))],
    )?;
    set_cursor(tx, chain, to)
}

fn set_cursor(tx: &mut Tx<'_>, chain: ChainId, to: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "insert into chain_cursor (chain_id, number, hash) values ($1, $2, $3)
         on conflict (chain_id) do update set number = excluded.number, hash = excluded.hash",
        &[chain.0.try_into()?, to.number.try_into()?, to.hash.into()],
    )?;
    Ok(())
}

/// The newest blocks we know, newest first.
pub fn recent(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Cursor>, StoreError> {
    tx.rows(
        "select number, hash from block where chain_id = $1 order by number desc limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| Ok(Cursor { number: row.uint(0)?, hash: row.b256(1)? }))
    .collect()
}

/// Deletes the blocks above the fork.
pub fn rewind(tx: &mut Tx<'_>, chain: ChainId, to: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "delete from doubtful_block where chain_id = $1 and number > $2",
        &[chain.0.try_into()?, to.number.try_into()?],
    )?;
    tx.execute("delete from block where chain_id = $1 and number > $2", &[chain.0.try_into()?, to.number.try_into()?])?;
    set_cursor(tx, chain, to)
}

/// The hash of an applied block, as long as it is kept.
pub fn hash_of(tx: &mut Tx<'_>, chain: ChainId, number: u64) -> Result<Option<B256>, StoreError> {
    let row = tx.row(
        "select hash from block where chain_id = $1 and number = $2",
        &[chain.0.try_into()?, number.try_into()?],
    )?;
    row.map(|row| row.b256(0)).transpose()
}

/// The time of an applied block, as long as it is kept.
pub fn time_of(tx: &mut Tx<'_>, chain: ChainId, number: u64) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.row(
        "select time from block where chain_id = $1 and number = $2",
        &[chain.0.try_into()?, number.try_into()?],
    )?;
    row.map(|row| row.time(0)).transpose()
}

/// The last block that was rescanned.
pub fn rescanned(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<u64>, StoreError> {
    let row = tx.row("select number from rescan where chain_id = $1", &[chain.0.try_into()?])?;
    row.map(|row| row.uint(0)).transpose()
}

pub fn set_rescanned(tx: &mut Tx<'_>, chain: ChainId, number: u64) -> Result<(), StoreError> {
    tx.execute(
        "insert into rescan (chain_id, number) values ($1, $2)
         on conflict (chain_id) do update set number = excluded.number",
        &[chain.0.try_into()?, number.try_into()?],
    )?;
    Ok(())
}
