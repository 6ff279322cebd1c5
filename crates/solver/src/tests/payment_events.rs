//! Cases of our own payments: mined, reverted, final, void, and dues that are tried again.

use alloy::primitives::{Address, B256};
use domain::deposit::State as DepositState;
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::payment::State as PaymentState;
use domain::quote::Quote;
use domain::request::State;
use evm::SeenDeposit;
use store::payments::{PaymentRow, Purpose, Subject};
use store::records::Failure;
use store::{Tx, deposits, dues, lanes, payments, records, requests, settlements};

use super::world::*;
use crate::chain::payment_events::{expire_halted, finalise, mined, retry};
use crate::context::PayContext;
use crate::error::SolverError;
use crate::orders;

/// A filled transfer: its fill is decided and not yet in a block.
async fn filled(world: &World) -> (Quote, OrderId, PaymentRow) {
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let fills = world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap();
    (quote, order, fills.into_iter().next().unwrap())
}

async fn mine(world: &World, row: &PaymentRow, success: bool) -> Vec<PaymentRow> {
    let (handle, sent) = (world.handle(row.payment.chain), sent(row, success));
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &sent, context)).await.unwrap()
}

async fn make_final(world: &World, row: &PaymentRow) -> Vec<PaymentRow> {
    let id = row.id;
    world
        .unit(move |tx, context| {
            let row = payments::find(tx, id)?.unwrap();
            finalise(tx, &row, context)
        })
        .await
        .unwrap()
}

async fn payment_state(world: &World, row: &PaymentRow) -> PaymentState {
    let id = row.id;
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(payments::find(tx, id)?.unwrap().state);
    world.store.read(read).await.unwrap()
}

async fn outcome(world: &World, order: OrderId) -> Option<Purpose> {
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(settlements::outcome(tx, order)?);
    world.store.read(read).await.unwrap()
}

#[tokio::test]
async fn a_fill_that_is_mined_ends_its_request_and_stays_settled() {
    let world = World::new().await;
    let (quote, order, fill) = filled(&world).await;
    assert!(mine(&world, &fill, true).await.is_empty());
    assert_eq!(world.state(quote.id).await, State::Success);
    assert!(make_final(&world, &fill).await.is_empty());
    assert_eq!(payment_state(&world, &fill).await, PaymentState::Final);
    assert_eq!(outcome(&world, order).await, Some(Purpose::Fill));
}

#[tokio::test]
async fn a_fill_that_reverts_is_refunded_only_once_that_is_final() {
    let world = World::new().await;
    let (quote, order, fill) = filled(&world).await;
    assert!(mine(&world, &fill, false).await.is_empty());
    assert_eq!(payment_state(&world, &fill).await, PaymentState::Reverted);
    assert_eq!(world.state(quote.id).await, State::Pending, "nothing follows before the block is final");
    assert!(world.live(Subject::Refund(order)).await.is_none());
    let refunds = make_final(&world, &fill).await;
    assert_eq!(payment_state(&world, &fill).await, PaymentState::Void);
    assert_eq!(refunds.len(), 1);
    assert_eq!((refunds[0].payment.subject, refunds[0].payment.chain), (Subject::Refund(order), ORIGIN));
    assert_eq!(refunds[0].payment.recipient, USER);
    assert_eq!(world.state(quote.id).await, State::Refunding);
    assert_eq!(outcome(&world, order).await, Some(Purpose::Refund));
    mine(&world, &refunds[0], true).await;
    assert_eq!(world.state(quote.id).await, State::Refunded);
}

#[tokio::test]
async fn a_refund_that_reverts_is_tried_again_and_then_waits_for_a_person() {
    let world = World::new().await;
    let (quote, order, fill) = filled(&world).await;
    mine(&world, &fill, false).await;
    let first = make_final(&world, &fill).await.remove(0);
    mine(&world, &first, false).await;
    let second = make_final(&world, &first).await;
    assert_eq!(second.len(), 1, "it is tried once more");
    assert_eq!(second[0].payment.subject, Subject::Refund(order));
    mine(&world, &second[0], false).await;
    assert!(make_final(&world, &second[0]).await.is_empty(), "and not a third time");
    assert_eq!(world.state(quote.id).await, State::Refunding, "it has not failed: a person has to look");
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(dues::find(tx, &Subject::Refund(order))?.is_some());
    assert!(world.store.read(read).await.unwrap(), "it is still due");
}

#[tokio::test]
async fn a_foreign_transaction_under_our_nonce_quarantines_the_lane() {
    let world = World::new().await;
    let (_, _, fill) = filled(&world).await;
    let (handle, mut foreign) = (world.handle(DESTINATION), sent(&fill, true));
    foreign.to = Some(STRANGER);
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &foreign, context)).await.unwrap();
    assert_eq!(payment_state(&world, &fill).await, PaymentState::Reverted, "our payment did not happen");
    let read = |tx: &mut Tx<'_>| Ok::<_, SolverError>(lanes::all(tx, DESTINATION)?);
    let lanes = world.store.read(read).await.unwrap();
    assert!(lanes.iter().any(|lane| lane.wallet == FILLER && lane.quarantined.is_some()), "{lanes:?}");
}

/// A reorg took the deposit of a filled order away, and another takes its place: the order was paid out, and grows no
/// more.
#[tokio::test]
async fn the_part_beyond_a_missing_deposit_goes_back() {
    let tenth = ONE_ETHER / 10;
    for (deposited, excess) in [(ONE_ETHER, None), (13 * tenth, Some(units(3 * tenth)))] {
        let world = World::new().await;
        let (_, order, fill) = filled(&world).await;
        let vanish = move |tx: &mut Tx<'_>, context: &PayContext| {
            let gone = deposits::of_order(tx, order)?.unwrap();
            orders::deposits::vanish(tx, &gone, context)
        };
        world.unit(vanish).await.unwrap();
        let again = SeenDeposit { tx: B256::repeat_byte(0xd9), ..deposit(order, ETH, deposited) };
        assert!(world.deposit(again).await.unwrap().is_empty(), "it is not filled twice");
        mine(&world, &fill, true).await;
        let is_final = move |tx: &mut Tx<'_>, _: &PayContext| {
            let tied = deposits::of_order(tx, order)?.unwrap();
            Ok(deposits::set_state(tx, tied.id, DepositState::Final)?)
        };
        world.unit(is_final).await.unwrap();
        let paid = make_final(&world, &fill).await;
        let back: Vec<_> = paid.iter().map(|row| (row.payment.purpose(), row.payment.recipient)).collect();
        assert_eq!(back, excess.map(|_| (Purpose::Excess, USER)).into_iter().collect::<Vec<_>>());
        // Less the gas of sending it.
        let least = excess.map(|excess| excess.mul_floor(domain::money::Ratio::bps(9_900)).unwrap());
        assert!(paid.iter().all(|row| Some(row.payment.amount) <= excess && Some(row.payment.amount) > least));
    }
}

/// A transfer whose fill waits for funds.
async fn waiting(world: &mut World) -> (Quote, OrderId) {
    world.snapshot(DESTINATION, |snapshot| snapshot.native.clear());
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    assert!(world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().is_empty());
    (quote, order)
}

async fn try_again(world: &World, order: OrderId) -> Vec<PaymentRow> {
    world
        .unit(move |tx, context| {
            let due = dues::find(tx, &Subject::Fill(order))?.unwrap();
            retry(tx, head(BLOCK + 1), &due, context)
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn a_fill_waits_two_minutes_for_funds_and_is_then_refunded() {
    let mut world = World::new().await;
    let (quote, order) = waiting(&mut world).await;
    assert!(try_again(&world, order).await.is_empty());
    assert_eq!(world.state(quote.id).await, State::Pending);
    world.context.now = NOW.plus(std::time::Duration::from_secs(121));
    let refunds = try_again(&world, order).await;
    assert_eq!(refunds.iter().map(|row| row.payment.subject).collect::<Vec<_>>(), [Subject::Refund(order)]);
    let id = quote.id;
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(requests::find(tx, id)?.unwrap());
    let request = world.store.read(read).await.unwrap();
    assert_eq!((request.state, request.fail_reason), (State::Refunding, Some(FailReason::SolverBalanceTooLow)));
}

#[tokio::test]
async fn a_fill_that_finds_funds_in_time_is_paid() {
    let mut world = World::new().await;
    let (_, order) = waiting(&mut world).await;
    world.snapshot(DESTINATION, |snapshot| _ = snapshot.native.insert(FILLER, units(50 * ONE_ETHER)));
    let fills = try_again(&world, order).await;
    assert_eq!(fills.iter().map(|row| row.payment.subject).collect::<Vec<_>>(), [Subject::Fill(order)]);
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(dues::find(tx, &Subject::Fill(order))?.is_none());
    assert!(world.store.read(read).await.unwrap(), "it is no longer due");
}

#[tokio::test]
async fn a_fill_that_waits_beyond_its_orders_time_is_refunded() {
    let mut world = World::new().await;
    let (quote, order) = waiting(&mut world).await;
    let deadline = u64::from(quote.terms.as_ref().unwrap().deadline);
    let late = evm::Head { time: deadline, ..head(BLOCK + 1) };
    let refunds = world
        .unit(move |tx, context| {
            let due = dues::find(tx, &Subject::Fill(order))?.unwrap();
            retry(tx, late, &due, context)
        })
        .await
        .unwrap();
    assert_eq!(refunds.iter().map(|row| row.payment.subject).collect::<Vec<_>>(), [Subject::Refund(order)]);
}

#[tokio::test]
async fn a_fill_that_waits_for_a_halted_chain_is_refunded_by_the_origins_time() {
    let mut world = World::new().await;
    world.snapshot(DESTINATION, |snapshot| snapshot.max_age = std::time::Duration::ZERO);
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    assert!(world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().is_empty());
    assert_eq!(world.state(quote.id).await, State::Pending);
    let swept = |time: u64| {
        let late = evm::Head { time, ..head(BLOCK + 1) };
        let unit = world.unit(move |tx, context| {
            let waiting = dues::fills_from(tx, ORIGIN, DESTINATION, 10)?;
            assert_eq!(waiting.iter().map(|due| due.subject).collect::<Vec<_>>(), [Subject::Fill(order)]);
            assert!(dues::fills_from(tx, DESTINATION, ORIGIN, 10)?.is_empty());
            expire_halted(tx, late, &waiting[0], context)
        });
        async move { unit.await.unwrap() }
    };
    assert!(swept(head(BLOCK).time).await.is_empty());
    assert_eq!(world.state(quote.id).await, State::Pending, "there is time");
    let refunds = swept(u64::from(quote.terms.as_ref().unwrap().deadline)).await;
    let paid: Vec<_> = refunds.iter().map(|row| (row.payment.subject, row.payment.chain)).collect();
    assert_eq!(paid, [(Subject::Refund(order), ORIGIN)]);
    assert_eq!(world.state(quote.id).await, State::Refunding);
}

/// The amount that goes back once a fill has failed, and the reason is known.
async fn refunded_after(currency: Address, amount: u128, blame: Option<bool>) -> Amount {
    let world = World::new().await;
    let (quote, order) = world.quote(currency, currency, amount).await;
    let fill = world.deposit(deposit(order, currency, amount)).await.unwrap().remove(0);
    mine(&world, &fill, false).await;
    let mut refunds = make_final(&world, &fill).await;
    if let Some(refused) = blame {
        assert!(refunds.is_empty(), "the cause decides how much goes back");
        let request = quote.id;
        refunds = world
            .unit(move |tx, context| {
                let failed = records::unexplained(tx, DESTINATION, 8)?.remove(0);
                assert_eq!(failed.record.request, request);
                let failure = Failure { reason: FailReason::ExecutionReverted, details: String::new(), refused };
                assert!(records::explain(tx, failed.id, failed.record.block_hash, &failure)?);
                let due = dues::find(tx, &Subject::Refund(order))?.unwrap();
                retry(tx, head(BLOCK + 1), &due, context)
            })
            .await
            .unwrap();
    }
    let [refund] = &refunds[..] else { panic!("one refund: {refunds:?}") };
    refund.payment.amount
}

/// The fill burnt 21,000 units of gas at a gwei: six cents and a bit.
#[tokio::test]
async fn gas_that_a_recipient_made_us_burn_comes_off_the_refund() {
    let burnt = units(63_000);
    let refused = refunded_after(USDC, 100 * ONE_USDC, Some(true)).await;
    let our_loss = refunded_after(USDC, 100 * ONE_USDC, Some(false)).await;
    assert_eq!(our_loss.checked_sub(refused).unwrap(), burnt, "the recipient's token refused");
    assert!(our_loss > units(99 * ONE_USDC), "a stranger's doing costs the user nothing but the refund's own gas");
    // A plain payment of native currency fails for one reason only, which nobody has to look for.
    let native = refunded_after(ETH, ONE_ETHER, None).await;
    let kept = units(ONE_ETHER).checked_sub(native).unwrap();
    assert_eq!(kept, units(21_000_000_000_000 + 24_508 * 1_001_000_000), "what was burnt, and the refund's own gas");
}
