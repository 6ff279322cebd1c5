//! Losses: missing, booked and recovered.

use alloy_primitives::{Address, B256, U256};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::loss::State;
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;
use store::deposits::DepositId;
use store::losses::{self, Loss};
use store::{Store, StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    a_loss_is_booked_after_its_deadline_and_counted_once
    a_loss_that_comes_back_is_missing_what_was_paid_for_the_first_time
    an_unpaid_order_is_no_loss
}

const CHAIN: ChainId = ChainId(1);

fn loss(n: u8, deadline_secs: i64) -> Loss {
    Loss {
        order: OrderId(B256::repeat_byte(n)),
        request: RequestId(B256::repeat_byte(n)),
        chain: CHAIN,
        currency: Address::ZERO,
        amount: Amount::new(U256::from(100 * u64::from(n))),
        usd: UsdMicros(i64::from(n) * 1_000_000),
        deadline: Timestamp::from_secs(deadline_secs),
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

async fn write<T: Send + 'static>(
    store: &Store,
    unit: impl Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.write(unit).await
}

async fn a_loss_is_booked_after_its_deadline_and_counted_once(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (early, late) = (loss(1, 50), loss(2, 100));
    let (order, both) = (early.order, [early.clone(), late.clone()]);
    write(&store, move |tx| both.iter().try_for_each(|loss| losses::open(tx, loss, at(1)))).await?;
    let ripe = |secs| write(&store, move |tx| losses::ripe(tx, CHAIN, Timestamp::from_secs(secs), 10));
    assert_eq!(ripe(50).await?, [], "the deadline itself is in time");
    assert_eq!(ripe(51).await?, [early.order]);
    assert_eq!(ripe(101).await?, [early.order, late.order]);
    for _ in 0..2 {
        write(&store, move |tx| losses::book(tx, order, at(2))).await?;
    }
    assert_eq!(ripe(101).await?, [late.order]);
    assert_eq!(write(&store, losses::totals).await?, (late.usd, early.usd));
    write(&store, move |tx| losses::recover(tx, order, DepositId(7), at(3))).await?;
    assert_eq!(write(&store, losses::totals).await?, (late.usd, UsdMicros(0)));
    let stored = write(&store, move |tx| losses::find(tx, order)).await?.unwrap();
    assert_eq!((stored.state, stored.booked_at, stored.recovered_at), (State::Recovered, Some(at(2)), Some(at(3))));
    Ok(())
}

async fn a_loss_that_comes_back_is_missing_what_was_paid_for_the_first_time(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let first = loss(1, 50);
    let order = first.order;
    let again = Loss { amount: Amount::new(U256::from(90)), ..first.clone() };
    write(&store, move |tx| {
        losses::open(tx, &first, at(1))?;
        losses::recover(tx, order, DepositId(7), at(2))?;
        losses::open(tx, &again, at(3))
    })
    .await?;
    let stored = write(&store, move |tx| losses::find(tx, order)).await?.unwrap();
    assert_eq!((stored.state, stored.since, stored.recovered_at), (State::Missing, at(3), None));
    assert_eq!(stored.loss.amount, loss(1, 50).amount);
    // A booked loss stays booked, whatever vanishes.
    write(&store, move |tx| {
        losses::book(tx, order, at(4))?;
        losses::open(tx, &loss(1, 50), at(5))
    })
    .await?;
    assert_eq!(write(&store, move |tx| losses::find(tx, order)).await?.unwrap().state, State::Booked);
    Ok(())
}

async fn an_unpaid_order_is_no_loss(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let order = loss(1, 50).order;
    write(&store, move |tx| {
        losses::open(tx, &loss(1, 50), at(1))?;
        losses::forget(tx, order)
    })
    .await?;
    assert_eq!(write(&store, move |tx| losses::find(tx, order)).await?, None);
    Ok(())
}
