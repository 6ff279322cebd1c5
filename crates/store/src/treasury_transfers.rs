//! Treasury transfers: every transfer to the treasury, and its attribution.

use alloy_primitives::{Address, B256};
use domain::ids::ChainId;
use domain::ledger::UsdcMicros;
use domain::money::Amount;
use domain::time::Timestamp;
use domain::treasury_transfer::State;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreasuryTransferId(pub i64);

/// A transfer in its current block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreasuryTransfer {
    pub chain: ChainId,
    pub tx: B256,
    /// The transfer's index among those of its transaction to the treasury.
    pub ordinal: u32,
    /// None for a native transfer.
    pub log_index: Option<u64>,
    pub block_number: u64,
    pub block_hash: B256,
    pub sender: Address,
    pub currency: Address,
    pub amount: Amount,
    /// The account to credit, or the reason why there is none.
    pub account: Result<Address, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreasuryTransferRow {
    pub id: TreasuryTransferId,
    pub state: State,
    pub transfer: TreasuryTransfer,
    pub credited: Option<UsdcMicros>,
}

macro_rules! columns {
    () => {
        "treasury_transfer_id, state, chain_id, tx_hash, ordinal, log_index, block_number, block_hash, sender, currency, amount, \
         account, reason, credited from treasury_transfer "
    };
}

fn from_row(row: &Row) -> Result<TreasuryTransferRow, StoreError> {
    let state = row.text(1)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state).ok_or(unknown(1, "a state"))?;
    let account = match row.opt_address(11)? {
        Some(account) => Ok(account),
        None => Err(row.text(12)?.to_owned()),
    };
    Ok(TreasuryTransferRow {
        id: TreasuryTransferId(row.int(0)?),
        state,
        transfer: TreasuryTransfer {
            chain: ChainId(row.uint(2)?),
            tx: row.b256(3)?,
            ordinal: row.u32(4)?,
            log_index: row.opt_uint(5)?,
            block_number: row.uint(6)?,
            block_hash: row.b256(7)?,
            sender: row.address(8)?,
            currency: row.address(9)?,
            amount: row.amount(10)?,
            account,
        },
        credited: row.opt_int(13)?.map(UsdcMicros),
    })
}

/// Stores a transfer as its block shows it. A transfer known in another block moves to this one; a credited one stays
/// as it is.
pub fn put(tx: &mut Tx<'_>, transfer: &TreasuryTransfer, now: Timestamp) -> Result<(), StoreError> {
    let log_index = transfer.log_index.map(Value::try_from).transpose()?;
    tx.execute(
        "insert into treasury_transfer (chain_id, tx_hash, ordinal, log_index, block_number, block_hash, sender, currency, amount,
         account, reason, state, seen_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'seen', $12, $12)
         on conflict (chain_id, tx_hash, ordinal) do update set log_index = excluded.log_index,
         block_number = excluded.block_number, block_hash = excluded.block_hash, sender = excluded.sender,
         currency = excluded.currency, amount = excluded.amount, account = excluded.account, reason = excluded.reason,
         state = 'seen', updated_at = excluded.updated_at
         where treasury_transfer.state in ('seen', 'gone')",
        &[
            transfer.chain.0.try_into()?,
            transfer.tx.into(),
            transfer.ordinal.into(),
            log_index.unwrap_or(Value::Null),
            transfer.block_number.try_into()?,
            transfer.block_hash.into(),
            transfer.sender.into(),
            transfer.currency.into(),
            transfer.amount.to_string().into(),
            transfer.account.as_ref().ok().copied().into(),
            transfer.account.as_ref().err().map(String::as_str).into(),
            now.millis().into(),
        ],
    )?;
    Ok(())
}

pub fn get(tx: &mut Tx<'_>, id: TreasuryTransferId) -> Result<Option<TreasuryTransferRow>, StoreError> {
    let sql = concat!("select ", columns!(), "where treasury_transfer_id = $1 {for_update}");
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

/// The number of stored transfers of a transaction.
pub fn count_in(tx: &mut Tx<'_>, chain: ChainId, hash: B256) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from treasury_transfer where chain_id = $1 and tx_hash = $2 and state <> 'gone'",
        &[chain.0.try_into()?, hash.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// Transfers at or below a block that are not decided yet, in turn: those behind `after` first. Any number of them may
/// wait for a price, and must not hold up the others.
pub fn ripe(
    tx: &mut Tx<'_>,
    chain: ChainId,
    up_to: u64,
    after: TreasuryTransferId,
    most: i64,
) -> Result<Vec<TreasuryTransferId>, StoreError> {
    const BEHIND: &str = "select treasury_transfer_id from treasury_transfer where chain_id = $1 and state = 'seen'
         and block_number <= $2 and treasury_transfer_id > $3 order by treasury_transfer_id limit $4";
    const FROM_OLDEST: &str =
        "select treasury_transfer_id from treasury_transfer where chain_id = $1 and state = 'seen'
         and block_number <= $2 and treasury_transfer_id <= $3 order by treasury_transfer_id limit $4";
    let args = |most| Ok::<_, StoreError>([chain.0.try_into()?, up_to.try_into()?, after.0.into(), Value::Int(most)]);
    let mut rows = tx.rows(BEHIND, &args(most)?)?;
    let left = most.saturating_sub(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    if left > 0 {
        rows.extend(tx.rows(FROM_OLDEST, &args(left)?)?);
    }
    rows.iter().map(|row| row.int(0).map(TreasuryTransferId)).collect()
}

/// Marks a transfer as credited, at the price of a block.
pub fn credited(
    tx: &mut Tx<'_>,
    id: TreasuryTransferId,
    credit: UsdcMicros,
    priced_at: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "update treasury_transfer set state = 'credited', credited = $2, priced_at = $3, updated_at = $4
         where treasury_transfer_id = $1 and state = 'seen'",
        &[id.0.into(), credit.0.into(), priced_at.try_into()?, now.millis().into()],
    )?;
    Ok(())
}

/// Marks a transfer as unattributed, with the reason.
pub fn set_aside(tx: &mut Tx<'_>, id: TreasuryTransferId, reason: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update treasury_transfer set state = 'unattributed', account = null, reason = $2, updated_at = $3
         where treasury_transfer_id = $1 and state = 'seen'",
        &[id.0.into(), reason.into(), now.millis().into()],
    )?;
    Ok(())
}

/// Marks a transfer as gone that is in no block of the chain.
pub fn gone(tx: &mut Tx<'_>, id: TreasuryTransferId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update treasury_transfer set state = 'gone', updated_at = $2 where treasury_transfer_id = $1 and state = 'seen'",
        &[id.0.into(), now.millis().into()],
    )?;
    Ok(())
}

/// Marks transfers above a block as gone after a reorg. `false` means that a final one, which stays, was among them.
pub fn gone_above(tx: &mut Tx<'_>, chain: ChainId, block: u64, now: Timestamp) -> Result<bool, StoreError> {
    tx.execute(
        "update treasury_transfer set state = 'gone', updated_at = $3
         where chain_id = $1 and block_number > $2 and state = 'seen'",
        &[chain.0.try_into()?, block.try_into()?, now.millis().into()],
    )?;
    let kept = tx.row(
        "select treasury_transfer_id from treasury_transfer where chain_id = $1 and block_number > $2 and state <> 'gone' limit 1",
        &[chain.0.try_into()?, block.try_into()?],
    )?;
    Ok(kept.is_none())
}

/// Unattributed transfers, newest first, before an id if one is given.
pub fn unattributed(
    tx: &mut Tx<'_>,
    before: Option<TreasuryTransferId>,
    most: i64,
) -> Result<Vec<TreasuryTransferRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        "where state = 'unattributed' and treasury_transfer_id < $1 order by treasury_transfer_id desc limit $2"
    );
    let before = before.map_or(i64::MAX, |id| id.0);
    tx.rows(sql, &[before.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

/// Credited transfers after an id, in order.
pub fn credited_after(
    tx: &mut Tx<'_>,
    after: TreasuryTransferId,
    most: i64,
) -> Result<Vec<TreasuryTransferRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        "where state = 'credited' and treasury_transfer_id > $1 order by treasury_transfer_id limit $2"
    );
    tx.rows(sql, &[after.0.into(), Value::Int(most)])?.iter().map(from_row).collect()
}
