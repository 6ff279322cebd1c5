//! Listings: facts that follow each change, conditions, pages and the stream of events.

mod pages;
mod plans;
mod seeds;
mod stream;

use alloy_primitives::B256;
use domain::fail::FailReason;
use domain::ids::{ChainId, RequestId};
use domain::request::State;
use store::listing::{self, Column, Condition, Number, Sort, TxRole};
use store::{Store, StoreError, Value};

use self::seeds::{Seed, catalog, id, sow, tx_hash, write};
use crate::database::Database;

crate::on_both_engines! {
    a_request_is_listed_with_its_facts_and_again_after_each_change
    a_change_while_facts_are_written_is_not_lost
    a_condition_means_the_same_before_and_after_the_facts_are_written
    an_unpaid_quote_is_found_by_its_id_alone
}

const BY_AGE: Sort = Sort { by: Number::CreatedAt, descending: false };

/// Writes the facts of all that have changed.
async fn refresh(store: &Store) -> Result<usize, StoreError> {
    let stale = store.list(|tx| listing::stale(tx, &catalog(), 1_000)).await?;
    let count = stale.len();
    write(store, move |tx| stale.iter().try_for_each(|fresh| listing::put(tx, fresh))).await?;
    Ok(count)
}

async fn found(store: &Store, condition: Condition) -> Result<Vec<RequestId>, StoreError> {
    let listing = listing::Listing { condition, sort: BY_AGE, after: None, limit: 1_000 };
    let page = store.list(move |tx| listing::page(tx, &listing)).await?;
    Ok(page.into_iter().map(|position| position.id).collect())
}

async fn a_request_is_listed_with_its_facts_and_again_after_each_change(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    sow(&store, &[Seed::default().begun()]).await?;
    assert_eq!(found(&store, Condition::ALWAYS).await?, [], "its facts are not there yet");
    assert_eq!(refresh(&store).await?, 1);
    assert_eq!(found(&store, Condition::ALWAYS).await?, [id(1)]);
    assert_eq!(refresh(&store).await?, 0, "nothing has changed");
    seeds::step(&store, id(1), State::Failed, Some(FailReason::DepositReorged)).await?;
    assert_eq!(refresh(&store).await?, 1);
    let failed = Condition::is(Column::FailReason, "DEPOSIT_REORGED");
    assert_eq!(found(&store, failed).await?, [id(1)]);
    Ok(())
}

async fn a_change_while_facts_are_written_is_not_lost(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    sow(&store, &[Seed::default().begun()]).await?;
    let read = store.list(|tx| listing::stale(tx, &catalog(), 10)).await?;
    seeds::step(&store, id(1), State::Pending, None).await?;
    write(&store, move |tx| read.iter().try_for_each(|fresh| listing::put(tx, fresh))).await?;
    assert_eq!(refresh(&store).await?, 1, "the change came after its facts were read");
    assert_eq!(refresh(&store).await?, 0);
    Ok(())
}

async fn an_unpaid_quote_is_found_by_its_id_alone(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    sow(&store, &[Seed::default()]).await?;
    refresh(&store).await?;
    assert_eq!(found(&store, Condition::ALWAYS).await?, []);
    for (ids, expected) in
        [(vec![id(1).0], 1), (vec![id(1).0, id(1).0], 1), (vec![seeds::order(1)], 1), (vec![id(2).0], 0)]
    {
        let found = store.list(move |tx| listing::by_id(tx, &ids, &Condition::ALWAYS, BY_AGE, &catalog())).await?;
        assert_eq!(found.len(), expected);
    }
    Ok(())
}

/// Every way to ask, alone, turned round, and with another.
fn conditions() -> Vec<Condition> {
    let is = |column, value: &str| Condition::is(column, value);
    let account = |n: u8| format!("0x{}", alloy_primitives::hex::encode([n; 20]));
    let chain = |column, id: i64| Condition::Is(column, Value::Int(id));
    let mut all = vec![
        Condition::ALWAYS,
        Condition::NEVER,
        Condition::is(Column::Id, id(2)),
        Condition::is(Column::OrderId, B256::from(seeds::order(3))),
        Condition::is(Column::Parent, id(1)),
        is(Column::Account, &account(0x11)),
        is(Column::Recipient, &account(0x33)),
        chain(Column::OriginChain, 8453),
        chain(Column::DestinationChain, 10),
        is(Column::CurrencyIn, &account(1)),
        is(Column::CurrencyOut, &account(2)),
        is(Column::State, "success"),
        is(Column::FailReason, "DEPOSIT_REORGED"),
        is(Column::RefundFailReason, "AMOUNT_TOO_LOW_TO_REFUND"),
        is(Column::RequestType, "Bridge"),
        is(Column::Key, "key_07070707070707070707"),
        is(Column::Referrer, "shop"),
        Condition::Features(32),
        Condition::Features(4),
        Condition::Features(16 + 8),
        Condition::Tx(TxRole::Deposit, tx_hash(4, 1)),
        Condition::Tx(TxRole::Fill, tx_hash(4, 2)),
        Condition::Tx(TxRole::Refund, tx_hash(5, 2)),
        Condition::Tx(TxRole::Refund, tx_hash(18, 2)),
        Condition::Tx(TxRole::Refund, tx_hash(19, 2)),
        Condition::Tx(TxRole::Any, tx_hash(5, 2)),
        Condition::Tx(TxRole::Fill, tx_hash(5, 2)),
        Condition::Tx(TxRole::Fill, tx_hash(6, 1)),
        Condition::Blocks { from: Some(104), to: Some(105), chain: None },
        Condition::Blocks { from: Some(104), to: Some(105), chain: Some(ChainId(8453)) },
        Condition::Blocks { from: Some(204), to: None, chain: Some(ChainId(8453)) },
        Condition::Blocks { from: None, to: Some(104), chain: None },
        Condition::OriginBlocks { from: Some(104), to: Some(105) },
        Condition::OriginBlocks { from: Some(204), to: None },
    ];
    for role in [TxRole::Any, TxRole::Deposit, TxRole::Fill, TxRole::Refund] {
        all.push(Condition::HasTx(role));
    }
    for column in [Column::FailReason, Column::RefundFailReason, Column::Key, Column::Referrer, Column::Parent] {
        all.push(Condition::Empty(column));
    }
    for (number, from, to) in [
        (Number::CreatedAt, Some(seeds::BEGIN + 2_000), Some(seeds::BEGIN + 4_000)),
        (Number::UpdatedAt, Some(seeds::BEGIN + 9_000), None),
        (Number::AmountUsd, Some(200_000_000), Some(250_000_000)),
        (Number::AppFeesUsd, Some(1), None),
        (Number::FillMillis, Some(4_000), Some(5_000)),
        (Number::FillMillis, None, Some(0)),
    ] {
        all.push(Condition::Between(number, from, to));
    }
    let pairs: Vec<_> = all.windows(2).step_by(3).map(|pair| pair.to_vec()).collect();
    all.extend(all.clone().into_iter().map(Condition::negated));
    for pair in pairs {
        all.push(Condition::All(pair.clone()));
        all.push(Condition::Any(pair.clone()));
        all.push(Condition::All(vec![pair[0].clone(), pair[1].clone().negated()]));
    }
    all
}

async fn a_condition_means_the_same_before_and_after_the_facts_are_written(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let seeds = seeds::garden();
    let count = seeds.len();
    sow(&store, &seeds).await?;
    let ids: Vec<B256> = (1..=count).map(|n| id(u32::try_from(n).unwrap()).0).collect();
    let conditions = conditions();
    let mut before = Vec::new();
    for condition in conditions.clone() {
        let ids = ids.clone();
        let mut found = store.list(move |tx| listing::by_id(tx, &ids, &condition, BY_AGE, &catalog())).await?;
        found.sort_by_key(|(place, _)| *place);
        before.push(found.into_iter().map(|(place, _)| place.id).collect::<Vec<_>>());
    }
    refresh(&store).await?;
    let mut narrow = 0;
    for (condition, before) in conditions.into_iter().zip(before) {
        let after = found(&store, condition.clone()).await?;
        assert_eq!(after, before, "{condition:?}");
        narrow += usize::from(!after.is_empty() && after.len() < count);
        let total = store.list(move |tx| listing::count(tx, &condition)).await?;
        assert_eq!(total, after.len() as u64);
    }
    assert!(narrow > 60, "{narrow} conditions tell requests apart");
    Ok(())
}
