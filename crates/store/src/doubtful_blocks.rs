//! Blocks behind the cursor with an event that too few nodes have shown. A reorg that takes back the block takes back
//! its row.

use domain::ids::ChainId;
use domain::time::Timestamp;

use crate::blocks::Cursor;
use crate::{StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubtfulBlock {
    pub block: Cursor,
    pub since: Timestamp,
    /// The time its nodes were last asked.
    pub asked: Timestamp,
}

/// Notes a block, unless there are too many of them. True if it is noted.
pub fn put(tx: &mut Tx<'_>, chain: ChainId, block: Cursor, now: Timestamp, most: u64) -> Result<bool, StoreError> {
    if count(tx, chain)? >= most {
        return Ok(false);
    }
    tx.execute(
        "insert into doubtful_block (chain_id, number, hash, created_at, asked_at) values ($1, $2, $3, $4, $4)
         on conflict (chain_id, number) do update set hash = excluded.hash, asked_at = excluded.asked_at",
        &[chain.0.try_into()?, block.number.try_into()?, block.hash.into(), now.millis().into()],
    )?;
    Ok(true)
}

/// Doubtful blocks, those first whose nodes were asked longest ago.
pub fn next(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<DoubtfulBlock>, StoreError> {
    tx.rows(
        "select number, hash, created_at, asked_at from doubtful_block
         where chain_id = $1 order by asked_at, number limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| {
        let block = Cursor { number: row.uint(0)?, hash: row.b256(1)? };
        Ok(DoubtfulBlock { block, since: row.time(2)?, asked: row.time(3)? })
    })
    .collect()
}

/// The numbers of all doubtful blocks, in order; at most so many.
pub fn numbers(tx: &mut Tx<'_>, chain: ChainId, most: u64) -> Result<Vec<u64>, StoreError> {
    let sql = "select number from doubtful_block where chain_id = $1 order by number limit $2";
    tx.rows(sql, &[chain.0.try_into()?, most.try_into()?])?.iter().map(|row| row.uint(0)).collect()
}

pub fn count(tx: &mut Tx<'_>, chain: ChainId) -> Result<u64, StoreError> {
    let sql = "select cast(count(*) as bigint) from doubtful_block where chain_id = $1";
    tx.row(sql, &[chain.0.try_into()?])?.map_or(Ok(0), |row| row.uint(0))
}

/// The number of doubtful blocks in a row that end with the block of this number; at most so many are counted.
pub fn run_up_to(tx: &mut Tx<'_>, chain: ChainId, last: u64, most: u64) -> Result<u64, StoreError> {
    let rows = tx.rows(
        "select number from doubtful_block where chain_id = $1 and number <= $2 order by number desc limit $3",
        &[chain.0.try_into()?, last.try_into()?, most.try_into()?],
    )?;
    let numbers = rows.iter().map(|row| row.uint(0)).collect::<Result<Vec<_>, _>>()?;
    Ok((0..).zip(numbers).take_while(|(back, number)| last.checked_sub(*back) == Some(*number)).count() as u64)
}

/// True as long as the block is doubtful and on our chain.
pub fn is_noted(tx: &mut Tx<'_>, chain: ChainId, block: Cursor) -> Result<bool, StoreError> {
    let row = tx.row(
        "select number from doubtful_block where chain_id = $1 and number = $2 and hash = $3",
        &[chain.0.try_into()?, block.number.try_into()?, block.hash.into()],
    )?;
    Ok(row.is_some())
}

pub fn asked(tx: &mut Tx<'_>, chain: ChainId, block: Cursor, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update doubtful_block set asked_at = $4 where chain_id = $1 and number = $2 and hash = $3",
        &[chain.0.try_into()?, block.number.try_into()?, block.hash.into(), now.millis().into()],
    )?;
    Ok(())
}

pub fn remove(tx: &mut Tx<'_>, chain: ChainId, block: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "delete from doubtful_block where chain_id = $1 and number = $2 and hash = $3",
        &[chain.0.try_into()?, block.number.try_into()?, block.hash.into()],
    )?;
    Ok(())
}
