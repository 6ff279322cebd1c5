//! Cases of a deposit that counts: filled, refunded, or a request of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use domain::fail::FailReason;
use domain::money::UsdMicros;
use domain::request::State;
use evm::{Id, SeenDeposit};
use store::deposits::{DepositId, ReturnDue};
use store::payments::Subject;
use store::requests::Request;
use store::{Tx, deposits, requests};

use super::world::*;
use crate::env::Screening;
use crate::error::SolverError;

async fn children(world: &World, parent: domain::ids::RequestId) -> Vec<Request> {
    let read = move |tx: &mut Tx<'_>| {
        let children = requests::children(tx, parent)?;
        let found = children.into_iter().map(|id| Ok(requests::find(tx, id)?.unwrap()));
        found.collect::<Result<Vec<_>, SolverError>>()
    };
    world.store.read(read).await.unwrap()
}

#[tokio::test]
async fn a_deposit_is_filled_refunded_or_a_child() {
    const QUOTED: u128 = 100 * ONE_USDC;
    type Change = fn(&mut SeenDeposit);
    let cases: [(&str, Change, State, Option<FailReason>); 9] = [
        ("the quoted amount", |_| (), State::Pending, None),
        ("a little more", |seen| seen.amount += seen.amount / alloy::primitives::U256::from(100), State::Pending, None),
        (
            "another wallet pays all of it",
            |seen| (seen.payer, seen.sender) = (STRANGER, STRANGER),
            State::Pending,
            None,
        ),
        ("half of it, by the user", |seen| seen.amount /= alloy::primitives::U256::from(2), State::Refunding, None),
        (
            "dust by a stranger",
            |seen| {
                seen.amount = alloy::primitives::U256::from(1);
                (seen.payer, seen.sender) = (STRANGER, STRANGER);
            },
            State::Waiting,
            Some(FailReason::DepositedAmountTooLowToFill),
        ),
        (
            "dust by a contract that the user called",
            |seen| (seen.amount, seen.payer) = (alloy::primitives::U256::from(1), STRANGER),
            State::Waiting,
            Some(FailReason::DepositedAmountTooLowToFill),
        ),
        ("another currency", |seen| seen.currency = ETH, State::Waiting, Some(FailReason::OriginCurrencyMismatch)),
        (
            "a token we do not know",
            |seen| seen.currency = Address::repeat_byte(0x99),
            State::Waiting,
            Some(FailReason::OriginCurrencyMismatch),
        ),
        ("nothing at all", |seen| seen.amount = alloy::primitives::U256::ZERO, State::Waiting, None),
    ];
    for (name, change, state, child) in cases {
        let world = World::new().await;
        let (quote, order) = world.quote(USDC, USDC, QUOTED).await;
        let mut seen = deposit(order, USDC, QUOTED);
        change(&mut seen);
        world.deposit(seen).await.unwrap();
        assert_eq!(world.state(quote.id).await, state, "{name}");
        let reasons: Vec<_> = children(&world, quote.id).await.iter().map(|child| child.fail_reason).collect();
        assert_eq!(reasons, child.map(Some).into_iter().collect::<Vec<_>>(), "{name}");
        let (fill, refund) = (world.live(Subject::Fill(order)).await, world.live(Subject::Refund(order)).await);
        assert_eq!(fill.is_some(), state == State::Pending, "{name}");
        assert_eq!(refund.is_some(), state == State::Refunding, "{name}");
    }
}

#[tokio::test]
async fn the_same_deposit_twice_is_one_fill_and_another_one_is_a_child() {
    let world = World::new().await;
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let seen = deposit(order, ETH, ONE_ETHER);
    assert_eq!(world.deposit(seen.clone()).await.unwrap().len(), 1);
    assert_eq!(world.deposit(seen.clone()).await.unwrap().len(), 0, "the block is read again");
    let second = SeenDeposit { tx: B256::repeat_byte(0xd2), ..seen };
    assert_eq!(world.deposit(second).await.unwrap().len(), 0);
    let children = children(&world, quote.id).await;
    let reasons: Vec<_> = children.iter().map(|child| (child.state, child.fail_reason)).collect();
    assert_eq!(reasons, [(State::Refunding, Some(FailReason::DoubleSpend))]);
}

#[tokio::test]
async fn a_deposit_of_a_blocked_wallet_is_held_and_moves_nothing() {
    let mut world = World::new().await;
    let blocked = BTreeSet::from([STRANGER]);
    world.context.screening = Arc::new(Screening { blocked, custodial: BTreeSet::new() });
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let seen = SeenDeposit { payer: STRANGER, ..deposit(order, ETH, ONE_ETHER) };
    assert!(world.deposit(seen).await.unwrap().is_empty());
    assert_eq!(world.state(quote.id).await, State::Waiting);
    assert!(children(&world, quote.id).await.is_empty());
}

#[tokio::test]
async fn trailing_bytes_that_name_no_order_lock_nothing() {
    let world = World::new().await;
    let (quote, order) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    let guess = SeenDeposit { id: Id::Calldata(B256::repeat_byte(0x44)), ..deposit(order, USDC, 100 * ONE_USDC) };
    assert!(world.deposit(guess).await.unwrap().is_empty());
    assert_eq!(world.state(quote.id).await, State::Waiting);
}

#[tokio::test]
async fn a_deposit_that_comes_after_its_order_has_ended_goes_back() {
    let mut world = World::new().await;
    let (quote, order) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    // The destination's clock decides: its newest block stands behind the order's deadline.
    let deadline = quote.terms.as_ref().unwrap().deadline;
    world.snapshot(DESTINATION, |snapshot| snapshot.time = u64::from(deadline) + 1);
    world.deposit(deposit(order, USDC, 100 * ONE_USDC)).await.unwrap();
    assert_eq!(world.state(quote.id).await, State::Refunding);
    assert!(world.live(Subject::Fill(order)).await.is_none());
}

#[tokio::test]
async fn a_refund_to_an_exchange_is_kept_for_a_person() {
    let mut world = World::new().await;
    world.context.screening = Arc::new(Screening { blocked: BTreeSet::new(), custodial: BTreeSet::from([USER]) });
    let (quote, order) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    world.deposit(deposit(order, USDC, 50 * ONE_USDC)).await.unwrap();
    assert_eq!(world.state(quote.id).await, State::Failed);
    assert!(world.live(Subject::Refund(order)).await.is_none());
}

#[tokio::test]
async fn every_return_has_its_turn_however_many_wait_before_it() {
    let world = World::new().await;
    for n in 1..=5 {
        let nobodys = domain::ids::OrderId(B256::repeat_byte(n));
        world.deposit(SeenDeposit { tx: B256::repeat_byte(n), ..deposit(nobodys, ETH, ONE_ETHER) }).await.unwrap();
    }
    world
        .unit(|tx, _| (1..=5).try_for_each(|row| Ok(deposits::set_return_due(tx, DepositId(row), ReturnDue::Yes)?)))
        .await
        .unwrap();
    let (mut after, mut turns) = (DepositId(0), Vec::new());
    for _ in 0..4 {
        let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(deposits::to_return(tx, ORIGIN, after, 2)?);
        let rows: Vec<i64> = world.store.read(read).await.unwrap().iter().map(|stored| stored.id.0).collect();
        after = DepositId(rows[rows.len() - 1]);
        turns.push(rows);
    }
    assert_eq!(turns, [[1, 2], [3, 4], [5, 1], [2, 3]]);
}

#[tokio::test]
async fn an_orphaned_deposit_is_not_returned_while_any_chain_is_unchecked() {
    let world = World::new().await;
    let nobodys = domain::ids::OrderId(B256::repeat_byte(0x44));
    world.deposit(deposit(nobodys, ETH, ONE_ETHER)).await.unwrap();
    let returned = || {
        let handle = world.handle(ORIGIN);
        world.unit(move |tx, context| {
            let stored = deposits::get(tx, DepositId(1))?.unwrap();
            crate::orders::refunds::return_to_depositor(tx, &handle, &stored, context)
        })
    };
    // A lost database may have filled the order on the chain that nobody can read.
    world.handle(DESTINATION).begin(domain::time::Timestamp::from_millis(0));
    assert!(returned().await.unwrap().is_empty());
    world.handle(DESTINATION).health.refuse(None);
    assert_eq!(returned().await.unwrap().len(), 1);
}

#[tokio::test]
async fn one_node_is_enough_only_for_a_small_deposit_of_an_order() {
    const QUOTED: u128 = 40 * ONE_USDC;
    type Change = fn(&mut SeenDeposit);
    let cases: [(&str, i64, Change, bool); 6] = [
        ("below the limit", 50_000_000, |_| (), true),
        ("at the limit", 40_000_000, |_| (), false),
        ("no limit is set", 0, |_| (), false),
        ("much more than the order", 50_000_000, |seen| seen.amount *= alloy::primitives::U256::from(100), false),
        ("another currency", 50_000_000, |seen| seen.currency = ETH, false),
        ("no order says what it is worth", 50_000_000, |seen| seen.id = Id::Event(B256::repeat_byte(0x77)), false),
    ];
    for (name, limit, change, expected) in cases {
        let world = World::with(|settings| settings.one_node_below = UsdMicros(limit)).await;
        let (_, order) = world.quote(USDC, USDC, QUOTED).await;
        let mut seen = deposit(order, USDC, QUOTED);
        change(&mut seen);
        let handle = world.handle(ORIGIN);
        let small = world.unit(move |tx, _| crate::orders::deposits::is_small(tx, &handle, &seen)).await.unwrap();
        assert_eq!(small, expected, "{name}");
    }
}
