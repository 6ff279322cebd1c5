//! Payments: the transactions we decided to send, and their progress.

use alloy_primitives::{Address, B256, Bytes};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::payment::State;
pub use domain::subject::{Purpose, Subject};
use domain::time::Timestamp;

use crate::blocks::Cursor;
use crate::columns::{self, unknown};
use crate::{Row, StoreError, Tx, Value};
use crate::{lanes, relays};

mod recent_voids;
mod wasted_gas;

pub use recent_voids::void_since;
pub use wasted_gas::{is_cause_unknown, is_unexplained, wasted, wasted_by};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaymentId(pub i64);

pub(crate) fn purpose(row: &Row, index: usize) -> Result<Purpose, StoreError> {
    match row.text(index)? {
        "fill" => Ok(Purpose::Fill),
        "refund" => Ok(Purpose::Refund),
        "return" => Ok(Purpose::Return),
        "excess" => Ok(Purpose::Excess),
        "topup" => Ok(Purpose::Refill),
        "claim" => Ok(Purpose::Claim),
        "payout" => Ok(Purpose::Payout),
        "sweep" => Ok(Purpose::Sweep),
        "relay" => Ok(Purpose::Relay),
        _ => Err(unknown(index, "a purpose")),
    }
}

/// The two columns that a subject is found by.
pub(crate) fn by(subject: &Subject) -> [Value; 2] {
    [subject.purpose().as_str().into(), subject.key().into()]
}

/// Everything the signature covers except the fees, and the payment's subject.
#[derive(Clone, Debug)]
pub struct Payment {
    pub subject: Subject,
    /// None if the payment is about no request.
    pub request: Option<RequestId>,
    pub chain: ChainId,
    pub wallet: Address,
    pub nonce: u64,
    pub target: Address,
    pub value: Amount,
    pub data: Bytes,
    pub gas: u64,
    pub recipient: Address,
    /// The currency paid, which for a token is not the transaction's value.
    pub currency: Address,
    pub amount: Amount,
}

impl Payment {
    pub const fn purpose(&self) -> Purpose {
        self.subject.purpose()
    }

    /// The id in the settlement row and the calldata: the order, the returned deposit, or the claim.
    pub fn order(&self) -> OrderId {
        self.subject.settles()
    }
}

/// The offer of an attempt. On the venue `max_fee` is its fee in units of USDC, and `max_tip` the time at which the
/// attempt expires, in milliseconds on its clock: both are signed, so that a new offer is a new attempt there as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    pub max_fee: u64,
    pub max_tip: u64,
}

#[derive(Clone, Debug)]
pub struct PaymentRow {
    pub id: PaymentId,
    pub state: State,
    pub payment: Payment,
    /// Fees of the last attempt.
    pub fees: Fees,
    pub attempts: u32,
    pub attempted_at: Timestamp,
    /// The payment was cancelled: the last attempt only uses up the nonce. An earlier attempt may still be mined.
    pub cancelled: bool,
    pub created_at: Timestamp,
    pub block_number: Option<u64>,
    /// EIP-7702 authorizations of a relay that has some, as a transaction carries them.
    pub authorizations: Option<Bytes>,
}

macro_rules! columns {
    () => {
        "p.payment_id, p.state, p.purpose, p.subject, p.request_id, p.order_id, p.chain_id, p.wallet, p.nonce, \
         p.target, p.value, p.data, p.gas, p.currency, p.amount, a.max_fee, a.max_tip, a.ordinal, a.created_at, \
         p.block_number, p.recipient, a.cancels, p.created_at, \
         case when p.purpose = 'relay' then (select r.authorizations from relay r where r.request_id = p.subject) end \
         from payment p join attempt a on a.payment_id = p.payment_id and a.ordinal = \
         (select max(b.ordinal) from attempt b where b.payment_id = p.payment_id)"
    };
}

fn from_row(row: &Row) -> Result<PaymentRow, StoreError> {
    let state = row.text(1)?;
    let state = State::ALL.into_iter().find(|known| known.as_str() == state);
    Ok(PaymentRow {
        id: PaymentId(row.int(0)?),
        state: state.ok_or(unknown(1, "a state"))?,
        payment: Payment {
            subject: Subject::restore(purpose(row, 2)?, row.b256(3)?, OrderId(row.b256(5)?)),
            request: row.about(4)?,
            chain: ChainId(row.uint(6)?),
            wallet: row.address(7)?,
            nonce: row.uint(8)?,
            target: row.address(9)?,
            value: row.amount(10)?,
            data: row.bytes(11)?.to_vec().into(),
            gas: row.uint(12)?,
            recipient: row.address(20)?,
            currency: row.address(13)?,
            amount: row.amount(14)?,
        },
        fees: Fees { max_fee: row.uint(15)?, max_tip: row.uint(16)? },
        attempts: row.u32(17)?,
        attempted_at: Timestamp::from_millis(row.int(18)?),
        block_number: row.opt_uint(19)?,
        cancelled: row.int(21)? != 0,
        created_at: Timestamp::from_millis(row.int(22)?),
        authorizations: row.opt_bytes(23)?.filter(|bytes| !bytes.is_empty()).map(|bytes| bytes.to_vec().into()),
    })
}

/// Inserts a payment and its first attempt. `None` means that one for the same purpose and subject is live.
fn insert(tx: &mut Tx<'_>, payment: &Payment, fees: Fees, now: Timestamp) -> Result<Option<PaymentRow>, StoreError> {
    let row = tx.row(
        "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data,
         gas, recipient, currency, amount, state, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'decided', $15, $15)
         on conflict do nothing returning payment_id",
        &[
            payment.purpose().as_str().into(),
            payment.subject.key().into(),
            columns::about(payment.request),
            payment.order().0.into(),
            payment.chain.0.try_into()?,
            payment.wallet.into(),
            payment.nonce.try_into()?,
            payment.target.into(),
            payment.value.to_string().into(),
            payment.data.as_ref().into(),
            payment.gas.try_into()?,
            payment.recipient.into(),
            payment.currency.into(),
            payment.amount.to_string().into(),
            now.millis().into(),
        ],
    )?;
    let Some(row) = row else { return Ok(None) };
    let id = PaymentId(row.int(0)?);
    attempt(tx, id, Attempt { ordinal: 1, fees, cancels: false }, now)?;
    let authorizations = match payment.subject {
        Subject::Relay(request) => relays::find(tx, request)?.map(|row| row.relay.authorizations),
        _ => None,
    };
    Ok(Some(PaymentRow {
        id,
        state: State::Decided,
        payment: payment.clone(),
        fees,
        attempts: 1,
        attempted_at: now,
        cancelled: false,
        created_at: now,
        block_number: None,
        authorizations: authorizations.filter(|list| !list.is_empty()),
    }))
}

/// Gives a payment the next nonce of its wallet's lane, and fixes it. `None` means that one for the same subject is
/// alive. The nonce in `payment` is replaced. Nonces are taken here and nowhere else.
pub fn assign(tx: &mut Tx<'_>, payment: Payment, fees: Fees, now: Timestamp) -> Result<Option<PaymentRow>, StoreError> {
    let nonce = lanes::take_nonce(tx, payment.chain, payment.wallet)?;
    insert(tx, &Payment { nonce, ..payment }, fees, now)
}

/// Keeps a payment that the chain shows under a nonce this database has not given away. `None` means that it is known.
pub fn import(
    tx: &mut Tx<'_>,
    payment: &Payment,
    fees: Fees,
    now: Timestamp,
) -> Result<Option<PaymentRow>, StoreError> {
    insert(tx, payment, fees, now)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub ordinal: u32,
    pub fees: Fees,
    /// The attempt only uses up the nonce.
    pub cancels: bool,
}

/// Adds an attempt: the payment with other fees, or its cancellation.
pub fn attempt(tx: &mut Tx<'_>, id: PaymentId, attempt: Attempt, now: Timestamp) -> Result<(), StoreError> {
    let Attempt { ordinal, fees, cancels } = attempt;
    tx.forget_kept();
    tx.execute(
        "insert into attempt (payment_id, ordinal, max_fee, max_tip, created_at, cancels) values ($1, $2, $3, $4, $5, $6)",
        &[
            id.0.into(),
            ordinal.into(),
            fees.max_fee.try_into()?,
            fees.max_tip.try_into()?,
            now.millis().into(),
            Value::Int(cancels.into()),
        ],
    )?;
    Ok(())
}

/// All attempts of a payment, the newest first.
pub fn attempts(tx: &mut Tx<'_>, id: PaymentId) -> Result<Vec<Attempt>, StoreError> {
    tx.rows(
        "select ordinal, max_fee, max_tip, cancels from attempt where payment_id = $1 order by ordinal desc",
        &[id.0.into()],
    )?
    .iter()
    .map(|row| {
        let fees = Fees { max_fee: row.uint(1)?, max_tip: row.uint(2)? };
        Ok(Attempt { ordinal: row.u32(0)?, fees, cancels: row.int(3)? != 0 })
    })
    .collect()
}

pub fn find(tx: &mut Tx<'_>, id: PaymentId) -> Result<Option<PaymentRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where p.payment_id = $1");
    tx.row(sql, &[id.0.into()])?.as_ref().map(from_row).transpose()
}

/// The payment that holds a nonce of a lane.
pub fn at_nonce(
    tx: &mut Tx<'_>,
    chain: ChainId,
    wallet: Address,
    nonce: u64,
) -> Result<Option<PaymentRow>, StoreError> {
    let sql = concat!("select ", columns!(), " where p.chain_id = $1 and p.wallet = $2 and p.nonce = $3");
    tx.row(sql, &[chain.0.try_into()?, wallet.into(), nonce.try_into()?])?.as_ref().map(from_row).transpose()
}

/// A lane's payments that are not in a block, in the order of their nonces.
pub fn unmined(tx: &mut Tx<'_>, chain: ChainId, wallet: Address, most: i64) -> Result<Vec<PaymentRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where p.chain_id = $1 and p.wallet = $2 and p.state in ('decided', 'sent') order by p.nonce limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, wallet.into(), Value::Int(most)])?.iter().map(from_row).collect()
}

/// A payment not yet in a chain's balances at `block`: payer, currency, amount, and maximum gas.
#[derive(Clone, Debug)]
pub struct Outstanding {
    pub wallet: Address,
    pub target: Address,
    /// Native currency sent along.
    pub value: Amount,
    pub currency: Address,
    pub amount: Amount,
    pub gas: u64,
    pub max_fee: u64,
}

/// A unit that pays calls [`crate::payers::lock`] instead.
pub fn outstanding(tx: &mut Tx<'_>, chain: ChainId, block: u64) -> Result<Vec<Outstanding>, StoreError> {
    tx.rows(
        "select p.wallet, p.currency, p.amount, p.gas, p.target, p.value,
         (select max(a.max_fee) from attempt a where a.payment_id = p.payment_id)
         from payment p where p.chain_id = $1 and p.state in ('decided', 'sent')
         union all
         select p.wallet, p.currency, p.amount, p.gas, p.target, p.value,
         (select max(a.max_fee) from attempt a where a.payment_id = p.payment_id)
         from payment p where p.chain_id = $1 and p.state in ('mined', 'reverted') and p.block_number > $2
         and p.state = 'mined'",
        &[chain.0.try_into()?, block.try_into()?],
    )?
    .iter()
    .map(|row| {
        Ok(Outstanding {
            wallet: row.address(0)?,
            currency: row.address(1)?,
            amount: row.amount(2)?,
            gas: row.uint(3)?,
            target: row.address(4)?,
            value: row.amount(5)?,
            max_fee: row.uint(6)?,
        })
    })
    .collect()
}

pub fn set_state(tx: &mut Tx<'_>, id: PaymentId, state: State, now: Timestamp) -> Result<(), StoreError> {
    tx.forget_kept();
    tx.execute(
        "update payment set state = $2, updated_at = $3 where payment_id = $1",
        &[id.0.into(), state.as_str().into(), now.millis().into()],
    )?;
    Ok(())
}

/// Records the hash under which nodes last received the payment.
pub fn set_hash(tx: &mut Tx<'_>, id: PaymentId, hash: B256) -> Result<(), StoreError> {
    tx.execute("update payment set tx_hash = $2 where payment_id = $1", &[id.0.into(), hash.into()])?;
    Ok(())
}

/// The cost of a payment's transaction. None while it is in no block, or if another one used its nonce.
pub fn fee_of(tx: &mut Tx<'_>, id: PaymentId) -> Result<Option<Amount>, StoreError> {
    let row = tx.row("select fee from payment where payment_id = $1 and fee is not null", &[id.0.into()])?;
    row.map(|row| row.amount(0)).transpose()
}

/// The block of a payment, and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Mined {
    pub tx: B256,
    pub block_number: u64,
    pub block_hash: B256,
    /// None if the transaction under our nonce was not the payment: its cost is not the payment's.
    pub fee: Option<Amount>,
}

pub fn set_mined(tx: &mut Tx<'_>, id: PaymentId, mined: Option<Mined>) -> Result<(), StoreError> {
    tx.forget_kept();
    let Some(mined) = mined else {
        tx.execute(
            "update payment set block_number = null, block_hash = null, fee = null where payment_id = $1",
            &[id.0.into()],
        )?;
        return Ok(());
    };
    tx.execute(
        "update payment set tx_hash = $2, block_number = $3, block_hash = $4, fee = $5 where payment_id = $1",
        &[
            id.0.into(),
            mined.tx.into(),
            mined.block_number.try_into()?,
            mined.block_hash.into(),
            mined.fee.map(|fee| fee.to_string()).into(),
        ],
    )?;
    Ok(())
}

/// Payments in blocks at or below `up_to` that are not yet final.
pub fn ripe(tx: &mut Tx<'_>, chain: ChainId, up_to: u64, most: i64) -> Result<Vec<PaymentRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where p.chain_id = $1 and p.state in ('mined', 'reverted') and p.block_number <= $2
         order by p.block_number, p.payment_id limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, up_to.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// Payments in blocks above a fork.
pub fn above(tx: &mut Tx<'_>, chain: ChainId, block: u64, most: i64) -> Result<Vec<PaymentRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where p.chain_id = $1 and p.state in ('mined', 'reverted') and p.block_number > $2
         order by p.payment_id limit $3"
    );
    tx.rows(sql, &[chain.0.try_into()?, block.try_into()?, Value::Int(most)])?.iter().map(from_row).collect()
}

/// The amount of the newest payment for a subject, void or not.
pub fn last_amount(tx: &mut Tx<'_>, subject: &Subject) -> Result<Option<Amount>, StoreError> {
    let row = tx.row(
        "select amount from payment where purpose = $1 and subject = $2 order by payment_id desc limit 1",
        &by(subject),
    )?;
    row.map(|row| row.amount(0)).transpose()
}

/// The payment for a subject that is not void.
pub fn live(tx: &mut Tx<'_>, subject: &Subject) -> Result<Option<PaymentId>, StoreError> {
    let row =
        tx.row("select payment_id from payment where purpose = $1 and subject = $2 and state <> 'void'", &by(subject))?;
    row.map(|row| row.int(0).map(PaymentId)).transpose()
}

/// The number of void payments for a subject.
pub fn voids(tx: &mut Tx<'_>, subject: &Subject) -> Result<u64, StoreError> {
    let row =
        tx.row("select count(*) from payment where purpose = $1 and subject = $2 and state = 'void'", &by(subject))?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// The time at which the newest of a subject's void payments became so.
pub fn last_void(tx: &mut Tx<'_>, subject: &Subject) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.row(
        "select updated_at from payment where purpose = $1 and subject = $2 and state = 'void'
         order by payment_id desc limit 1",
        &by(subject),
    )?;
    row.map(|row| row.time(0)).transpose()
}

/// The transaction of a payment: the one in its block, or the last that was sent.
pub fn tx_of(tx: &mut Tx<'_>, id: PaymentId) -> Result<Option<B256>, StoreError> {
    let row = tx.row("select tx_hash from payment where payment_id = $1", &[id.0.into()])?;
    row.map_or(Ok(None), |row| row.opt_b256(0))
}

/// The block that a payment is in.
pub fn block_of(tx: &mut Tx<'_>, id: PaymentId) -> Result<Option<Cursor>, StoreError> {
    let sql = "select block_number, block_hash from payment where payment_id = $1 and block_hash is not null";
    let row = tx.row(sql, &[id.0.into()])?;
    row.map(|row| Ok(Cursor { number: row.uint(0)?, hash: row.b256(1)? })).transpose()
}

/// A payment that is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub recipient: Address,
    pub amount: Amount,
    /// The hash under which nodes last received it.
    pub tx: Option<B256>,
}

/// Payments of a purpose that are not final: not yet mined, or in a block that may still change.
pub fn under_way(tx: &mut Tx<'_>, chain: ChainId, purpose: Purpose, most: i64) -> Result<Vec<UnderWay>, StoreError> {
    tx.rows(
        "select recipient, amount, tx_hash from payment where chain_id = $1 and purpose = $2
         and state in ('decided', 'sent', 'mined', 'reverted') order by payment_id limit $3",
        &[chain.0.try_into()?, purpose.as_str().into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| Ok(UnderWay { recipient: row.address(0)?, amount: row.amount(1)?, tx: row.opt_b256(2)? }))
    .collect()
}
