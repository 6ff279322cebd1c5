//! Cases of fast fills that fail on the chain: who pays for the gas, how much, and once.

use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::quote::{Call, Quote, QuoteOptions};
use domain::request::State;
use store::payments::{PaymentRow, Subject};
use store::records::Failure;
use store::{Tx, deposits, dues, ledger, payments, records};

use super::fast_fill::{DOLLAR, FUNDS, HELD, apply_event, ask, books, mine, world};
use super::world::*;
use crate::chain::events::BlockEvent;
use crate::chain::payment_events::{finalise, mined, retry};
use crate::handle::trials::Verdict;
use crate::orders;
use crate::quoting::quote::row;

/// The hold for a hundred USDC.
const HUNDRED: i64 = 100 * DOLLAR;
/// 21,000 units of gas at a gwei, with ether at 3,000 dollars, and relay fee and spread of an exchange.
const BURNT: i64 = 63_070;
/// The same without them, as a refund pays for it.
const BURNT_BY_DEPOSIT: u128 = 63_000;
/// The quoted gas of a fill: 60,000 gwei.
const QUOTED_GAS: i64 = 180_000;
/// The gas of a token refund.
const REFUND_GAS: u128 = 198_198;
/// Looks for a cause before it is given up.
const MAX_LOOKS: u32 = 20;

/// USDC to be filled ahead of their deposit; the fill is decided.
async fn decided(world: &World, amount: u128) -> (Quote, OrderId, PaymentRow) {
    let (quote, order) = world.quote(USDC, USDC, amount).await;
    let (_, paid) = ask(world, &quote, None).await.unwrap();
    (quote, order, paid.into_iter().next().unwrap())
}

async fn make_final(world: &World, row: &PaymentRow) -> Vec<PaymentRow> {
    let id = row.id;
    let unit = world.unit(move |tx, context| {
        let row = payments::find(tx, id)?.unwrap();
        finalise(tx, &row, context)
    });
    unit.await.unwrap()
}

/// The fill reverts in a block that becomes final.
async fn fail(world: &World, row: &PaymentRow) {
    mine(world, row, false).await;
    assert!(make_final(world, row).await.is_empty());
}

/// The cause of the oldest failure becomes known.
async fn explain(world: &World, refused: bool) {
    let unit = world.unit(move |tx, _| {
        let failed = records::unexplained(tx, DESTINATION, 8)?.remove(0);
        let failure = Failure { reason: FailReason::ExecutionReverted, details: String::new(), refused };
        assert!(records::explain(tx, failed.id, failed.record.block_hash, &failure)?);
        Ok(())
    });
    unit.await.unwrap();
}

/// The next block of the destination.
async fn next_block(world: &World, order: OrderId) {
    apply_event(world, BlockEvent::FailedFastFill(order)).await;
}

async fn land(world: &World, order: OrderId, amount: u128) -> Vec<PaymentRow> {
    world.deposit(deposit(order, USDC, amount)).await.unwrap()
}

#[tokio::test]
async fn gas_that_a_fast_fill_was_made_to_burn_is_charged_to_its_hold() {
    for (refused, cost) in [(true, BURNT), (false, 0)] {
        let world = world(|_| ()).await;
        let (quote, order, fill) = decided(&world, 100 * ONE_USDC).await;
        fail(&world, &fill).await;
        assert_eq!(world.state(quote.id).await, State::Waiting, "nobody was paid");
        next_block(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, HUNDRED), "the hold stays until the cause is known");
        explain(&world, refused).await;
        for _ in 0..2 {
            next_block(&world, order).await;
            assert_eq!(books(&world).await, (FUNDS - cost, 0), "refused: {refused}");
        }
    }
}

#[tokio::test]
async fn calls_that_revert_cost_the_integrator_the_gas() {
    let world = world(|_| ()).await;
    let call = Call { to: STRANGER, value: units(0), data: Bytes::from_static(b"revert") };
    let quote = quote(
        ETH,
        ETH,
        ONE_ETHER,
        QuoteOptions { calls: vec![call], tried_gas: Some(60_000), ..QuoteOptions::default() },
    );
    let order = quote.order().unwrap().id();
    world.store.begin_quote(row(&quote, Some(order))).unwrap().durable().await.unwrap();
    assert!(ask(&world, &quote, None).await.unwrap().1.is_empty(), "calls are tried first");
    let handle = world.handle(DESTINATION);
    handle.trials.take(8);
    handle.trials.answered(order, Some(Verdict::Passes));
    let unit = world.unit(move |tx, context| {
        let due = dues::find(tx, &Subject::Fill(order))?.unwrap();
        retry(tx, head(BLOCK), &due, context)
    });
    let fill = unit.await.unwrap().remove(0);
    fail(&world, &fill).await;
    assert_eq!(books(&world).await, (FUNDS, HELD));
    explain(&world, true).await;
    next_block(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS - BURNT, 0));
}

/// A plain payment of native currency fails for one reason only, which nobody has to look for.
#[tokio::test]
async fn a_recipient_that_refuses_native_currency_costs_the_integrator_the_gas_at_once() {
    let world = world(|_| ()).await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let fill = ask(&world, &quote, None).await.unwrap().1.remove(0);
    fail(&world, &fill).await;
    assert_eq!(books(&world).await, (FUNDS - BURNT, 0));
}

#[tokio::test]
async fn a_cause_that_nobody_finds_costs_the_integrator_nothing() {
    let world = world(|_| ()).await;
    let (_, order, fill) = decided(&world, 100 * ONE_USDC).await;
    fail(&world, &fill).await;
    for look in 0..MAX_LOOKS {
        next_block(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, HUNDRED), "look {look}");
        let unit = world.unit(|tx, _| {
            let failed = records::unexplained(tx, DESTINATION, 8)?.remove(0);
            Ok(records::not_explained(tx, failed.id)?)
        });
        unit.await.unwrap();
    }
    next_block(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS, 0));
}

/// More than three times the quoted gas is not the caller's doing, and a hold pays for no more than it holds.
#[tokio::test]
async fn no_more_is_charged_than_three_times_the_quoted_gas_or_the_hold() {
    for (amount, cost) in [(100 * ONE_USDC, 3 * QUOTED_GAS), (ONE_USDC * 4 / 10, DOLLAR * 4 / 10)] {
        let world = world(|_| ()).await;
        let (_, order, fill) = decided(&world, amount).await;
        let (handle, mut sent) = (world.handle(DESTINATION), sent(&fill, false));
        sent.fee = U256::from(2_100_000_000_000_000u64);
        world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &sent, context)).await.unwrap();
        make_final(&world, &fill).await;
        explain(&world, true).await;
        next_block(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS - cost, 0), "{amount}");
    }
}

#[tokio::test]
async fn gas_without_a_price_keeps_the_hold_until_there_is_one() {
    let mut world = world(|_| ()).await;
    let (_, order, fill) = decided(&world, 100 * ONE_USDC).await;
    fail(&world, &fill).await;
    explain(&world, true).await;
    world.snapshot(DESTINATION, |snapshot| snapshot.max_age = Duration::ZERO);
    next_block(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS, HUNDRED));
    world.snapshot(DESTINATION, |snapshot| snapshot.max_age = Duration::from_secs(3_600));
    next_block(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS - BURNT, 0));
}

/// The deposit comes before or after the cause is known. Its own fill fails too: the refund pays for that one only.
#[tokio::test]
async fn a_refund_never_pays_for_gas_that_the_hold_answers_for() {
    for known_first in [true, false] {
        let world = world(|_| ()).await;
        let (quote, order, fill) = decided(&world, 100 * ONE_USDC).await;
        fail(&world, &fill).await;
        if known_first {
            explain(&world, true).await;
            next_block(&world, order).await;
        }
        let second = land(&world, order, 100 * ONE_USDC).await.remove(0);
        assert_eq!(second.payment.subject, Subject::Fill(order), "the deposit's own fill has its try");
        if !known_first {
            assert_eq!(books(&world).await, (FUNDS, HUNDRED), "a deposit does not free the hold of the gas it owes");
            explain(&world, true).await;
            next_block(&world, order).await;
        }
        assert_eq!(books(&world).await, (FUNDS - BURNT, 0));
        fail(&world, &second).await;
        explain(&world, true).await;
        let unit = world.unit(move |tx, context| {
            let due = dues::find(tx, &Subject::Refund(order))?.unwrap();
            retry(tx, head(BLOCK + 1), &due, context)
        });
        let refund = unit.await.unwrap().remove(0);
        assert_eq!(refund.payment.amount, units(100 * ONE_USDC - REFUND_GAS - BURNT_BY_DEPOSIT), "{known_first}");
        assert_eq!(world.state(quote.id).await, State::Refunding);
        assert_eq!(books(&world).await, (FUNDS - BURNT, 0));
    }
}

/// With the deposit there before the fill fails, the refund pays as for every other fill, and the hold does not.
#[tokio::test]
async fn a_deposit_that_is_there_pays_for_the_gas_and_the_hold_is_free() {
    let world = world(|_| ()).await;
    let (_, order, fill) = decided(&world, 100 * ONE_USDC).await;
    let (handle, seen) = (world.handle(ORIGIN), deposit(order, USDC, 100 * ONE_USDC));
    world.unit(move |tx, context| orders::deposits::apply(tx, &handle, head(BLOCK), &seen, context)).await.unwrap();
    fail(&world, &fill).await;
    assert_eq!(books(&world).await, (FUNDS, 0));
    explain(&world, true).await;
    let unit = world.unit(move |tx, context| {
        assert!(deposits::of_order(tx, order)?.is_some());
        let due = dues::find(tx, &Subject::Refund(order))?.unwrap();
        retry(tx, head(BLOCK + 1), &due, context)
    });
    let refund = unit.await.unwrap().remove(0);
    assert_eq!(refund.payment.amount, units(100 * ONE_USDC - REFUND_GAS - BURNT_BY_DEPOSIT));
}

/// While the hold waits, its dollars stand for nothing else.
#[tokio::test]
async fn a_hold_that_waits_for_a_cause_cannot_be_claimed() {
    const OTHER: Address = Address::repeat_byte(0x77);
    let world = world(|_| ()).await;
    let (_, _, fill) = decided(&world, 100 * ONE_USDC).await;
    fail(&world, &fill).await;
    let read = |tx: &mut Tx<'_>| Ok::<_, crate::error::SolverError>(ledger::account(tx, OTHER)?);
    let account = world.store.read(read).await.unwrap();
    assert_eq!(account.available(domain::ledger::HoldKind::Claim).0, FUNDS - HUNDRED);
}
