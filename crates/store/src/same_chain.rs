//! Same-chain transactions with an app fee.

use alloy_primitives::B256;
use domain::ids::{ChainId, RequestId};
use domain::outcome::Outcome;
use domain::same_chain_tx::State;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value, stored_outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SameChainId(pub i64);

/// Stores a transaction in its current block. A booked one stays as it is.
pub fn put(tx: &mut Tx<'_>, request: RequestId, chain: ChainId, hash: B256, block: u64) -> Result<(), StoreError> {
    tx.execute(
        "insert into same_chain_tx (chain_id, tx_hash, request_id, block_number, state) values ($1, $2, $3, $4, 'seen')
         on conflict (chain_id, tx_hash) do update set block_number = excluded.block_number, state = 'seen'
         where same_chain_tx.state in ('seen', 'gone')",
        &[chain.0.try_into()?, hash.into(), request.0.into(), block.try_into()?],
    )?;
    Ok(())
}

/// Unbooked transactions at or below a block, after an id, in order.
pub fn ripe(
    tx: &mut Tx<'_>,
    chain: ChainId,
    up_to: u64,
    after: SameChainId,
    most: i64,
) -> Result<Vec<(SameChainId, B256)>, StoreError> {
    tx.rows(
        "select same_chain_tx_id, tx_hash from same_chain_tx where chain_id = $1 and state = 'seen' and block_number <= $2
         and same_chain_tx_id > $3 order by same_chain_tx_id limit $4",
        &[chain.0.try_into()?, up_to.try_into()?, after.0.into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| Ok((SameChainId(row.int(0)?), row.b256(1)?)))
    .collect()
}

/// Locks a transaction, and returns its request and its state.
pub fn lock(tx: &mut Tx<'_>, id: SameChainId) -> Result<Option<(RequestId, State)>, StoreError> {
    let sql = "select request_id, state from same_chain_tx where same_chain_tx_id = $1 {for_update}";
    let Some(row) = tx.row(sql, &[id.0.into()])? else { return Ok(None) };
    let state = row.text(1)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state).ok_or(unknown(1, "a state"))?;
    Ok(Some((row.request_id(0)?, state)))
}

/// Books a transaction with its outcome, or with none.
pub fn book(tx: &mut Tx<'_>, id: SameChainId, outcome: Option<&Outcome>) -> Result<(), StoreError> {
    tx.execute(
        "update same_chain_tx set state = 'booked', body = $2 where same_chain_tx_id = $1 and state = 'seen'",
        &[id.0.into(), outcome.map(stored_outcome::write).into()],
    )?;
    Ok(())
}

/// Marks transactions above a block as gone after a reorg. `false` means that a booked one, which stays, was among
/// them.
pub fn gone_above(tx: &mut Tx<'_>, chain: ChainId, block: u64) -> Result<bool, StoreError> {
    tx.execute(
        "update same_chain_tx set state = 'gone' where chain_id = $1 and block_number > $2 and state = 'seen'",
        &[chain.0.try_into()?, block.try_into()?],
    )?;
    let kept = tx.row(
        "select same_chain_tx_id from same_chain_tx where chain_id = $1 and block_number > $2 and state = 'booked' limit 1",
        &[chain.0.try_into()?, block.try_into()?],
    )?;
    Ok(kept.is_none())
}

/// A booked transaction and its outcome.
#[derive(Clone, Debug)]
pub struct Booked {
    pub same_chain: SameChainId,
    pub request: RequestId,
    pub outcome: Outcome,
}

/// Booked transactions with an outcome, after an id, in order.
pub fn booked_after(tx: &mut Tx<'_>, after: SameChainId, most: i64) -> Result<Vec<Booked>, StoreError> {
    let sql = "select same_chain_tx_id, request_id, body from same_chain_tx
         where same_chain_tx_id > $1 and state = 'booked' and body is not null order by same_chain_tx_id limit $2";
    tx.rows(sql, &[after.0.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Booked, StoreError> {
    let outcome = stored_outcome::of(row, 2)?;
    Ok(Booked { same_chain: SameChainId(row.int(0)?), request: row.request_id(1)?, outcome })
}
