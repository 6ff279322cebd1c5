//! The stored facts of one request that its record in a listing is made of.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};
use domain::api_key::ApiKey;
use domain::balance_change::BalanceChange;
use domain::ids::{ChainId, RequestId};
use domain::money::Amount;
use domain::outcome::Outcome;
use domain::time::Timestamp;

use crate::payments::{Purpose, purpose};
use crate::records::{self, Record};
use crate::requests::{self, Request};
use crate::{StoreError, Tx, deposit_addresses, fast_fills, keys, outcomes, venue_txs};

#[derive(Clone, Debug)]
pub struct Listed {
    pub request: Request,
    pub created_at: Timestamp,
    /// Every transaction and the balances it changed, in the order they became known.
    pub txs: Vec<(Record, Vec<BalanceChange>)>,
    /// The deposit that paid for the order, or the one that a child returns.
    pub deposit: Option<DepositPaid>,
    pub payments: Vec<PaymentMade>,
    /// The hashes of payments that turned out void.
    pub void_txs: Vec<B256>,
    /// Deposits that a reorg took away.
    pub missed: Vec<DepositMissed>,
    /// The venue's own names of its transactions among these.
    pub venue_names: BTreeMap<B256, String>,
    /// The outcome of its newest fill: costs of sponsors and earnings of apps.
    pub outcome: Option<Outcome>,
    pub fast_filled: bool,
    /// The key it was asked with.
    pub key: Option<ApiKey>,
    /// The address that it was paid at, or is to be.
    pub deposit_address: Option<deposit_addresses::Shown>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepositPaid {
    pub chain: ChainId,
    pub tx: B256,
    pub depositor: Address,
    pub currency: Address,
    pub amount: Amount,
}

/// A deposit that fell out of the chain, and when that was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepositMissed {
    pub chain: ChainId,
    pub tx: B256,
    pub at: Timestamp,
}

/// A payment that is under way or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentMade {
    pub purpose: Purpose,
    pub chain: ChainId,
    pub recipient: Address,
    pub currency: Address,
    pub amount: Amount,
    pub tx: Option<B256>,
}

impl Listed {
    /// A quote that nobody has acted on.
    pub(super) fn unpaid(request: Request) -> Self {
        Self {
            created_at: request.quote.created_at,
            txs: Vec::new(),
            deposit: None,
            payments: Vec::new(),
            void_txs: Vec::new(),
            missed: Vec::new(),
            venue_names: BTreeMap::new(),
            outcome: None,
            fast_filled: false,
            key: None,
            deposit_address: None,
            request,
        }
    }

    /// A transaction as its chain writes it.
    pub fn tx_text(&self, hash: B256) -> String {
        self.venue_names.get(&hash).cloned().unwrap_or_else(|| hash.to_string())
    }

    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.txs.iter().map(|(record, _)| record)
    }
}

/// None where there is no such request, or only a quote of it.
pub fn listed(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<Listed>, StoreError> {
    let created_at = tx.row("select created_at from request where request_id = $1", &[id.into()])?;
    let (Some(created_at), Some(request)) = (created_at, requests::find(tx, id)?) else { return Ok(None) };
    let deposit = deposit(tx, &request)?;
    let (payments, void_txs) = payments(tx, id)?;
    let key = request.quote.ask.key;
    let txs = records::with_changes(tx, id)?;
    let missed = if txs.iter().any(|(record, _)| record.gone) { missed(tx, &request)? } else { Vec::new() };
    let hashes = txs.iter().map(|(record, _)| record.tx).chain(payments.iter().filter_map(|payment| payment.tx));
    let hashes: Vec<B256> = hashes.chain(deposit.map(|deposit| deposit.tx)).collect();
    Ok(Some(Listed {
        created_at: created_at.time(0)?,
        venue_names: venue_txs::names(tx, &request, hashes)?,
        txs,
        missed,
        deposit,
        payments,
        void_txs,
        outcome: outcomes::of_order(tx, request.order_id)?,
        fast_filled: fast_fills::of_order(tx, request.order_id)?.is_some(),
        key: key.map_or(Ok(None), |key| keys::find(tx, key))?,
        deposit_address: deposit_addresses::shown(tx, &request)?,
        request,
    }))
}

fn deposit(tx: &mut Tx<'_>, request: &Request) -> Result<Option<DepositPaid>, StoreError> {
    let rows = match request.parent {
        None => tx.rows(
            "select d.chain_id, d.tx_hash, d.ordinal, d.depositor, d.currency, d.amount
             from deposit_use u join deposit d on d.deposit_id = u.deposit_id
             where u.order_id = $1 and d.state <> 'gone' order by d.deposit_id limit 1",
            &[request.order_id.into()],
        )?,
        // In place of an order, a child has the key of its deposit, which names the parent's order.
        Some(parent) => tx.rows(
            "select d.chain_id, d.tx_hash, d.ordinal, d.depositor, d.currency, d.amount
             from deposit d where d.order_id in (select r.order_id from request r where r.request_id = $1
             union all select s.order_id from deposit_sweep s where s.request_id = $1)
             order by d.deposit_id limit 200",
            &[parent.into()],
        )?,
    };
    for row in &rows {
        let deposit = DepositPaid {
            chain: ChainId(row.uint(0)?),
            tx: row.b256(1)?,
            depositor: row.address(3)?,
            currency: row.address(4)?,
            amount: row.amount(5)?,
        };
        let key = domain::deposit::key(deposit.chain, deposit.tx, row.u32(2)?);
        if request.parent.is_none() || key == request.order_id.0 {
            return Ok(Some(deposit));
        }
    }
    Ok(None)
}

fn missed(tx: &mut Tx<'_>, request: &Request) -> Result<Vec<DepositMissed>, StoreError> {
    let rows = tx.rows(
        "select chain_id, tx_hash, gone_at from deposit
         where order_id = $1 and state = 'gone' and gone_at is not null order by deposit_id limit 200",
        &[request.order_id.into()],
    )?;
    rows.iter()
        .map(|row| Ok(DepositMissed { chain: ChainId(row.uint(0)?), tx: row.b256(1)?, at: row.time(2)? }))
        .collect()
}

/// The payments that stand, and the hashes of those that are void.
fn payments(tx: &mut Tx<'_>, id: RequestId) -> Result<(Vec<PaymentMade>, Vec<B256>), StoreError> {
    let rows = tx.rows(
        "select purpose, chain_id, recipient, currency, amount, tx_hash, state from payment
         where request_id = $1 order by payment_id limit 200",
        &[id.into()],
    )?;
    let (mut made, mut void) = (Vec::new(), Vec::new());
    for row in &rows {
        if row.text(6)? == "void" {
            void.extend(row.opt_b256(5)?);
            continue;
        }
        made.push(PaymentMade {
            purpose: purpose(row, 0)?,
            chain: ChainId(row.uint(1)?),
            recipient: row.address(2)?,
            currency: row.address(3)?,
            amount: row.amount(4)?,
            tx: row.opt_b256(5)?,
        });
    }
    Ok((made, void))
}
