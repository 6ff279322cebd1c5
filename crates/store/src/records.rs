//! Transactions of a request, as shown in listings.

use alloy_primitives::{Address, B256, Bytes};
use domain::balance_change::BalanceChange;
use domain::fail::FailReason;
use domain::ids::{ChainId, RequestId};
use domain::money::Amount;
use domain::time::Timestamp;

use crate::blocks::Cursor;
use crate::columns::unknown;
use crate::payments::Purpose;
use crate::{Row, StoreError, Tx, Value, stored_changes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent by the user.
    In,
    /// Sent by us.
    Out,
}

impl Direction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::In, Self::Out].into_iter().find(|direction| direction.as_str() == text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub request: RequestId,
    pub direction: Direction,
    pub chain: ChainId,
    pub tx: B256,
    pub sender: Address,
    /// None for a contract creation.
    pub target: Option<Address>,
    pub value: Amount,
    pub data: Bytes,
    /// The full cost of inclusion. None until the receipt has been read.
    pub fee: Option<Amount>,
    pub block_number: u64,
    pub block_hash: B256,
    pub block_time: Timestamp,
    pub succeeded: bool,
    /// A reorg removed its block.
    pub gone: bool,
    /// The reason for its failure, once known.
    pub failure: Option<Failure>,
}

/// The reason why a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: FailReason,
    pub details: String,
    /// The recipient or a call of the caller's own is to blame.
    pub refused: bool,
}

/// Stores a transaction. A known one can only have moved to another block.
pub fn put(tx: &mut Tx<'_>, record: &Record) -> Result<(), StoreError> {
    tx.execute(
        "insert into transaction_record (request_id, chain_id, tx_hash, direction, sender, target, value, data, fee,
         block_number, block_hash, block_time, succeeded)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         on conflict (request_id, chain_id, tx_hash, direction) do update set
         fee = coalesce(excluded.fee, transaction_record.fee), block_number = excluded.block_number,
         block_hash = excluded.block_hash, block_time = excluded.block_time, succeeded = excluded.succeeded, gone = 0,
         fail_reason = case when transaction_record.block_hash = excluded.block_hash then transaction_record.fail_reason end,
         details = case when transaction_record.block_hash = excluded.block_hash then transaction_record.details end,
         refused = case when transaction_record.block_hash = excluded.block_hash then transaction_record.refused else 0 end,
         explain_left =
         case when transaction_record.block_hash = excluded.block_hash then transaction_record.explain_left else 20 end,
         changes = case when transaction_record.block_hash = excluded.block_hash then transaction_record.changes end",
        &[
            record.request.0.into(),
            record.chain.0.try_into()?,
            record.tx.into(),
            record.direction.as_str().into(),
            record.sender.into(),
            record.target.into(),
            record.value.to_string().into(),
            record.data.to_vec().into(),
            record.fee.map(|fee| fee.to_string()).into(),
            record.block_number.try_into()?,
            record.block_hash.into(),
            record.block_time.millis().into(),
            Value::Int(record.succeeded.into()),
        ],
    )?;
    Ok(())
}

macro_rules! columns {
    () => {
        "request_id, direction, chain_id, tx_hash, sender, target, value, data, fee, block_number, block_hash,
         block_time, succeeded, gone, fail_reason, details, refused"
    };
}

/// The transactions of a request, in the order they became known.
pub fn of_request(tx: &mut Tx<'_>, request: RequestId) -> Result<Vec<Record>, StoreError> {
    let sql =
        concat!("select ", columns!(), " from transaction_record where request_id = $1 order by record_id limit 1000");
    tx.rows(sql, &[request.0.into()])?.iter().map(from_row).collect()
}

/// The transactions of a request, and the balances that each changed: none until its receipt has been read.
pub fn with_changes(tx: &mut Tx<'_>, request: RequestId) -> Result<Vec<(Record, Vec<BalanceChange>)>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        ", changes from transaction_record where request_id = $1 order by record_id limit 200"
    );
    let rows = tx.rows(sql, &[request.0.into()])?;
    rows.iter().map(|row| Ok((from_row(row)?, stored_changes::of(row, 17)?))).collect()
}

fn from_row(row: &Row) -> Result<Record, StoreError> {
    Ok(Record {
        request: RequestId(row.b256(0)?),
        direction: Direction::parse(row.text(1)?).ok_or(unknown(1, "a direction"))?,
        chain: ChainId(row.uint(2)?),
        tx: row.b256(3)?,
        sender: row.address(4)?,
        target: row.opt_address(5)?,
        value: row.amount(6)?,
        data: row.bytes(7)?.to_vec().into(),
        fee: row.opt_text(8)?.map(|text| text.parse().map_err(|_| unknown(8, "an amount"))).transpose()?,
        block_number: row.uint(9)?,
        block_hash: row.b256(10)?,
        block_time: Timestamp::from_millis(row.int(11)?),
        succeeded: row.int(12)? != 0,
        gone: row.int(13)? != 0,
        failure: failure(row, 14)?,
    })
}

/// Reason, details and blame, from three columns; the first two are both set or both null.
fn failure(row: &Row, index: usize) -> Result<Option<Failure>, StoreError> {
    let Some(reason) = row.opt_text(index)? else { return Ok(None) };
    let reason = reason.parse().map_err(|_| unknown(index, "a reason"))?;
    let details = row.opt_text(index + 1)?.unwrap_or_default().to_owned();
    Ok(Some(Failure { reason, details, refused: row.int(index + 2)? != 0 }))
}

/// True if a transaction of a request succeeded and stands in a block.
pub fn has_succeeded(tx: &mut Tx<'_>, request: RequestId, direction: Direction) -> Result<bool, StoreError> {
    let row = tx.row(
        "select 1 from transaction_record where request_id = $1 and direction = $2 and succeeded = 1 and gone = 0 limit 1",
        &[request.0.into(), direction.as_str().into()],
    )?;
    Ok(row.is_some())
}

/// Gives a transaction to a child request; the parent keeps it as well if it `stays`.
pub fn hand_down(
    tx: &mut Tx<'_>,
    parent: RequestId,
    child: RequestId,
    chain: ChainId,
    hash: B256,
    stays: bool,
) -> Result<(), StoreError> {
    let args = || Ok::<_, StoreError>([parent.0.into(), chain.0.try_into()?, hash.into()]);
    let [parent, chain, hash] = args()?;
    tx.execute(
        "insert into transaction_record (request_id, chain_id, tx_hash, direction, sender, target, value, data, fee,
         block_number, block_hash, block_time, succeeded)
         select $4, chain_id, tx_hash, direction, sender, target, value, data, fee, block_number, block_hash, block_time,
         succeeded from transaction_record where request_id = $1 and chain_id = $2 and tx_hash = $3 and direction = 'in'
         on conflict (request_id, chain_id, tx_hash, direction) do update set block_number = excluded.block_number,
         block_hash = excluded.block_hash, block_time = excluded.block_time, gone = 0,
         changes = case when transaction_record.block_hash = excluded.block_hash then transaction_record.changes end",
        &[parent, chain, hash, child.0.into()],
    )?;
    if !stays {
        tx.execute(
            "delete from transaction_record where request_id = $1 and chain_id = $2 and tx_hash = $3 and direction = 'in'",
            &args()?,
        )?;
    }
    Ok(())
}

/// Marks the transactions in blocks above this one as gone.
pub fn gone_above(tx: &mut Tx<'_>, chain: ChainId, block: u64) -> Result<(), StoreError> {
    tx.execute(
        "update transaction_record set gone = 1 where chain_id = $1 and block_number > $2",
        &[chain.0.try_into()?, block.try_into()?],
    )?;
    Ok(())
}

/// Marks the transactions of one block as gone.
pub fn gone_in(tx: &mut Tx<'_>, chain: ChainId, block: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "update transaction_record set gone = 1 where chain_id = $1 and block_number = $2 and block_hash = $3",
        &[chain.0.try_into()?, block.number.try_into()?, block.hash.into()],
    )?;
    Ok(())
}

/// A transaction whose receipt has not been read yet.
#[derive(Clone, Debug)]
pub struct Unread {
    id: i64,
    pub tx: B256,
    pub block_hash: B256,
    pub sender: Address,
    pub target: Option<Address>,
    pub value: Amount,
}

/// Transactions of a chain whose receipt has not been read yet, oldest first.
pub fn unread(tx: &mut Tx<'_>, chain: ChainId, after: i64, most: i64) -> Result<Vec<Unread>, StoreError> {
    tx.rows(
        "select record_id, tx_hash, block_hash, sender, target, value from transaction_record
         where chain_id = $1 and changes is null and gone = 0 and record_id > $2 order by record_id limit $3",
        &[chain.0.try_into()?, Value::Int(after), Value::Int(most)],
    )?
    .iter()
    .map(|row| {
        Ok(Unread {
            id: row.int(0)?,
            tx: row.b256(1)?,
            block_hash: row.b256(2)?,
            sender: row.address(3)?,
            target: row.opt_address(4)?,
            value: row.amount(5)?,
        })
    })
    .collect()
}

impl Unread {
    /// Its place among them.
    pub fn number(&self) -> i64 {
        self.id
    }
}

/// Writes what a receipt says, unless the transaction has moved to another block meanwhile.
pub fn set_read(tx: &mut Tx<'_>, unread: &Unread, fee: Amount, changes: &[BalanceChange]) -> Result<(), StoreError> {
    tx.execute(
        "update transaction_record set fee = coalesce(fee, $3), changes = $4
         where record_id = $1 and block_hash = $2 and changes is null",
        &[unread.id.into(), unread.block_hash.into(), fee.to_string().into(), stored_changes::write(changes).into()],
    )?;
    Ok(())
}

/// A failed transaction whose reason is not known yet.
#[derive(Clone, Debug)]
pub struct Unexplained {
    pub id: i64,
    pub record: Record,
    /// Purpose and gas limit of the payment, if the transaction is ours.
    pub payment: Option<(Purpose, u64)>,
}

/// Failed transactions of a chain whose reason is not known yet.
pub fn unexplained(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Unexplained>, StoreError> {
    tx.rows(
        "select r.request_id, r.direction, r.chain_id, r.tx_hash, r.sender, r.target, r.value, r.data, r.fee,
         r.block_number, r.block_hash, r.block_time, r.succeeded, r.gone, r.fail_reason, r.details, r.refused, r.record_id,
         p.purpose, p.gas from transaction_record r
         left join payment p on p.request_id = r.request_id and p.chain_id = r.chain_id and p.tx_hash = r.tx_hash
         where r.chain_id = $1 and r.succeeded = 0 and r.gone = 0 and r.explain_left > 0
         order by r.explain_left desc, r.record_id limit $2",
        &[chain.0.try_into()?, Value::Int(most)],
    )?
    .iter()
    .map(|row| {
        let payment = match row.opt_text(18)? {
            Some(_) => Some((crate::payments::purpose(row, 18)?, row.uint(19)?)),
            None => None,
        };
        Ok(Unexplained { id: row.int(17)?, record: from_row(row)?, payment })
    })
    .collect()
}

/// Stores why a transaction failed. Nothing is stored if it has moved to another block meanwhile.
pub fn explain(tx: &mut Tx<'_>, id: i64, block: B256, failure: &Failure) -> Result<bool, StoreError> {
    let kept = tx.execute(
        "update transaction_record set fail_reason = $3, details = $4, refused = $5, explain_left = 0
         where record_id = $1 and block_hash = $2 and gone = 0 and explain_left > 0",
        &[
            id.into(),
            block.into(),
            failure.reason.as_str().into(),
            failure.details.as_str().into(),
            Value::Int(failure.refused.into()),
        ],
    )?;
    Ok(kept > 0)
}

/// Counts an attempt that did not find the reason; attempts are limited.
pub fn not_explained(tx: &mut Tx<'_>, id: i64) -> Result<(), StoreError> {
    tx.execute("update transaction_record set explain_left = explain_left - 1 where record_id = $1", &[id.into()])?;
    Ok(())
}

/// The reason why the newest failed payment of a request failed, if known.
pub fn last_failure(
    tx: &mut Tx<'_>,
    request: RequestId,
    chain: ChainId,
    direction: Direction,
) -> Result<Option<Failure>, StoreError> {
    let row = tx.row(
        "select fail_reason, details, refused from transaction_record where request_id = $1 and chain_id = $2
         and direction = $3 and succeeded = 0 and gone = 0 order by record_id desc limit 1",
        &[request.0.into(), chain.0.try_into()?, direction.as_str().into()],
    )?;
    row.map_or(Ok(None), |row| failure(&row, 0))
}
