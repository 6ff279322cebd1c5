//! Plans: each filter that is named as indexed goes by its index, on both engines.

use alloy_primitives::B256;
use domain::ids::{ChainId, RequestId};
use store::listing::{self, Column, Condition, Listing, Number, Position, Sort, TxRole};
use store::{Dialect, Store, StoreError, Tx, Value};

use super::BY_AGE;
use super::seeds::{BEGIN, write};
use crate::database::Database;

crate::on_both_engines! {
    indexed_filters_go_by_their_indexes
}

const REQUESTS: u32 = 20_000;
/// Enough that a listing of them by anything but an index would be seen in its plan.
const ROWS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)";

/// Thirty-two bytes for a number, as SQL.
fn word(dialect: Dialect, number: &str) -> String {
    match dialect {
        Dialect::Sqlite => format!("cast(substr('00000000000000000000000000000000' || ({number}), -32) as blob)"),
        Dialect::Postgres => format!("convert_to(lpad(cast({number} as text), 32, '0'), 'UTF8')"),
    }
}

/// The same in Rust.
fn bytes(number: u32) -> B256 {
    B256::from_slice(format!("{number:032}").as_bytes())
}

/// Inserts requests, each with two transactions. Most end well, and some users are busier than others.
fn insert(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let (id, order) = (word(tx.dialect(), "i"), word(tx.dialect(), "i + 1000000"));
    let parent = word(tx.dialect(), "i - 1");
    let requests = format!(
        "{ROWS} insert into request (request_id, order_id, state, fail_reason, quote, created_at, updated_at, account,
         recipient, origin_chain, destination_chain, request_type, key_id, amount_usd, unlisted, parent_id,
         deposit_address)
         select {id}, {order}, case when i % 50 = 0 then 'failed' when i % 33 = 0 then 'refunded'
         when i % 200 = 1 then 'pending' when i % 200 = 2 then 'refunding' else 'success' end,
         case when i % 50 = 0 then 'DEPOSIT_REORGED' when i % 33 = 0 then 'SLIPPAGE' end,
         '', {BEGIN} + i, {BEGIN} + i * 7 % 20011, 'from' || (i % 2000), 'to' || (i % 1999), i % 3, i % 5, 'Bridge',
         case when i % 10 < 7 then 'key' || (i % 40) end, i % 977, 0, case when i % 500 = 0 then {parent} end,
         case when i % 100 = 7 then {id} end from n"
    );
    tx.rows_dynamic(&requests, &[])?;
    tx.rows_dynamic(
        "insert into transaction_record (request_id, chain_id, tx_hash, direction, sender, value, data, fee,
         block_number, block_hash, block_time, succeeded, changes) select request_id, origin_chain, request_id, 'in',
         request_id, '0', request_id, '1', amount_usd * 40, request_id, created_at, 1, '[]' from request",
        &[],
    )?;
    tx.rows_dynamic(
        "insert into payment (purpose, subject, request_id, order_id, chain_id, wallet, nonce, target, value, data, gas,
         recipient, currency, amount, state, tx_hash, created_at, updated_at)
         select case when state = 'refunded' then 'refund' else 'fill' end, request_id, request_id, order_id,
         destination_chain, request_id, 1, order_id, '0', order_id, 21000, order_id, order_id, '1', 'final', order_id,
         created_at, created_at from request",
        &[],
    )?;
    Ok(())
}

/// The name of a filter, its condition, and the indexes of which one has to be in its plan.
fn filters() -> Vec<(&'static str, Condition, &'static [&'static str])> {
    let is = |column, value: &str| Condition::is(column, value);
    let chain = |column| Condition::Is(column, Value::Int(1));
    let state = |state: &str| is(Column::State, state);
    let ended_badly = Condition::Any(vec![state("refunded"), state("failed")]).negated().negated();
    let by_hash: &[&str] = &["transaction_record_by_hash", "payment_by_hash"];
    vec![
        ("id", Condition::is(Column::Id, bytes(7)), &["sqlite_autoindex_request_1", "request_pkey"]),
        (
            "orderId",
            Condition::is(Column::OrderId, bytes(1_000_007)),
            &["sqlite_autoindex_request_2", "request_order_id_key"],
        ),
        ("includeChildRequests", Condition::is(Column::Parent, bytes(499)), &["request_of_parent"]),
        ("user", is(Column::Account, "from7"), &["request_of_account"]),
        ("depositAddress", Condition::is(Column::DepositAddress, bytes(107)), &["request_of_deposit_address"]),
        ("recipient", is(Column::Recipient, "to7"), &["request_of_recipient"]),
        ("apiKey", is(Column::Key, "key3"), &["request_of_key"]),
        ("status=failure", state("failed"), &["request_in_state"]),
        // What most requests have is found as fast by walking all of them.
        ("status=success", state("success"), &["request_in_state", "request_by_age"]),
        ("status=pending", Condition::Any(vec![state("pending"), state("refunding")]), &["request_in_state"]),
        ("failReason", Condition::All(vec![is(Column::FailReason, "SLIPPAGE"), ended_badly]), &["request_of_reason"]),
        ("originChainId", chain(Column::OriginChain), &["request_from", "request_by_age"]),
        ("destinationChainId", chain(Column::DestinationChain), &["request_to", "request_by_age"]),
        ("depositTxHash", Condition::Tx(TxRole::Deposit, bytes(7)), &["transaction_record_by_hash"]),
        ("fillTxHash", Condition::Tx(TxRole::Fill, bytes(1_000_007)), by_hash),
        ("refundTxHash", Condition::Tx(TxRole::Refund, bytes(1_000_033)), by_hash),
        ("term", Condition::Tx(TxRole::Any, bytes(7)), by_hash),
        (
            "startBlock",
            Condition::Blocks { from: Some(400), to: Some(500), chain: Some(ChainId(1)) },
            &["transaction_record_in_block"],
        ),
        ("startTimestamp", Condition::Between(Number::CreatedAt, Some(BEGIN + 9), None), &["request_by_age"]),
        // Together, the narrower one leads.
        (
            "user and status",
            Condition::All(vec![state("success"), is(Column::Account, "from7")]),
            &["request_of_account"],
        ),
        (
            "user and chainId",
            Condition::All(vec![
                Condition::Any(vec![chain(Column::OriginChain), chain(Column::DestinationChain)]),
                is(Column::Account, "from7"),
            ]),
            &["request_of_account"],
        ),
    ]
}

async fn steps(store: &Store, condition: Condition, sort: Sort, after: Option<Position>) -> anyhow::Result<String> {
    // Requests that wait are left out of every listing that names none.
    let not_waiting = Condition::is(Column::State, "waiting").negated();
    let listing = Listing { condition: Condition::All(vec![not_waiting, condition]), sort, after, limit: 21 };
    let found = listing.clone();
    let page = store.list(move |tx| listing::page(tx, &found)).await?;
    anyhow::ensure!(!page.is_empty(), "{:?} finds nothing", listing.condition);
    let steps = store.list(move |tx| listing::steps(tx, &listing)).await?.join("\n");
    let walks = |line: &str| line.contains("Seq Scan on request") || line == "SCAN request";
    anyhow::ensure!(!steps.lines().map(str::trim).any(walks), "every request is looked at:\n{steps}");
    Ok(steps)
}

async fn indexed_filters_go_by_their_indexes(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    write(&store, insert).await?;
    // As the server does by itself after a while. SQLite goes without.
    if !store.is_sqlite() {
        write(&store, |tx| tx.rows_dynamic("analyze", &[]).map(drop)).await?;
    }
    let newest = Sort { descending: true, ..BY_AGE };
    for (name, condition, indexes) in filters() {
        let steps = steps(&store, condition, newest, None).await?;
        assert!(indexes.iter().any(|index| steps.contains(index)), "{name} goes by none of {indexes:?}:\n{steps}");
    }
    let middle = Position { key: BEGIN + i64::from(REQUESTS / 2), id: RequestId(bytes(REQUESTS / 2)) };
    for (by, index) in [
        (Number::CreatedAt, "request_by_age"),
        (Number::UpdatedAt, "request_by_change"),
        (Number::AmountUsd, "request_by_worth"),
    ] {
        for descending in [false, true] {
            let sort = Sort { by, descending };
            let first = steps(&store, Condition::ALWAYS, sort, None).await?;
            assert!(first.contains(index), "{by:?}:\n{first}");
            let after = (by == Number::CreatedAt).then_some(middle);
            let next = steps(&store, Condition::ALWAYS, sort, after).await?;
            assert!(next.contains(index) && !next.contains("Sort"), "{by:?} behind a cursor:\n{next}");
            // A broad filter does not make the engine sort what an index has in order.
            let most = steps(&store, Condition::is(Column::State, "success"), sort, None).await?;
            assert!(!most.contains("Sort") && !most.contains("TEMP B-TREE"), "{by:?} of most requests:\n{most}");
        }
    }
    Ok(())
}
