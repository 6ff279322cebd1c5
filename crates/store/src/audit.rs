//! Reads for the audit: pages of rows, in order, from one snapshot.

use alloy_primitives::{Address, B256};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::ledger::UsdcMicros;
use domain::money::Amount;

use crate::depository_ledger::amount;
use crate::payments::Purpose;
use crate::{Row, StoreError, Tx, Value};

/// A stored deposit, with the columns an audit compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    pub tx: B256,
    pub ordinal: u32,
    pub block_number: u64,
    pub block_hash: B256,
    pub claim: Option<OrderId>,
    pub depositor: Address,
    pub currency: Address,
    pub amount: Amount,
}

/// The lowest block with a deposit.
pub fn first_block(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<u64>, StoreError> {
    let sql = "select min(block_number) from deposit where chain_id = $1 and state <> 'gone'";
    tx.row(sql, &[chain.0.try_into()?])?.map_or(Ok(None), |row| row.opt_uint(0))
}

/// Deposits in a range of blocks, in the order of their blocks.
pub fn deposits(
    tx: &mut Tx<'_>,
    chain: ChainId,
    (first, last): (u64, u64),
    most: i64,
) -> Result<Vec<Deposit>, StoreError> {
    let sql = "select tx_hash, ordinal, block_number, block_hash, claim, depositor, currency, amount from deposit
         where chain_id = $1 and block_number >= $2 and block_number <= $3 and state <> 'gone'
         order by block_number, deposit_id limit $4";
    let args = [chain.0.try_into()?, first.try_into()?, last.try_into()?, Value::Int(most)];
    tx.rows(sql, &args)?
        .iter()
        .map(|row| {
            Ok(Deposit {
                tx: row.b256(0)?,
                ordinal: row.u32(1)?,
                block_number: row.uint(2)?,
                block_hash: row.b256(3)?,
                claim: row.opt_order_id(4)?,
                depositor: row.address(5)?,
                currency: row.address(6)?,
                amount: row.amount(7)?,
            })
        })
        .collect()
}

/// A stored payment, with the columns an audit compares.
#[derive(Clone, Debug)]
pub struct Payment {
    pub id: i64,
    pub purpose: Purpose,
    pub order: OrderId,
    pub chain: ChainId,
    pub wallet: Address,
    pub nonce: u64,
    pub target: Address,
    pub recipient: Address,
    pub currency: Address,
    pub amount: Amount,
    pub state: String,
    pub tx: Option<B256>,
    pub block_hash: Option<B256>,
}

/// Payments after an id, in order and in any state.
pub fn payments(tx: &mut Tx<'_>, after: i64, most: i64) -> Result<Vec<Payment>, StoreError> {
    let sql =
        "select payment_id, purpose, order_id, chain_id, wallet, nonce, target, recipient, currency, amount, state,
         tx_hash, block_hash from payment where payment_id > $1 order by payment_id limit $2";
    tx.rows(sql, &[after.into(), Value::Int(most)])?.iter().map(payment).collect()
}

fn payment(row: &Row) -> Result<Payment, StoreError> {
    Ok(Payment {
        id: row.int(0)?,
        purpose: crate::payments::purpose(row, 1)?,
        order: row.order_id(2)?,
        chain: ChainId(row.uint(3)?),
        wallet: row.address(4)?,
        nonce: row.uint(5)?,
        target: row.address(6)?,
        recipient: row.address(7)?,
        currency: row.address(8)?,
        amount: row.amount(9)?,
        state: row.text(10)?.to_owned(),
        tx: row.opt_b256(11)?,
        block_hash: row.opt_b256(12)?,
    })
}

/// True if a transaction is that of a payment.
pub fn is_payment(tx: &mut Tx<'_>, chain: ChainId, hash: B256) -> Result<bool, StoreError> {
    let sql = "select 1 from payment where chain_id = $1 and tx_hash = $2";
    Ok(tx.row(sql, &[chain.0.try_into()?, hash.into()])?.is_some())
}

/// Orders with more than one fill or refund that is not void, and claims with more than one payment.
pub fn settled_twice(tx: &mut Tx<'_>, most: i64) -> Result<Vec<(OrderId, u64)>, StoreError> {
    let sql = "select order_id, count(*) from payment where purpose in ('fill', 'refund', 'return', 'claim')
         and state <> 'void' and state <> 'reverted' group by order_id having count(*) > 1 limit $1";
    tx.rows(sql, &[Value::Int(most)])?.iter().map(|row| Ok((row.order_id(0)?, row.uint(1)?))).collect()
}

/// Settled orders whose settlement names no payment and no payout of theirs.
pub fn settled_by_nothing(tx: &mut Tx<'_>, most: i64) -> Result<Vec<OrderId>, StoreError> {
    let sql = "select s.order_id from settlement s where not exists (select 1 from payment p
         where p.payment_id = s.payment_id and p.order_id = s.order_id and p.state <> 'void')
         and not exists (select 1 from payout o join depository_settlement v on v.deposit_key = o.subject
         where o.payout_id = s.payout_id and v.order_id = s.order_id) limit $1";
    tx.rows(sql, &[Value::Int(most)])?.iter().map(|row| row.order_id(0)).collect()
}

/// The known nonces of a wallet: their count, the lowest and the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nonces {
    pub count: u64,
    pub lowest: Option<u64>,
    pub highest: Option<u64>,
    /// Nonces whose payment is in a block at or below the cursor.
    pub mined: u64,
}

pub fn nonces(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, taken: u64) -> Result<Nonces, StoreError> {
    let sql = "select count(*), min(nonce), max(nonce),
         cast(coalesce(sum(case when block_number <= $3 then 1 else 0 end), 0) as bigint)
         from payment where chain_id = $1 and wallet = $2";
    let row = tx.row(sql, &[chain.0.try_into()?, wallet.into(), taken.try_into()?])?;
    row.map_or(Ok(Nonces::default()), |row| {
        Ok(Nonces { count: row.uint(0)?, lowest: row.opt_uint(1)?, highest: row.opt_uint(2)?, mined: row.uint(3)? })
    })
}

/// A depository deposit and the amounts promised out of it, for comparison with its payouts.
#[derive(Clone, Debug)]
pub struct Promise {
    pub deposit: B256,
    pub amount: Amount,
    pub reimbursed: Amount,
    pub refunded: Amount,
    pub claimed: Amount,
}

/// Booked deposits after a key, in the order of their keys.
pub fn promises(tx: &mut Tx<'_>, after: B256, most: i64) -> Result<Vec<Promise>, StoreError> {
    let sql = "select deposit_key, amount, reimbursed, refunded, claimed from depository_deposit where deposit_key > $1
         order by deposit_key limit $2";
    tx.rows(sql, &[after.into(), Value::Int(most)])?
        .iter()
        .map(|row| {
            Ok(Promise {
                deposit: row.b256(0)?,
                amount: amount(row, 1)?,
                reimbursed: amount(row, 2)?,
                refunded: amount(row, 3)?,
                claimed: amount(row, 4)?,
            })
        })
        .collect()
}

/// Amounts that payouts take out of a deposit, by kind: reimbursed or refunded.
pub fn taken(tx: &mut Tx<'_>, deposit: B256) -> Result<Vec<(i64, Amount)>, StoreError> {
    let sql = "select kind, amount from payout_deposit where deposit_key = $1";
    tx.rows(sql, &[deposit.into()])?.iter().map(|row| Ok((row.int(0)?, amount(row, 1)?))).collect()
}

/// The number of ledger entries for paid claims.
pub fn entries_of_claims(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "select count(*) from ledger_entry where amount > 0 and entry_id like 'paid:%'";
    tx.row(sql, &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// The number of fast fills that were not voided.
pub fn fast_fills(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.row("select count(*) from fast_fill where voided = 0", &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// The number of app fees that wait for their sponsor.
pub fn held_app_fees(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.row("select count(*) from app_fee_hold", &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// Fast fills whose hold contradicts their deposit or their entries.
pub fn fast_fill_contradictions(tx: &mut Tx<'_>, most: i64) -> Result<Vec<(OrderId, &'static str)>, StoreError> {
    const LATER: &str = "has a final deposit, and its hold waits for nothing";
    const UNPAID: &str = "has a hold that was spent on nothing";
    const RETURNED: &str = "was given back more than it was charged";
    const NOT_VOIDED: &str = "was not paid, and its hold waits for nothing";
    const GAS: &str = "was not paid, and has a hold that was spent on no gas";
    let mut found = Vec::new();
    for (sql, how) in [
        (
            "select f.order_id from fast_fill f join ledger_hold h on h.kind = 'fast-fill' and h.subject = f.request_id
             and h.attempt = f.attempt and h.state = 'open' join deposit_use u on u.order_id = f.order_id and u.input = 0
             join deposit d on d.deposit_id = u.deposit_id and d.state = 'final'
             join request r on r.request_id = f.request_id and r.state = 'success'
             where f.voided = 0 and f.unpriced_on is null limit $1",
            LATER,
        ),
        (
            "select f.order_id from fast_fill f join ledger_hold h on h.kind = 'fast-fill' and h.subject = f.request_id
             and h.attempt = f.attempt and h.state = 'posted' where f.voided = 0 and not exists (select 1
             from ledger_entry e where e.entry_id = 'loss:' || h.hold_id) limit $1",
            UNPAID,
        ),
        (
            "select f.order_id from fast_fill f join ledger_hold h on h.kind = 'fast-fill' and h.subject = f.request_id
             and h.attempt = f.attempt join ledger_entry r on r.entry_id = 'return:' || h.hold_id
             where f.voided = 0 and r.amount > (select cast(coalesce(sum(e.amount), 0) as bigint) from ledger_entry e
             where e.entry_id in ('loss:' || h.hold_id, 'loss-beyond:' || h.hold_id)) limit $1",
            RETURNED,
        ),
        (
            "select f.order_id from fast_fill f join ledger_hold h on h.kind = 'fast-fill' and h.subject = f.request_id
             and h.attempt = f.attempt and h.state = 'open' where f.voided = 1 and f.cause_awaited_on is null limit $1",
            NOT_VOIDED,
        ),
        (
            "select f.order_id from fast_fill f join ledger_hold h on h.kind = 'fast-fill' and h.subject = f.request_id
             and h.attempt = f.attempt and h.state = 'posted' where f.voided = 1 and not exists (select 1
             from ledger_entry e where e.entry_id = 'gas:' || h.hold_id) limit $1",
            GAS,
        ),
    ] {
        for row in tx.rows(sql, &[Value::Int(most)])? {
            found.push((row.order_id(0)?, how));
        }
    }
    Ok(found)
}

/// The number of ledger entries caused by a fill.
pub fn entries_of_fills(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "select count(*) from ledger_entry where amount > 0 and (entry_id like 'sponsorship:%'
         or entry_id like 'fixed-rate:%' or entry_id like 'app-fee:%')";
    tx.row(sql, &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// The number of ledger entries caused by a same-chain transaction.
pub fn entries_of_same_chain(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "select count(*) from ledger_entry where amount > 0 and entry_id like 'alone-fee:%'";
    tx.row(sql, &[])?.map_or(Ok(0), |row| row.uint(0))
}

/// A relay, with the payment that sent it and what was set aside and charged for its gas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub request: RequestId,
    pub chain: ChainId,
    /// No block has it, as far as its row says.
    pub live: bool,
    pub due: bool,
    pub payment: Option<RelayPayment>,
    pub hold: Option<RelayHold>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPayment {
    pub ended: bool,
    /// The gas it burnt, if a block has it.
    pub fee: Option<Amount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayHold {
    pub id: String,
    pub state: String,
    pub amount: UsdcMicros,
    pub charged: Option<UsdcMicros>,
}

/// Relays after a request, in the order of their requests.
pub fn relays(tx: &mut Tx<'_>, after: RequestId, most: i64) -> Result<Vec<Relay>, StoreError> {
    let sql = "select r.request_id, r.chain_id, r.state,
         (select count(*) from due d where d.purpose = 'relay' and d.subject = r.request_id),
         p.state, p.fee, h.hold_id, h.state, h.amount, e.amount
         from relay r
         left join payment p on p.payment_id = (select max(m.payment_id) from payment m
             where m.purpose = 'relay' and m.subject = r.request_id)
         left join ledger_hold h on h.kind = 'relay' and h.subject = r.request_id
         left join ledger_entry e on e.entry_id = 'relayed:' || h.hold_id
         where r.request_id > $1 order by r.request_id limit $2";
    tx.rows(sql, &[after.0.into(), Value::Int(most)])?.iter().map(relay).collect()
}

fn relay(row: &Row) -> Result<Relay, StoreError> {
    let fee = match row.opt_text(5)? {
        Some(_) => Some(row.amount(5)?),
        None => None,
    };
    let payment = row.opt_text(4)?.map(|state| RelayPayment { ended: matches!(state, "final" | "void"), fee });
    let hold = match row.opt_text(6)? {
        Some(id) => Some(RelayHold {
            id: id.to_owned(),
            state: row.text(7)?.to_owned(),
            amount: UsdcMicros(row.int(8)?),
            charged: row.opt_int(9)?.map(UsdcMicros),
        }),
        None => None,
    };
    Ok(Relay {
        request: row.request_id(0)?,
        chain: ChainId(row.uint(1)?),
        live: row.text(2)? == "live",
        due: row.uint(3)? > 0,
        payment,
        hold,
    })
}

/// The number of ledger entries for the gas of relays.
pub fn entries_of_relays(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "select count(*) from ledger_entry where amount > 0 and entry_id like 'relayed:%'";
    tx.row(sql, &[])?.map_or(Ok(0), |row| row.uint(0))
}
