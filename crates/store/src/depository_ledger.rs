//! The allocator's depository ledger: the money in the depositories, and the evidence that lets it leave.

use alloy_primitives::{Address, B256, U256};
use domain::ids::{ChainId, OrderId};
use domain::money::Amount;
use domain::quote::Quote;
use domain::time::Timestamp;

use crate::blocks::Cursor;
use crate::columns::unknown;
use crate::payments::Purpose;
use crate::{Row, StoreError, Tx, Value, stored_quote};

/// A final deposit, as read by the allocator itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    pub key: B256,
    pub chain: ChainId,
    pub tx: B256,
    pub ordinal: u32,
    pub block_number: u64,
    pub block_hash: B256,
    pub block_time: Timestamp,
    pub order: Option<OrderId>,
    pub return_key: B256,
    pub depositor: Address,
    pub payer: Address,
    pub sender: Address,
    pub currency: Address,
    pub amount: Amount,
}

impl Deposit {
    /// Payer, sender and depositor.
    pub fn parties(&self) -> [Address; 3] {
        [self.payer, self.sender, self.depositor]
    }
}

/// A deposit and the amounts promised out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub deposit: Deposit,
    pub reimbursed: Amount,
    pub refunded: Amount,
    pub settled: bool,
}

impl Held {
    /// The amount not promised yet.
    pub fn left(&self) -> Amount {
        self.deposit.amount.saturating_sub(self.reimbursed).saturating_sub(self.refunded)
    }
}

/// The way an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Fill,
    Refund,
    /// The return of a deposit that paid for no order, from our own funds.
    Return,
    /// The same return, out of the depository.
    Depository,
}

impl Ending {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Refund => "refund",
            Self::Return => "return",
            Self::Depository => "vault",
        }
    }

    fn of(row: &Row, index: usize) -> Result<Self, StoreError> {
        match row.text(index)? {
            "fill" => Ok(Self::Fill),
            "refund" => Ok(Self::Refund),
            "return" => Ok(Self::Return),
            "vault" => Ok(Self::Depository),
            _ => Err(unknown(index, "an ending")),
        }
    }
}

/// A transaction that settled a deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub key: B256,
    /// The order id; for a return, the deposit's return key.
    pub order: OrderId,
    pub deposit: B256,
    pub ending: Ending,
    pub chain: ChainId,
    pub tx: B256,
}

/// Encodes an amount as 32 big-endian bytes, which SQL constraints can compare.
pub(crate) fn word(amount: Amount) -> Value {
    Value::Bytes(amount.units().to_be_bytes_vec())
}

pub(crate) fn amount(row: &Row, index: usize) -> Result<Amount, StoreError> {
    row.b256(index).map(|word| Amount::new(U256::from_be_bytes(word.0)))
}

macro_rules! columns {
    () => {
        "v.deposit_key, v.chain_id, v.tx_hash, v.ordinal, v.block_number, v.block_hash, v.block_time, v.order_id, \
         v.return_key, v.depositor, v.payer, v.sender, v.currency, v.amount, v.reimbursed, v.refunded, v.settled \
         from depository_deposit v"
    };
}

fn from_row(row: &Row) -> Result<Held, StoreError> {
    Ok(Held {
        deposit: Deposit {
            key: row.b256(0)?,
            chain: ChainId(row.uint(1)?),
            tx: row.b256(2)?,
            ordinal: row.u32(3)?,
            block_number: row.uint(4)?,
            block_hash: row.b256(5)?,
            block_time: row.time(6)?,
            order: row.opt_order_id(7)?,
            return_key: row.b256(8)?,
            depositor: row.address(9)?,
            payer: row.address(10)?,
            sender: row.address(11)?,
            currency: row.address(12)?,
            amount: amount(row, 13)?,
        },
        reimbursed: amount(row, 14)?,
        refunded: amount(row, 15)?,
        settled: row.int(16)? == 1,
    })
}

pub fn cursor(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Cursor>, StoreError> {
    let row = tx.row("select number, hash from depository_cursor where chain_id = $1", &[chain.0.try_into()?])?;
    row.map(|row| Ok(Cursor { number: row.uint(0)?, hash: row.b256(1)? })).transpose()
}

pub fn set_cursor(tx: &mut Tx<'_>, chain: ChainId, to: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "insert into depository_cursor (chain_id, number, hash) values ($1, $2, $3)
         on conflict (chain_id) do update set number = excluded.number, hash = excluded.hash",
        &[chain.0.try_into()?, to.number.try_into()?, to.hash.into()],
    )?;
    Ok(())
}

/// The block of the first known deposit, the latest point at which the depository ledger may begin.
pub fn first_deposit(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<u64>, StoreError> {
    let row = tx.row("select min(block_number) from deposit where chain_id = $1", &[chain.0.try_into()?])?;
    row.map_or(Ok(None), |row| row.opt_uint(0))
}

/// Books a deposit. `false` means that it is booked already.
pub fn insert(tx: &mut Tx<'_>, deposit: &Deposit) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into depository_deposit (deposit_key, chain_id, tx_hash, ordinal, block_number, block_hash, block_time,
         order_id, return_key, depositor, payer, sender, currency, amount, reimbursed, refunded, claimed)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $15)
         on conflict do nothing returning deposit_key",
        &[
            deposit.key.into(),
            deposit.chain.0.try_into()?,
            deposit.tx.into(),
            deposit.ordinal.into(),
            deposit.block_number.try_into()?,
            deposit.block_hash.into(),
            deposit.block_time.into(),
            deposit.order.into(),
            deposit.return_key.into(),
            deposit.depositor.into(),
            deposit.payer.into(),
            deposit.sender.into(),
            deposit.currency.into(),
            word(deposit.amount),
            word(Amount::ZERO),
        ],
    )?;
    if row.is_some() {
        let total = total(tx, deposit.chain, deposit.currency)?;
        let deposited = total.deposited.checked_add(deposit.amount).map_err(|_| StoreError::OutOfRange("a total"))?;
        set_total(tx, deposit.chain, deposit.currency, Total { deposited, ..total })?;
    }
    Ok(row.is_some())
}

/// Deposits and executed payouts of one currency up to the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub deposited: Amount,
    pub executed: Amount,
}

pub fn total(tx: &mut Tx<'_>, chain: ChainId, currency: Address) -> Result<Total, StoreError> {
    let row = tx.row(
        "select deposited, executed from depository_total where chain_id = $1 and currency = $2",
        &[chain.0.try_into()?, currency.into()],
    )?;
    row.map_or(Ok(Total::default()), |row| Ok(Total { deposited: amount(&row, 0)?, executed: amount(&row, 1)? }))
}

pub fn set_total(tx: &mut Tx<'_>, chain: ChainId, currency: Address, total: Total) -> Result<(), StoreError> {
    tx.execute(
        "insert into depository_total (chain_id, currency, deposited, executed) values ($1, $2, $3, $4)
         on conflict (chain_id, currency) do update set deposited = excluded.deposited, executed = excluded.executed",
        &[chain.0.try_into()?, currency.into(), word(total.deposited), word(total.executed)],
    )?;
    Ok(())
}

/// Finds the deposit and locks its row until the unit ends.
pub fn lock(tx: &mut Tx<'_>, key: B256) -> Result<Option<Held>, StoreError> {
    let sql = concat!("select ", columns!(), " where v.deposit_key = $1 {for_update}");
    tx.row(sql, &[key.into()])?.as_ref().map(from_row).transpose()
}

pub fn find(tx: &mut Tx<'_>, key: B256) -> Result<Option<Held>, StoreError> {
    let sql = concat!("select ", columns!(), " where v.deposit_key = $1");
    tx.row(sql, &[key.into()])?.as_ref().map(from_row).transpose()
}

/// A deposit and the transaction that, by the solver's tables, settled it. Only ids are taken from those tables.
#[derive(Clone, Debug)]
pub struct Claim {
    pub held: Held,
    pub order: OrderId,
    pub ending: Ending,
    pub chain: ChainId,
    pub tx: B256,
}

/// Unsettled deposits whose order, or whose return, has a final payment.
pub fn claims(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Claim>, StoreError> {
    let sql = "select s.order_id, p.purpose, p.chain_id, p.tx_hash, v.deposit_key from depository_deposit v
         join deposit d on d.chain_id = v.chain_id and d.tx_hash = v.tx_hash and d.ordinal = v.ordinal
         left join deposit_use u on u.deposit_id = d.deposit_id
         join settlement s on s.order_id = coalesce(u.order_id, v.return_key)
         join payment p on p.payment_id = s.payment_id and p.state = 'final' and p.tx_hash is not null
         where v.chain_id = $1 and v.settled = 0 and p.purpose in ('fill', 'refund', 'return')
         order by v.block_number limit $2";
    let rows = tx.rows(sql, &[chain.0.try_into()?, Value::Int(most)])?;
    let mut claims = Vec::with_capacity(rows.len());
    for row in rows {
        let ending = match crate::payments::purpose(&row, 1)? {
            Purpose::Fill => Ending::Fill,
            Purpose::Refund => Ending::Refund,
            Purpose::Return => Ending::Return,
            // None of these settles an order.
            Purpose::Excess | Purpose::Claim | Purpose::Refill | Purpose::Payout | Purpose::Sweep | Purpose::Relay => {
                continue;
            }
        };
        let Some(held) = find(tx, row.b256(4)?)? else { continue };
        let (order, chain) = (row.order_id(0)?, ChainId(row.uint(2)?));
        claims.push(Claim { held, order, ending, chain, tx: row.b256(3)? });
    }
    Ok(claims)
}

/// Deposits the solver wants returned and cannot return from its own funds.
pub fn unreturned(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Held>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " join deposit d on d.chain_id = v.chain_id and d.tx_hash = v.tx_hash and d.ordinal = v.ordinal
         where v.chain_id = $1 and v.settled = 0 and d.return_due = 2
         and not exists (select 1 from deposit_use u where u.deposit_id = d.deposit_id)
         and not exists (select 1 from settlement s where s.order_id = v.return_key)
         order by coalesce(v.refused_at, 0), v.block_number limit $2"
    );
    tx.rows(sql, &[chain.0.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Deposits of orders whose refund the solver leaves to the depository; the longest unexamined first.
pub fn refundable(tx: &mut Tx<'_>, chain: ChainId, most: i64) -> Result<Vec<Held>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " join deposit d on d.chain_id = v.chain_id and d.tx_hash = v.tx_hash and d.ordinal = v.ordinal
         join deposit_use u on u.deposit_id = d.deposit_id and u.input = 0 and u.order_id = v.order_id
         join due q on q.purpose = 'refund' and q.subject = u.order_id and q.from_depository = 1
         where v.chain_id = $1 and v.settled = 0
         and not exists (select 1 from settlement s where s.order_id = u.order_id)
         order by coalesce(v.refused_at, 0), v.block_number limit $2"
    );
    tx.rows(sql, &[chain.0.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Postpones an undecided deposit: others have their turn before it is examined again.
pub fn postpone(tx: &mut Tx<'_>, key: B256, why: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update depository_deposit set refusal = $2, refused_at = $3 where deposit_key = $1 and settled = 0",
        &[key.into(), why.into(), now.into()],
    )?;
    Ok(())
}

/// The booked deposits under an order, oldest first.
pub fn under(tx: &mut Tx<'_>, order: OrderId, most: i64) -> Result<Vec<Held>, StoreError> {
    let sql = concat!("select ", columns!(), " where v.order_id = $1 order by v.block_number limit $2");
    tx.rows(sql, &[order.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

/// Settled deposits with an amount left to reimburse and in no batch yet, oldest first.
pub fn reimbursable(tx: &mut Tx<'_>, chain: ChainId, currency: Address, most: i64) -> Result<Vec<Held>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where v.chain_id = $1 and v.currency = $2 and v.settled = 1 and v.claimed < v.amount
         and not exists (select 1 from payout_deposit m where m.deposit_key = v.deposit_key and m.kind = 3)
         order by v.block_number limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, currency.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

/// Records the settlement of a deposit. `false` means that the deposit, the order or the transaction is taken.
pub fn settle(tx: &mut Tx<'_>, settlement: &Settlement, now: Timestamp) -> Result<bool, StoreError> {
    let row = tx.row(
        "insert into depository_settlement (settlement_key, order_id, deposit_key, outcome, chain_id, tx_hash, at)
         values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning settlement_key",
        &[
            settlement.key.into(),
            settlement.order.into(),
            settlement.deposit.into(),
            settlement.ending.as_str().into(),
            settlement.chain.0.try_into()?,
            settlement.tx.into(),
            now.into(),
        ],
    )?;
    Ok(row.is_some())
}

/// True if a deposit was returned, or is being returned, out of the depository: then nobody else returns it.
pub fn goes_back(tx: &mut Tx<'_>, return_key: B256) -> Result<bool, StoreError> {
    let row = tx.row(
        "select v.deposit_key from depository_deposit v left join depository_settlement s on s.deposit_key = v.deposit_key
         where v.return_key = $1 and (v.settled = 3 or s.outcome = 'vault' or exists
         (select 1 from payout_deposit p where p.deposit_key = v.deposit_key and p.kind = 1))",
        &[return_key.into()],
    )?;
    Ok(row.is_some())
}

/// The settlement of a deposit.
pub fn settlement_of(tx: &mut Tx<'_>, deposit: B256) -> Result<Option<Settlement>, StoreError> {
    let sql = "select settlement_key, order_id, deposit_key, outcome, chain_id, tx_hash from depository_settlement
               where deposit_key = $1";
    tx.row(sql, &[deposit.into()])?.as_ref().map(settlement).transpose()
}

/// The settlement of an order.
pub fn settlement_for(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Settlement>, StoreError> {
    let sql = "select settlement_key, order_id, deposit_key, outcome, chain_id, tx_hash from depository_settlement
               where order_id = $1";
    tx.row(sql, &[order.into()])?.as_ref().map(settlement).transpose()
}

fn settlement(row: &Row) -> Result<Settlement, StoreError> {
    Ok(Settlement {
        key: row.b256(0)?,
        order: row.order_id(1)?,
        deposit: row.b256(2)?,
        ending: Ending::of(row, 3)?,
        chain: ChainId(row.uint(4)?),
        tx: row.b256(5)?,
    })
}

/// Marks a deposit as being returned out of the depository.
pub fn set_returning(tx: &mut Tx<'_>, key: B256) -> Result<(), StoreError> {
    tx.execute("update depository_deposit set settled = 3 where deposit_key = $1", &[key.into()])?;
    Ok(())
}

/// Marks a deposit as returned: the amount kept for gas may be reimbursed, and the solver's return is no longer due.
pub fn set_returned(tx: &mut Tx<'_>, deposit: &Deposit) -> Result<(), StoreError> {
    set_settled(tx, deposit.key)?;
    tx.execute(
        "update deposit set return_due = 0 where chain_id = $1 and tx_hash = $2 and ordinal = $3 and return_due = 2",
        &[deposit.chain.0.try_into()?, deposit.tx.into(), deposit.ordinal.into()],
    )?;
    Ok(())
}

/// Marks a deposit as settled: it may be reimbursed from now on.
pub fn set_settled(tx: &mut Tx<'_>, key: B256) -> Result<(), StoreError> {
    tx.execute("update depository_deposit set settled = 1, refusal = null where deposit_key = $1", &[key.into()])?;
    Ok(())
}

/// The reason of a deposit that nobody is waiting for.
pub const WORTHLESS: &str = "sending it costs more than it is";

/// Sets a deposit aside because no proof was good enough.
pub fn refuse(tx: &mut Tx<'_>, key: B256, why: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update depository_deposit set settled = 2, refusal = $2, refused_at = $3 where deposit_key = $1 and settled = 0",
        &[key.into(), why.into(), now.into()],
    )?;
    Ok(())
}

/// Reopens deposits that were set aside before a moment.
pub fn rescan_range(tx: &mut Tx<'_>, chain: ChainId, before: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update depository_deposit set settled = 0 where chain_id = $1 and settled = 2 and refused_at < $2",
        &[chain.0.try_into()?, before.into()],
    )?;
    Ok(())
}

pub fn refusals(tx: &mut Tx<'_>, chain: ChainId) -> Result<u64, StoreError> {
    let sql = "select count(*) from depository_deposit where chain_id = $1 and settled = 2";
    tx.row(sql, &[chain.0.try_into()?])?.map_or(Ok(0), |row| row.uint(0))
}

/// Promises part of a deposit. A constraint refuses more than was deposited.
pub fn promise(tx: &mut Tx<'_>, held: &Held, reimburse: Amount, refund: Amount) -> Result<(), StoreError> {
    let add = |a: Amount, b: Amount| a.checked_add(b).map_err(|_| StoreError::OutOfRange("a promise"));
    let (reimbursed, refunded) = (add(held.reimbursed, reimburse)?, add(held.refunded, refund)?);
    tx.execute(
        "update depository_deposit set reimbursed = $2, refunded = $3, claimed = $4 where deposit_key = $1",
        &[held.deposit.key.into(), word(reimbursed), word(refunded), word(add(reimbursed, refunded)?)],
    )?;
    Ok(())
}

/// The quote of an order, from which the order is rebuilt: its hash has to be the order's id.
pub fn quote_of(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Quote>, StoreError> {
    let request = tx.row("select quote from request where order_id = $1", &[order.into()])?;
    let row = match request {
        Some(row) => Some(row),
        None => tx.row("select body from quote where order_id = $1", &[order.into()])?,
    };
    row.map(|row| stored_quote::of(&row, 0)).transpose()
}
