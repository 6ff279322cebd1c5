//! Fills a database with requests and what belongs to them: transactions, payments, deposits.
//!
//! Requests travel as values; the rest is made of them by statements, because values cost more than rows. They stand
//! here and not in the store: nothing of the service may insert a payment without a lane. Events, which no listing
//! reads, are left out.

use std::sync::Arc;

use anyhow::{Result, ensure};
use domain::facts::Feature;
use futures::stream::{self, StreamExt, TryStreamExt};
use store::{Dialect, Store, StoreError, Tx, Value};

use super::rows::{Row, Rows};

/// Requests in one statement. SQLite takes 32,766 values in one, Postgres 65,535.
const ROWS_PER_STATEMENT: u64 = 500;
const UNITS_AT_ONCE: usize = 4;
/// Indexes in an order of their own: built once at the end, each takes seconds instead of hours.
const REBUILT: [&str; 5] = [
    "request_of_account",
    "request_of_recipient",
    "request_of_deposit_address",
    "transaction_record_by_hash",
    "payment_by_hash",
];
/// From here on it is worth it.
const MANY_ROWS: u64 = 50_000;
const TABLES: [&str; 5] = ["request", "transaction_record", "payment", "deposit", "deposit_use"];
/// A deposit's call, and the balances it changed.
const CALL: [u8; 68] = [0x49; 68];
const CHANGES: &str = "[[\"0x1111111111111111111111111111111111111111\",\"0x0000000000000000000000000000000000000000\",\
    \"-250000000\"],[\"0x2222222222222222222222222222222222222222\",\"0x0000000000000000000000000000000000000000\",\
    \"250000000\"]]";

/// Inserts requests from number 0 on. `say` is told how far it is.
pub(crate) async fn populate(store: &Store, rows: &Arc<Rows>, count: u64, say: &impl Fn(String)) -> Result<()> {
    let rebuilt = if count >= MANY_ROWS { drop_indexes(store).await? } else { Vec::new() };
    let starts = (0..count).step_by(usize::try_from(ROWS_PER_STATEMENT)?);
    let unit = |from: u64| {
        let (rows, to) = (rows.clone(), count.min(from + ROWS_PER_STATEMENT));
        store.write(move |tx| insert(tx, &rows, from, to))
    };
    let mut done = stream::iter(starts).map(unit).buffer_unordered(UNITS_AT_ONCE);
    let mut inserted = 0;
    while let Some(batch) = done.try_next().await? {
        let before = inserted;
        inserted += batch;
        if inserted / 500_000 > before / 500_000 {
            say(format!("{inserted} requests"));
        }
    }
    ensure!(inserted == count, "{inserted} of {count} requests were inserted");
    for (name, definition) in rebuilt {
        say(format!("Index {name}"));
        create_index(store, definition).await?;
    }
    if !store.is_sqlite() {
        // As the server does by itself after a while.
        for table in TABLES {
            store.write(move |tx| tx.rows_dynamic(&format!("analyze {table}"), &[]).map(drop)).await?;
        }
    }
    Ok(())
}

async fn drop_indexes(store: &Store) -> Result<Vec<(&'static str, String)>> {
    let sql = match store.dialect() {
        Dialect::Sqlite => "select sql from sqlite_master where type = 'index' and name = $1",
        Dialect::Postgres => {
            "select indexdef from pg_indexes where schemaname = current_schema() and indexname = $1::text"
        }
    };
    let mut all = Vec::new();
    for name in REBUILT {
        let definition = store
            .write(move |tx| {
                let rows = tx.rows_dynamic(sql, &[name.into()])?;
                let definition = rows.first().ok_or(StoreError::ManyRows(0))?.text(0)?.to_owned();
                tx.rows_dynamic(&format!("drop index {name}"), &[])?;
                Ok::<_, StoreError>(definition)
            })
            .await?;
        all.push((name, definition));
    }
    Ok(all)
}

async fn create_index(store: &Store, definition: String) -> Result<()> {
    let unit = move |tx: &mut Tx<'_>| {
        if tx.dialect() == Dialect::Postgres {
            tx.rows_dynamic("set local statement_timeout = 0", &[])?;
            tx.rows_dynamic("set local maintenance_work_mem = '512MB'", &[])?;
        }
        tx.rows_dynamic(&definition, &[]).map(drop)
    };
    Ok(store.write(unit).await?)
}

const COLUMNS: [&str; 22] = [
    "request_id",
    "order_id",
    "state",
    "fail_reason",
    "quote",
    "created_at",
    "updated_at",
    "account",
    "recipient",
    "origin_chain",
    "destination_chain",
    "currency_in",
    "currency_out",
    "request_type",
    "same_chain",
    "key_id",
    "referrer",
    "amount_usd",
    "app_fees_usd",
    "features",
    "fill_millis",
    "deposit_address",
];

fn values(row: &Row<'_>) -> Result<[Value; 22], StoreError> {
    let facts = &row.template.facts;
    let features = facts.features.iter().fold(0, |bits, feature: &Feature| bits | feature.bit());
    Ok([
        row.id.into(),
        row.order.into(),
        row.state.into(),
        row.reason.map(str::to_owned).into(),
        row.quote().into(),
        row.created_at.into(),
        row.updated_at.into(),
        (&row.user).into(),
        (&row.recipient).into(),
        facts.origin.0.try_into()?,
        facts.destination.0.try_into()?,
        (&facts.currency_in).into(),
        (&facts.currency_out).into(),
        facts.request_type.as_str().into(),
        Value::Int(facts.same_chain.into()),
        row.key.clone().into(),
        facts.referrer.clone().into(),
        facts.amount.0.into(),
        facts.app_fees.0.into(),
        Value::Int(features),
        row.fill_millis.into(),
        row.deposit_address.into(),
    ])
}

/// Inserts the requests of some numbers with all that belongs to them, and returns how many there were.
fn insert(tx: &mut Tx<'_>, rows: &Rows, from: u64, to: u64) -> Result<u64, StoreError> {
    let rows: Vec<Row<'_>> = (from..to).map(|n| rows.row(n)).collect();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(0) };
    let mut args = Vec::with_capacity(rows.len() * COLUMNS.len());
    for row in &rows {
        args.extend(values(row)?);
    }
    let group = |n: usize| {
        let args = (1..=COLUMNS.len()).map(|column| format!("${}", n * COLUMNS.len() + column));
        format!("({}, 0)", args.collect::<Vec<_>>().join(", "))
    };
    let groups: Vec<String> = (0..rows.len()).map(group).collect();
    let sql = format!("insert into request ({}, unlisted) values {}", COLUMNS.join(", "), groups.join(", "));
    tx.rows_dynamic(&sql, &args)?;
    belongings(tx, first, last)?;
    Ok(rows.len() as u64)
}

/// Transactions, payments and deposits of the requests from one to another. Ids of requests and orders are in the order
/// of their time.
fn belongings(tx: &mut Tx<'_>, first: &Row<'_>, last: &Row<'_>) -> Result<(), StoreError> {
    let dialect = tx.dialect();
    let turned = |word: &str| match dialect {
        Dialect::Sqlite => format!("cast(substr({word}, 7) || substr({word}, 1, 6) as blob)"),
        Dialect::Postgres => format!("substr({word}, 7) || substr({word}, 1, 6)"),
    };
    let address = |text: &str| match dialect {
        Dialect::Sqlite => format!("unhex(substr({text}, 3))"),
        Dialect::Postgres => format!("decode(substr({text}, 3), 'hex')"),
    };
    let (deposit_tx, payment_tx) = (turned("request_id"), turned("order_id"));
    let (account, recipient) = (address("account"), address("recipient"));
    let (currency_in, currency_out) = (address("currency_in"), address("currency_out"));
    let range = "from request where request_id >= $1 and request_id <= $2";
    let bounds = [Value::from(first.id), last.id.into()];
    let with_call: Vec<Value> = bounds.iter().cloned().chain([CALL.as_slice().into(), CHANGES.into()]).collect();
    let records =
        "insert into transaction_record (request_id, chain_id, tx_hash, direction, sender, target, value, data,
         fee, block_number, block_hash, block_time, succeeded, changes) select request_id, ";
    let paid = "state in ('success', 'refunded') and same_chain = 0";
    tx.rows_dynamic(
        &format!(
            "{records}origin_chain, {deposit_tx}, 'in', {account}, {recipient}, '0', $3, '46000000000000',
             created_at / 2000, request_id, created_at + 1000, 1, $4 {range}"
        ),
        &with_call,
    )?;
    let chain = "case when state = 'refunded' then origin_chain else destination_chain end";
    tx.rows_dynamic(
        &format!(
            "{records}{chain}, {payment_tx}, 'out', {account}, {recipient}, '0', $3, '52000000000000',
             updated_at / 2000, order_id, updated_at, 1, $4 {range} and {paid}"
        ),
        &with_call,
    )?;
    tx.rows_dynamic(
        &format!(
            "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data,
             gas, recipient, currency, amount, state, tx_hash, block_number, block_hash, fee, created_at, updated_at)
             select case when state = 'refunded' then 'refund' else 'fill' end, order_id, request_id, order_id, {chain},
             substr(request_id, 13, 20), 0, {recipient}, '0', $3, 120000, {recipient},
             case when state = 'refunded' then {currency_in} else {currency_out} end, cast(amount_usd as text), 'final',
             {payment_tx}, updated_at / 2000, order_id, '52000000000000', created_at, updated_at {range} and {paid}"
        ),
        &with_call[..3],
    )?;
    tx.rows_dynamic(
        &format!(
            "insert into deposit (chain_id, tx_hash, ordinal, log_index, block_number, block_hash, block_time, order_id,
             claim, depositor, payer, sender, currency, amount, state, seen_at) select origin_chain, {deposit_tx}, 0, 3,
             created_at / 2000, request_id, created_at + 1000, order_id, order_id, {account}, {account}, {account},
             {currency_in}, cast(amount_usd as text), 'final', created_at + 1100 {range} and same_chain = 0
             and state <> 'failed'"
        ),
        &bounds,
    )?;
    tx.rows_dynamic(
        "insert into deposit_use (deposit_id, use, order_id, input) select deposit_id, 'input', order_id, 0 from deposit
         where order_id >= $1 and order_id <= $2",
        &[first.order.into(), last.order.into()],
    )?;
    Ok(())
}
