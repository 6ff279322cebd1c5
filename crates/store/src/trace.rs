//! The full trace of one request, for a person who asks why it is in its state.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use serde_json::Value as Json;

use crate::columns::unknown;
use crate::requests::{self, Request};
use crate::{StoreError, Tx, losses, outcomes, venue_txs};

#[derive(Clone, Debug)]
pub struct Trace {
    pub request: Request,
    pub children: Vec<RequestId>,
    pub events: Vec<Event>,
    pub deposits: Vec<Deposit>,
    pub payments: Vec<Payment>,
    pub dues: Vec<Due>,
    /// The loss, if a reorg removed its deposit after it was paid out.
    pub loss: Option<losses::LossRow>,
    /// The outcome of its newest fill: costs of sponsors and earnings of apps.
    pub outcome: Option<Outcome>,
    /// The venue's own names of those transactions that are the venue's.
    pub names: BTreeMap<B256, String>,
}

/// A step of the request: its rule and the values the rule used.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Timestamp,
    pub state: String,
    pub rule: String,
    pub figures: Json,
}

/// A deposit that names the order, paying for it or not.
#[derive(Clone, Debug)]
pub struct Deposit {
    pub chain: ChainId,
    pub tx: B256,
    pub block: u64,
    pub ripe_at: u64,
    pub currency: Address,
    pub amount: Amount,
    pub state: String,
    pub pays: bool,
    pub refused: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Payment {
    pub purpose: String,
    pub chain: ChainId,
    pub wallet: Address,
    pub nonce: u64,
    pub currency: Address,
    pub amount: Amount,
    pub state: String,
    pub attempts: u64,
    pub tx: Option<B256>,
    pub block: Option<u64>,
    /// The reason for its failure, if it failed and that is known.
    pub fail_reason: Option<String>,
    pub details: Option<String>,
}

/// A due payment: money that should go out and could not yet.
#[derive(Clone, Debug)]
pub struct Due {
    pub purpose: String,
    pub chain: ChainId,
    pub currency: Address,
    pub amount: Amount,
    pub reason: String,
    pub parked: bool,
    pub since: Timestamp,
}

/// Each list holds at most 200 rows: more than a request ever has, short of an attack.
pub fn of(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<Trace>, StoreError> {
    let Some(request) = requests::find(tx, id)? else { return Ok(None) };
    let order = request.order_id;
    let children = requests::children(tx, id)?;
    let (events, deposits) = (events(tx, id)?, deposits(tx, order)?);
    let (payments, dues) = (payments(tx, id)?, dues(tx, id)?);
    let (loss, outcome) = (losses::find(tx, order)?, outcomes::of_order(tx, order)?);
    let paid = payments.iter().filter_map(|payment| payment.tx);
    let names = venue_txs::names(tx, &request, deposits.iter().map(|deposit| deposit.tx).chain(paid))?;
    Ok(Some(Trace { request, children, events, deposits, payments, dues, loss, outcome, names }))
}

fn events(tx: &mut Tx<'_>, id: RequestId) -> Result<Vec<Event>, StoreError> {
    tx.rows(
        "select at, state, rule, figures from request_event where request_id = $1 order by sequence limit 200",
        &[id.0.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Event {
            at: Timestamp::from_millis(row.int(0)?),
            state: row.text(1)?.to_owned(),
            rule: row.text(2)?.to_owned(),
            figures: serde_json::from_str(row.text(3)?).map_err(|_| unknown(3, "figures"))?,
        })
    })
    .collect()
}

fn deposits(tx: &mut Tx<'_>, order: OrderId) -> Result<Vec<Deposit>, StoreError> {
    tx.rows(
        "select d.chain_id, d.tx_hash, d.block_number, coalesce(d.ripe_at, d.block_number), d.currency, d.amount,
         d.state, d.refused, u.order_id from deposit d left join deposit_use u on u.deposit_id = d.deposit_id
         where d.order_id = $1 order by d.deposit_id limit 200",
        &[order.0.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Deposit {
            chain: ChainId(row.uint(0)?),
            tx: row.b256(1)?,
            block: row.uint(2)?,
            ripe_at: row.uint(3)?,
            currency: row.address(4)?,
            amount: row.amount(5)?,
            state: row.text(6)?.to_owned(),
            refused: row.opt_text(7)?.map(str::to_owned),
            pays: row.opt_b256(8)? == Some(order.0),
        })
    })
    .collect()
}

fn payments(tx: &mut Tx<'_>, id: RequestId) -> Result<Vec<Payment>, StoreError> {
    tx.rows(
        "select p.purpose, p.chain_id, p.wallet, p.nonce, p.currency, p.amount, p.state, p.tx_hash, p.block_number,
         (select count(*) from attempt a where a.payment_id = p.payment_id), r.fail_reason, r.details
         from payment p left join transaction_record r on r.request_id = p.request_id and r.chain_id = p.chain_id
         and r.tx_hash = p.tx_hash and r.direction = 'out'
         where p.request_id = $1 order by p.payment_id limit 200",
        &[id.0.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Payment {
            purpose: row.text(0)?.to_owned(),
            chain: ChainId(row.uint(1)?),
            wallet: row.address(2)?,
            nonce: row.uint(3)?,
            currency: row.address(4)?,
            amount: row.amount(5)?,
            state: row.text(6)?.to_owned(),
            tx: row.opt_b256(7)?,
            block: row.opt_uint(8)?,
            attempts: row.uint(9)?,
            fail_reason: row.opt_text(10)?.map(str::to_owned),
            details: row.opt_text(11)?.map(str::to_owned),
        })
    })
    .collect()
}

fn dues(tx: &mut Tx<'_>, id: RequestId) -> Result<Vec<Due>, StoreError> {
    tx.rows(
        "select purpose, chain_id, currency, amount, reason, parked, created_at from due where request_id = $1
         order by due_id limit 200",
        &[id.0.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Due {
            purpose: row.text(0)?.to_owned(),
            chain: ChainId(row.uint(1)?),
            currency: row.address(2)?,
            amount: row.amount(3)?,
            reason: row.text(4)?.to_owned(),
            parked: row.int(5)? != 0,
            since: Timestamp::from_millis(row.int(6)?),
        })
    })
    .collect()
}
