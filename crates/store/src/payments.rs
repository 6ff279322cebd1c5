//! Payments: what we decided to send, and how far it got.

use alloy_primitives::{Address, B256, Bytes};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::payment::State;
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::{Row, StoreError, Tx, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaymentId(pub i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The recipient's money on the destination; its subject is the order.
    Fill,
    /// The user's money back on the origin; its subject is the order, whose deposit it was.
    Refund,
    /// A deposit that pays for no order, back to whom it names; its subject is the deposit's row.
    Return,
    /// What a filled order's deposit held beyond what the order is for; its subject is the deposit.
    Excess,
    /// Native currency from the treasury to one of our own wallets; its subject is its own name.
    Refill,
    /// An app balance, or a part of it, to its owner; its subject is the claim.
    Claim,
    /// Money out of a depository, signed for by its allocator; its subject is the payout's nonce. Nothing of ours moves
    /// but gas.
    Payout,
}

impl Purpose {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Refund => "refund",
            Self::Return => "return",
            Self::Excess => "excess",
            Self::Refill => "topup",
            Self::Claim => "claim",
            Self::Payout => "payout",
        }
    }

    pub(crate) fn of(row: &Row, index: usize) -> Result<Self, StoreError> {
        match row.text(index)? {
            "fill" => Ok(Self::Fill),
            "refund" => Ok(Self::Refund),
            "return" => Ok(Self::Return),
            "excess" => Ok(Self::Excess),
            "topup" => Ok(Self::Refill),
            "claim" => Ok(Self::Claim),
            "payout" => Ok(Self::Payout),
            _ => Err(unknown(index, "a purpose")),
        }
    }
}

/// Everything a signature covers but the fees, and what it is for.
#[derive(Clone, Debug)]
pub struct Payment {
    pub purpose: Purpose,
    pub subject: B256,
    /// Zero where no request is concerned.
    pub request: RequestId,
    /// What the settlement row and the calldata name: the order, the deposit that is returned, or the claim.
    pub order: OrderId,
    pub chain: ChainId,
    pub wallet: Address,
    pub nonce: u64,
    pub target: Address,
    pub value: Amount,
    pub data: Bytes,
    pub gas: u64,
    pub recipient: Address,
    /// What is paid, which for a token is not the transaction's value.
    pub currency: Address,
    pub amount: Amount,
}

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
    /// Of the last attempt.
    pub fees: Fees,
    pub attempts: u32,
    pub attempted_at: Timestamp,
    /// It was given up: the last attempt only uses up the nonce. An earlier one may still be mined.
    pub cancelled: bool,
    pub created_at: Timestamp,
    pub block_number: Option<u64>,
}

macro_rules! columns {
    () => {
        "p.payment_id, p.state, p.purpose, p.subject, p.request_id, p.order_id, p.chain_id, p.wallet, p.nonce, \
         p.target, p.value, p.data, p.gas, p.currency, p.amount, a.max_fee, a.max_tip, a.ordinal, a.created_at, \
         p.block_number, p.recipient, a.cancels, p.created_at from payment p join attempt a on a.payment_id = p.payment_id and a.ordinal = \
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
            purpose: Purpose::of(row, 2)?,
            subject: row.b256(3)?,
            request: RequestId(row.b256(4)?),
            order: OrderId(row.b256(5)?),
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
    })
}

/// Fixes a payment and its first attempt. `None` means one for the same purpose and subject is alive.
pub fn insert(
    tx: &mut Tx<'_>,
    payment: &Payment,
    fees: Fees,
    now: Timestamp,
) -> Result<Option<PaymentRow>, StoreError> {
    let row = tx.row(
        "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data,
         gas, recipient, currency, amount, state, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'decided', $15, $15)
         on conflict do nothing returning payment_id",
        &[
            payment.purpose.as_str().into(),
            payment.subject.into(),
            payment.request.0.into(),
            payment.order.0.into(),
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
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub ordinal: u32,
    pub fees: Fees,
    /// Only uses up the nonce.
    pub cancels: bool,
}

/// Offers the payment again with other fees, or gives it up.
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

/// What a chain's balances at `block` do not know yet: paid out by whom, in what, how much, and the gas at most.
#[derive(Clone, Debug)]
pub struct Outstanding {
    pub wallet: Address,
    pub target: Address,
    /// Native currency that goes along.
    pub value: Amount,
    pub currency: Address,
    pub amount: Amount,
    pub gas: u64,
    pub max_fee: u64,
}

/// Inside a unit that pays, [`crate::payers::lock`].
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

/// The hash under which nodes were last given it.
pub fn set_hash(tx: &mut Tx<'_>, id: PaymentId, hash: B256) -> Result<(), StoreError> {
    tx.execute("update payment set tx_hash = $2 where payment_id = $1", &[id.0.into(), hash.into()])?;
    Ok(())
}

/// Where it was mined, and what that cost.
#[derive(Clone, Copy, Debug)]
pub struct Mined {
    pub tx: B256,
    pub block_number: u64,
    pub block_hash: B256,
    /// None where the transaction under our nonce was not the payment: what it cost is not the payment's cost.
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

/// What the newest payment for a subject paid, void or not.
pub fn last_amount(tx: &mut Tx<'_>, purpose: Purpose, subject: B256) -> Result<Option<Amount>, StoreError> {
    let row = tx.row(
        "select amount from payment where purpose = $1 and subject = $2 order by payment_id desc limit 1",
        &[purpose.as_str().into(), subject.into()],
    )?;
    row.map(|row| row.amount(0)).transpose()
}

/// The payment for a subject that is not void.
pub fn live(tx: &mut Tx<'_>, purpose: Purpose, subject: B256) -> Result<Option<PaymentId>, StoreError> {
    let row = tx.row(
        "select payment_id from payment where purpose = $1 and subject = $2 and state <> 'void'",
        &[purpose.as_str().into(), subject.into()],
    )?;
    row.map(|row| row.int(0).map(PaymentId)).transpose()
}

/// How many payments for a subject ended void.
pub fn voids(tx: &mut Tx<'_>, purpose: Purpose, subject: B256) -> Result<u64, StoreError> {
    let row = tx.row(
        "select count(*) from payment where purpose = $1 and subject = $2 and state = 'void'",
        &[purpose.as_str().into(), subject.into()],
    )?;
    row.map_or(Ok(0), |row| row.uint(0))
}

/// What payments for a subject that failed on the chain cost us there. Those we gave up ourselves do not count.
pub fn wasted(tx: &mut Tx<'_>, purpose: Purpose, subject: B256) -> Result<Vec<(ChainId, Amount)>, StoreError> {
    tx.rows(
        "select p.chain_id, p.fee from payment p where p.purpose = $1 and p.subject = $2 and p.state = 'void'
         and p.fee is not null
         and not exists (select 1 from attempt a where a.payment_id = p.payment_id and a.cancels = 1)",
        &[purpose.as_str().into(), subject.into()],
    )?
    .iter()
    .map(|row| Ok((ChainId(row.uint(0)?), row.amount(1)?)))
    .collect()
}

/// A payment that may still not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    pub recipient: Address,
    pub amount: Amount,
    /// The hash under which nodes were last given it.
    pub tx: Option<B256>,
}

/// Payments of a purpose that are on their way, or in a block that may still change.
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
