//! Deposits as seen on the chains, and the order each was used for.

use alloy_primitives::{Address, B256};
use domain::deposit::State;
use domain::fail::FailReason;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DepositId(pub i64);

/// A deposit in its current block.
#[derive(Clone, Debug)]
pub struct Deposit {
    pub chain: ChainId,
    pub tx: B256,
    /// The deposit's index among those of its transaction: unlike a log index, it survives a reorg.
    pub ordinal: u32,
    pub log_index: u64,
    pub block_number: u64,
    pub block_hash: B256,
    pub block_time: Timestamp,
    pub order_id: Option<OrderId>,
    /// The id the deposit carries, known as an order or not: trailing bytes can look like an id.
    pub claim: Option<OrderId>,
    pub depositor: Address,
    pub payer: Address,
    pub sender: Address,
    pub currency: Address,
    pub amount: Amount,
    /// The block number at which the deposit has enough confirmations.
    pub ripe_at: u64,
}

impl Deposit {
    /// Its name in 32 bytes, the same in whatever block it stands.
    pub fn key(&self) -> B256 {
        domain::deposit::key(self.chain, self.tx, self.ordinal)
    }

    /// Payer, sender and depositor.
    pub fn parties(&self) -> [Address; 3] {
        [self.payer, self.sender, self.depositor]
    }
}

#[derive(Clone, Debug)]
pub struct DepositRow {
    pub id: DepositId,
    pub state: State,
    pub deposit: Deposit,
    /// The reason why it pays for no order, if it does not.
    pub refused: Option<FailReason>,
}

macro_rules! columns {
    () => {
        "deposit_id, state, chain_id, tx_hash, ordinal, log_index, block_number, block_hash, block_time, order_id, \
         depositor, payer, sender, currency, amount, refused, claim, coalesce(ripe_at, block_number)"
    };
}

fn from_row(row: &Row) -> Result<DepositRow, StoreError> {
    let state = row.text(1)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state);
    Ok(DepositRow {
        id: DepositId(row.int(0)?),
        state: state.ok_or(unknown(1, "a state"))?,
        deposit: Deposit {
            chain: ChainId(row.uint(2)?),
            tx: row.b256(3)?,
            ordinal: row.u32(4)?,
            log_index: row.uint(5)?,
            block_number: row.uint(6)?,
            block_hash: row.b256(7)?,
            block_time: Timestamp::from_millis(row.int(8)?),
            order_id: row.opt_b256(9)?.map(OrderId),
            claim: row.opt_b256(16)?.map(OrderId),
            depositor: row.address(10)?,
            payer: row.address(11)?,
            sender: row.address(12)?,
            currency: row.address(13)?,
            amount: row.amount(14)?,
            ripe_at: row.uint(17)?,
        },
        refused: row.opt_text(15)?.map(str::parse).transpose().map_err(|_| unknown(15, "a reason"))?,
    })
}

/// Inserts a new deposit. `None` means the deposit was already stored, in whatever block.
pub fn insert(tx: &mut Tx<'_>, deposit: &Deposit, now: Timestamp) -> Result<Option<DepositId>, StoreError> {
    let row = tx.row(
        "insert into deposit (chain_id, tx_hash, ordinal, log_index, block_number, block_hash, block_time, order_id,
         depositor, payer, sender, currency, amount, state, seen_at, claim, ripe_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'seen', $14, $15, $16)
         on conflict (chain_id, tx_hash, ordinal) do nothing returning deposit_id",
        &[
            deposit.chain.0.try_into()?,
            deposit.tx.into(),
            deposit.ordinal.into(),
            deposit.log_index.try_into()?,
            deposit.block_number.try_into()?,
            deposit.block_hash.into(),
            deposit.block_time.millis().into(),
            deposit.order_id.map(|id| id.0).into(),
            deposit.depositor.into(),
            deposit.payer.into(),
            deposit.sender.into(),
            deposit.currency.into(),
            deposit.amount.to_string().into(),
            now.millis().into(),
            deposit.claim.map(|id| id.0).into(),
            deposit.ripe_at.try_into()?,
        ],
    )?;
    row.map(|row| row.int(0).map(DepositId)).transpose()
}

pub fn find(tx: &mut Tx<'_>, chain: ChainId, hash: B256, ordinal: u32) -> Result<Option<DepositRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from deposit where chain_id = $1 and tx_hash = $2 and ordinal = $3");
    tx.row(sql, &[chain.0.try_into()?, hash.into(), ordinal.into()])?.as_ref().map(from_row).transpose()
}

pub fn get(tx: &mut Tx<'_>, id: DepositId) -> Result<Option<DepositRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from deposit where deposit_id = $1");
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

pub fn set_state(tx: &mut Tx<'_>, id: DepositId, state: State) -> Result<(), StoreError> {
    tx.execute("update deposit set state = $2 where deposit_id = $1", &[id.0.into(), state.as_str().into()])?;
    Ok(())
}

/// Records the time at which a reorg removed the deposit.
pub fn set_gone_at(tx: &mut Tx<'_>, id: DepositId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute("update deposit set gone_at = $2 where deposit_id = $1", &[id.0.into(), now.into()])?;
    Ok(())
}

/// Moves a known deposit to another block, in which its transaction may have had other effects.
pub fn moved(tx: &mut Tx<'_>, id: DepositId, to: &Deposit, state: State) -> Result<(), StoreError> {
    tx.execute(
        "update deposit set state = $2, log_index = $3, block_number = $4, block_hash = $5, block_time = $6,
         order_id = $7, depositor = $8, payer = $9, sender = $10, currency = $11, amount = $12, claim = $13, refused = null,
         return_due = 0, ripe_at = $14
         where deposit_id = $1",
        &[
            id.0.into(),
            state.as_str().into(),
            to.log_index.try_into()?,
            to.block_number.try_into()?,
            to.block_hash.into(),
            to.block_time.millis().into(),
            to.order_id.map(|id| id.0).into(),
            to.depositor.into(),
            to.payer.into(),
            to.sender.into(),
            to.currency.into(),
            to.amount.to_string().into(),
            to.claim.map(|id| id.0).into(),
            to.ripe_at.try_into()?,
        ],
    )?;
    Ok(())
}

/// Records why a deposit pays for no order. It waits to be returned.
pub fn refuse(tx: &mut Tx<'_>, id: DepositId, reason: FailReason) -> Result<(), StoreError> {
    tx.execute("update deposit set refused = $2 where deposit_id = $1", &[id.0.into(), reason.as_str().into()])?;
    Ok(())
}

/// The state of a deposit's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnDue {
    No,
    Yes,
    /// Only a person can return it.
    Parked,
}

pub fn set_return_due(tx: &mut Tx<'_>, id: DepositId, due: ReturnDue) -> Result<(), StoreError> {
    let due = match due {
        ReturnDue::No => 0i64,
        ReturnDue::Yes => 1,
        ReturnDue::Parked => 2,
    };
    tx.execute("update deposit set return_due = $2 where deposit_id = $1", &[id.0.into(), due.into()])?;
    Ok(())
}

/// The number of stored deposits of a transaction that are in a block.
pub fn count_in(tx: &mut Tx<'_>, chain: ChainId, hash: B256) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from deposit where chain_id = $1 and tx_hash = $2 and state <> 'gone'",
        &[chain.0.try_into()?, hash.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// Deposits due to be returned, by age: those behind `after`, and then from the oldest on. Each has its turn, however
/// many wait before it.
pub fn to_return(tx: &mut Tx<'_>, chain: ChainId, after: DepositId, most: i64) -> Result<Vec<DepositRow>, StoreError> {
    let behind = concat!(
        "select ",
        columns!(),
        " from deposit where chain_id = $1 and return_due = 1 and deposit_id > $2 order by deposit_id limit $3"
    );
    let from_oldest = concat!(
        "select ",
        columns!(),
        " from deposit where chain_id = $1 and return_due = 1 and deposit_id <= $2 order by deposit_id limit $3"
    );
    let mut rows = tx.rows(behind, &[chain.0.try_into()?, after.0.into(), Value::Int(most)])?;
    let left = most.saturating_sub(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    if left > 0 {
        rows.extend(tx.rows(from_oldest, &[chain.0.try_into()?, after.0.into(), Value::Int(left)])?);
    }
    rows.iter().map(from_row).collect()
}

/// Ties a deposit to an order's input. `false` means that either is taken.
pub fn use_as_input(tx: &mut Tx<'_>, id: DepositId, order: OrderId) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into deposit_use (deposit_id, use, order_id, input) values ($1, 'input', $2, 0)
         on conflict do nothing returning deposit_id",
        &[id.0.into(), order.0.into()],
    )?;
    if row.is_some() {
        tx.execute("update deposit set refused = null where deposit_id = $1", &[id.0.into()])?;
    }
    Ok(row.is_some())
}

/// The deposit that pays an order's input. A refund keeps the tie, which records the refunded deposit.
pub fn of_order(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<DepositRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from deposit where deposit_id = (select deposit_id from deposit_use where order_id = $1 and input = 0)"
    );
    tx.row(sql, &[order.0.into()])?.as_ref().map(from_row).transpose()
}

/// Frees the order's input of a deposit that a reorg removed.
pub fn release(tx: &mut Tx<'_>, id: DepositId) -> Result<(), StoreError> {
    tx.execute("delete from deposit_use where deposit_id = $1", &[id.0.into()])?;
    Ok(())
}

/// Deposits in a state, at or below a block, oldest first. Refused deposits not yet confirmed are left out.
pub fn ripe(
    tx: &mut Tx<'_>,
    chain: ChainId,
    state: State,
    up_to: u64,
    most: i64,
) -> Result<Vec<DepositRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from deposit where chain_id = $1 and state = $2 and block_number <= $3 and (refused is null or state <> 'seen')
          order by block_number, deposit_id limit $4"
    );
    let args = [chain.0.try_into()?, state.as_str().into(), up_to.try_into()?, Value::Int(most)];
    tx.rows(sql, &args)?.iter().map(from_row).collect()
}

/// Deposits with enough confirmations by now, oldest first. Refused deposits are left out.
pub fn to_confirm(tx: &mut Tx<'_>, chain: ChainId, number: u64, most: i64) -> Result<Vec<DepositRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from deposit where chain_id = $1 and state = 'seen' and block_number <= $2
          and coalesce(ripe_at, block_number) <= $2 and refused is null order by block_number, deposit_id limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, number.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Requests that wait for a deposit which a reorg removed before this time, and have no other deposit.
pub fn lost(tx: &mut Tx<'_>, chain: ChainId, before: Timestamp, most: i64) -> Result<Vec<RequestId>, StoreError> {
    tx.rows(
        "select distinct r.request_id from deposit d join request r on r.order_id = d.order_id
         where d.chain_id = $1 and d.state = 'gone' and r.state = 'waiting' and coalesce(d.gone_at, r.updated_at) < $2
         and not exists (select 1 from deposit o where o.order_id = d.order_id and o.refused is null
         and (o.state <> 'gone' or coalesce(o.gone_at, 0) >= $2)) limit $3",
        &[chain.0.try_into()?, before.millis().into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| row.b256(0).map(RequestId))
    .collect()
}

/// Deposits above a block, removed by a reorg.
pub fn above(tx: &mut Tx<'_>, chain: ChainId, block: u64, most: i64) -> Result<Vec<DepositRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from deposit where chain_id = $1 and block_number > $2 and state <> 'gone' order by deposit_id limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, block.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// True if a deposit that stands names an order, and was not refused as its payment.
pub fn is_paid_for(tx: &mut Tx<'_>, order: OrderId) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from deposit where order_id = $1 and state <> 'gone' and refused is null limit 1",
        &[order.0.into()],
    )?;
    Ok(row.is_some())
}
