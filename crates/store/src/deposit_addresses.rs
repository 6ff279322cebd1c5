//! Deposit addresses that were given out, and the block up to which a chain was searched for transfers to them.

use alloy_primitives::{Address, B256};
use domain::deposit_address::{Derivation, Kind, RouteKey};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::time::Timestamp;

use crate::blocks::{self, Cursor};
use crate::columns::unknown;
use crate::requests::{self, Request};
use crate::{QuoteRow, Row, StoreError, Tx, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositAddress {
    pub address: Address,
    pub request: RequestId,
    pub order: OrderId,
    pub kind: Kind,
    pub derivation: Derivation,
    pub chain: ChainId,
    /// Zero is the native currency.
    pub currency: Address,
    pub created_at: Timestamp,
}

macro_rules! columns {
    () => {
        columns!("deposit_address")
    };
    ($table:literal) => {
        concat!(
            "address, request_id, order_id, kind, route_key, depositor, chain_id, currency, created_at from ",
            $table
        )
    };
}

fn from_row(row: &Row) -> Result<DepositAddress, StoreError> {
    let order = row.order_id(2)?;
    Ok(DepositAddress {
        address: row.address(0)?,
        request: row.request_id(1)?,
        order,
        kind: Kind::parse(row.text(3)?).ok_or(unknown(3, "a kind of address"))?,
        derivation: match row.opt_b256(4)? {
            Some(route) => Derivation::Open(RouteKey(route)),
            None => Derivation::Strict { order, depositor: row.address(5)? },
        },
        chain: ChainId(row.uint(6)?),
        currency: row.address(7)?,
        created_at: row.time(8)?,
    })
}

/// The ends of an address that nobody pays at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Its native balance is looked at until then.
    pub watched_until: Timestamp,
    /// It is forgotten then, with its request, if nothing ever arrived.
    pub forgotten_at: Timestamp,
}

/// Gives an address out: the quote becomes a request at once, and its chain is searched for transfers from here on.
/// None while the chain has no block yet.
pub fn give_out(
    tx: &mut Tx<'_>,
    quote: &QuoteRow,
    given: &DepositAddress,
    ends: Ends,
) -> Result<Option<Request>, StoreError> {
    let Some(at) = blocks::cursor(tx, given.chain)? else { return Ok(None) };
    requests::insert_at_address(tx, quote, given.address)?;
    let (route, depositor) = match given.derivation {
        Derivation::Open(route) => (Some(route.0), None),
        Derivation::Strict { depositor, .. } => (None, Some(depositor)),
    };
    tx.execute(
        "insert into deposit_address (address, request_id, order_id, kind, route_key, depositor, chain_id, currency,
         native, watched_until, created_at, forgotten_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            given.address.into(),
            given.request.into(),
            given.order.into(),
            given.kind.as_str().into(),
            route.into(),
            depositor.into(),
            given.chain.0.try_into()?,
            given.currency.into(),
            Value::Int(given.currency.is_zero().into()),
            ends.watched_until.into(),
            given.created_at.into(),
            ends.forgotten_at.into(),
        ],
    )?;
    tx.execute(
        "insert into arrival_cursor (chain_id, number, hash) values ($1, $2, $3) on conflict do nothing",
        &[given.chain.0.try_into()?, at.number.try_into()?, at.hash.into()],
    )?;
    requests::lock(tx, given.request)
}

pub fn find(tx: &mut Tx<'_>, address: Address) -> Result<Option<DepositAddress>, StoreError> {
    let sql = concat!("select ", columns!(), " where address = $1");
    tx.row(sql, &[address.into()])?.as_ref().map(from_row).transpose()
}

pub fn of_request(tx: &mut Tx<'_>, request: RequestId) -> Result<Option<DepositAddress>, StoreError> {
    let sql = concat!("select ", columns!(), " where request_id = $1");
    tx.row(sql, &[request.into()])?.as_ref().map(from_row).transpose()
}

/// Addresses looked up in one statement.
const ADDRESSES_PER_STATEMENT: usize = 100;

/// Those of the addresses that were given out for a chain, whether they were forgotten since or not. Both are read by
/// their keys: the cost grows with the addresses asked for, never with those given out.
pub fn among(tx: &mut Tx<'_>, chain: ChainId, asked: &[Address]) -> Result<Vec<DepositAddress>, StoreError> {
    let list = (0..ADDRESSES_PER_STATEMENT).map(|at| format!("${}", at + 2)).collect::<Vec<_>>().join(", ");
    let sql = format!(
        concat!(
            "select ",
            columns!(),
            " where chain_id = $1 and address in ({0}) union all select ",
            columns!("forgotten_address"),
            " where chain_id = $1 and address in ({0})"
        ),
        list
    );
    let mut found = Vec::new();
    for some in asked.chunks(ADDRESSES_PER_STATEMENT) {
        let Some(last) = some.last() else { continue };
        let mut args: Vec<Value> = vec![chain.0.try_into()?];
        // One statement for every number of them, so that it stays prepared.
        args.extend(some.iter().chain(std::iter::repeat(last)).take(ADDRESSES_PER_STATEMENT).map(Value::from));
        for row in &tx.rows_dynamic(&sql, &args)? {
            found.push(from_row(row)?);
        }
    }
    Ok(found)
}

/// Addresses that still expect native currency, in the order of their bytes, behind the one that was looked at last.
pub fn expecting_native(
    tx: &mut Tx<'_>,
    chain: ChainId,
    after: Address,
    now: Timestamp,
    most: u16,
) -> Result<Vec<DepositAddress>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where chain_id = $1 and native = 1 and address > $2 and watched_until > $3 order by address limit $4"
    );
    let rows = tx.rows(sql, &[chain.0.try_into()?, after.into(), now.into(), most.into()])?;
    rows.iter().map(from_row).collect()
}

/// Has the native balance of an address looked at until then, at least. It is not forgotten before.
pub fn watch_until(tx: &mut Tx<'_>, address: Address, until: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update deposit_address set watched_until = case when watched_until < $2 then $2 else watched_until end,
         forgotten_at = case when forgotten_at < $2 then $2 else forgotten_at end where address = $1",
        &[address.into(), until.into()],
    )?;
    Ok(())
}

/// Addresses of a chain whose time was over before then, the oldest first.
pub fn forgettable(
    tx: &mut Tx<'_>,
    chain: ChainId,
    before: Timestamp,
    most: u16,
) -> Result<Vec<DepositAddress>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " where chain_id = $1 and forgotten_at is not null and forgotten_at < $2 order by forgotten_at limit $3"
    );
    let rows = tx.rows(sql, &[chain.0.try_into()?, before.into(), most.into()])?;
    rows.iter().map(from_row).collect()
}

/// Forgets an address with its request, like a quote that nobody paid, and ends the webhooks of that request: from here
/// on only `remember` knows it. One at which anything ever arrived is kept for good: then it is false.
pub fn forget(tx: &mut Tx<'_>, given: &DepositAddress, now: Timestamp) -> Result<bool, StoreError> {
    let (address, order, request) = (given.address, given.order, given.request);
    // The request first, as everywhere.
    tx.row("select 1 from request where request_id = $1 {for_update}", &[request.into()])?;
    let used = tx.row(
        "select 1 where exists (select 1 from deposit_arrival where address = $1)
         or exists (select 1 from deposit_sweep where address = $1)
         or exists (select 1 from deposit where order_id = $2)
         or exists (select 1 from settlement where order_id = $2)
         or exists (select 1 from request where parent_id = $3)
         or not exists (select 1 from request where request_id = $3 and state = 'waiting')",
        &[address.into(), order.into(), request.into()],
    )?;
    if used.is_some() {
        tx.execute("update deposit_address set forgotten_at = null where address = $1", &[address.into()])?;
        return Ok(false);
    }
    tx.execute(
        "insert into forgotten_address (address, request_id, order_id, kind, route_key, depositor, chain_id, currency,
         created_at, quote, posted_events)
         select d.address, d.request_id, d.order_id, d.kind, d.route_key, d.depositor, d.chain_id, d.currency,
         d.created_at, r.quote, r.posted_events
         from deposit_address d join request r on r.request_id = d.request_id where d.address = $1",
        &[address.into()],
    )?;
    // Their event goes with the request. Those that have ended stay in the log until it is pruned.
    tx.execute(
        "update webhook_delivery set state = 'failed', ended_at = $2, ended_because = 'its event is gone',
         claimed_by = null where request_id = $1 and state = 'due'",
        &[request.into(), now.into()],
    )?;
    tx.execute("delete from deposit_address where address = $1", &[address.into()])?;
    tx.execute("delete from request_event where request_id = $1", &[request.into()])?;
    tx.execute("delete from request where request_id = $1", &[request.into()])?;
    Ok(true)
}

/// An address that was forgotten.
pub fn forgotten(tx: &mut Tx<'_>, address: Address) -> Result<Option<DepositAddress>, StoreError> {
    let sql = concat!("select ", columns!("forgotten_address"), " where address = $1");
    tx.row(sql, &[address.into()])?.as_ref().map(from_row).transpose()
}

/// The address that was forgotten with the request of an order.
pub fn forgotten_with(tx: &mut Tx<'_>, order: OrderId) -> Result<Option<Address>, StoreError> {
    let row = tx.row("select address from forgotten_address where order_id = $1 limit 1", &[order.into()])?;
    row.map(|row| row.address(0)).transpose()
}

/// Brings a forgotten address and its request back, because there is money. None if it was not forgotten.
pub fn remember(tx: &mut Tx<'_>, address: Address, ends: Ends, now: Timestamp) -> Result<Option<Request>, StoreError> {
    let sql = concat!("select ", columns!("forgotten_address"), " where address = $1 {for_update}");
    let Some(given) = tx.row(sql, &[address.into()])?.as_ref().map(from_row).transpose()? else { return Ok(None) };
    tx.execute(
        "insert into request (request_id, order_id, state, quote, created_at, updated_at, deposit_address,
         posted_events) select request_id, order_id, 'waiting', quote, created_at, $2, address, posted_events
         from forgotten_address where address = $1",
        &[address.into(), now.into()],
    )?;
    tx.execute(
        "insert into deposit_address (address, request_id, order_id, kind, route_key, depositor, chain_id, currency,
         native, watched_until, created_at, forgotten_at)
         select address, request_id, order_id, kind, route_key, depositor, chain_id, currency, $2, $3, created_at, $4
         from forgotten_address where address = $1",
        &[
            address.into(),
            Value::Int(given.currency.is_zero().into()),
            ends.watched_until.into(),
            ends.forgotten_at.into(),
        ],
    )?;
    tx.execute("delete from forgotten_address where address = $1", &[address.into()])?;
    requests::lock(tx, given.request)
}

/// Notes the newest request that was made of money at an address.
pub fn supersede(tx: &mut Tx<'_>, address: Address, by: RequestId) -> Result<(), StoreError> {
    tx.execute("update deposit_address set superseded_by = $2 where address = $1", &[address.into(), by.into()])?;
    Ok(())
}

/// A search of an address on a chain that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    pub address: Address,
    pub chain: ChainId,
    pub caller: B256,
}

/// Takes the right to search, once in so many milliseconds for each caller: nobody uses up the right of somebody else.
pub fn reindex(tx: &mut Tx<'_>, search: Search, now: Timestamp, pause_millis: i64) -> Result<bool, StoreError> {
    let before = Value::Int(now.millis().saturating_sub(pause_millis));
    let taken = tx.execute(
        "insert into deposit_reindex (address, chain_id, caller, at) values ($1, $2, $3, $4)
         on conflict (address, chain_id, caller) do update set at = excluded.at where deposit_reindex.at <= $5",
        &[search.address.into(), search.chain.0.try_into()?, search.caller.into(), now.into(), before.clone()],
    )?;
    tx.execute(
        "delete from deposit_reindex where at <= $1 and (address, chain_id, caller) in
         (select address, chain_id, caller from deposit_reindex where at <= $1 order by at limit 100)",
        &[before],
    )?;
    Ok(taken > 0)
}

/// The block up to which a chain was searched. None where no address was given out.
pub fn cursor(tx: &mut Tx<'_>, chain: ChainId) -> Result<Option<Cursor>, StoreError> {
    let row = tx.row("select number, hash from arrival_cursor where chain_id = $1", &[chain.0.try_into()?])?;
    row.map(|row| Ok(Cursor { number: row.uint(0)?, hash: row.b256(1)? })).transpose()
}

pub fn set_cursor(tx: &mut Tx<'_>, chain: ChainId, to: Cursor) -> Result<(), StoreError> {
    tx.execute(
        "insert into arrival_cursor (chain_id, number, hash) values ($1, $2, $3)
         on conflict (chain_id) do update set number = excluded.number, hash = excluded.hash",
        &[chain.0.try_into()?, to.number.try_into()?, to.hash.into()],
    )?;
    Ok(())
}

/// The deposit address of a request as callers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub address: Address,
    pub kind: Kind,
    pub recovery: Option<Address>,
    /// The sender of the transfer that paid, where it is known.
    pub depositor: Option<Address>,
    /// The transfer into the address, which is not the sweep.
    pub deposit_tx: Option<B256>,
    pub superseded_by: Option<RequestId>,
}

/// The view of a request's deposit address. None if it has none.
pub fn shown(tx: &mut Tx<'_>, request: &Request) -> Result<Option<Shown>, StoreError> {
    let Some(ask) = request.quote.ask.options.deposit_address else { return Ok(None) };
    let row = tx.row("select deposit_address from request where request_id = $1", &[request.id.into()])?;
    let Some(address) = row.map(|row| row.opt_address(0)).transpose()?.flatten() else { return Ok(None) };
    let own = tx.row("select superseded_by from deposit_address where request_id = $1", &[request.id.into()])?;
    let superseded_by = own.as_ref().map(|row| row.opt_b256(0)).transpose()?.flatten().map(RequestId);
    let transfer = crate::arrivals::of_request(tx, request.id, own.is_some().then_some(address))?;
    Ok(Some(Shown {
        address,
        kind: ask.kind,
        recovery: ask.recovery,
        depositor: transfer.and_then(|transfer| transfer.sender),
        deposit_tx: transfer.and_then(|transfer| transfer.tx),
        superseded_by,
    }))
}
