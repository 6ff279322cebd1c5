//! Cases of sweeps that a reorg has put before the payment that they were for.

use alloy::primitives::B256;
use domain::deposit::State as DepositState;
use domain::deposit_address::Kind;
use domain::ids::OrderId;
use domain::money::UsdMicros;
use domain::payment::State as PaymentState;
use domain::request::State;
use evm::SeenDeposit;
use store::losses::Loss;
use store::payments::{PaymentRow, Purpose as PaymentPurpose, Subject};
use store::sweeps::Missing;
use store::{Tx, deposits, losses, payments, sweeps};

use super::deposit_addresses::{
    QUOTED, REFUND_TO, arrives, arrives_from, back, brought, deposited, for_order, given, place, swept, waiting,
};
use super::world::*;
use crate::audit;
use crate::chain::payment_events::{finalise, mined};
use crate::context::PayContext;
use crate::deposit_addresses::sweep::Purpose;
use crate::orders;

/// A block of the origin holds a sweep.
async fn is_mined(world: &World, sweep: &PaymentRow, block: u64) {
    let (handle, done) = (world.handle(ORIGIN), sent(sweep, true));
    world.unit(move |tx, context| mined(tx, &handle, head(block), &done, context)).await.unwrap();
}

/// A stranger's dust is all that is there when the sweep is mined: it goes back as a request of its own, whenever it has its
/// confirmations, and the payment behind it is swept and filled once.
#[tokio::test]
async fn dust_that_a_reorg_gave_to_our_sweep_does_not_take_the_place_of_the_payment() {
    // The payment is found behind the sweep before the dust counts, or after that; in the block of the sweep or a later one.
    for (found_first, block) in [(false, BLOCK + 1), (true, BLOCK + 1), (false, BLOCK)] {
        let world = World::new().await;
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        arrives_from(&world, &given, QUOTED, (STRANGER, 1, BLOCK - 1)).await;
        let first = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
        let dust = SeenDeposit { tx: sent(&first, true).hash, ..brought(&given, &first, QUOTED / 20, REFUND_TO) };
        if found_first {
            is_mined(&world, &first, BLOCK).await;
            arrives_from(&world, &given, QUOTED, (STRANGER, 1, block)).await;
        }
        let returned = back(&world, dust).await.unwrap();
        assert_eq!((returned.payment.recipient, world.state(quote.id).await), (REFUND_TO, State::Waiting));
        if !found_first {
            is_mined(&world, &first, BLOCK).await;
            assert_eq!(waiting(&world, &given).await, 0);
            arrives_from(&world, &given, QUOTED, (STRANGER, 1, block)).await;
        }
        assert_eq!(waiting(&world, &given).await, 1);
        let second = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
        let seen = |tx| SeenDeposit { tx: B256::repeat_byte(tx), ..brought(&given, &second, QUOTED, REFUND_TO) };
        world.deposit(seen(0xd2)).await.unwrap();
        assert_eq!(world.state(quote.id).await, State::Pending);
        let fill = world.live(Subject::Fill(given.order)).await.unwrap();
        // Whoever sweeps it once more makes a deposit of its own.
        world.deposit(SeenDeposit { sender: STRANGER, ..seen(0xd3) }).await.unwrap();
        assert_eq!(world.live(Subject::Fill(given.order)).await.unwrap().id, fill.id);
    }
}

/// The block of a sweep is final.
async fn is_final(world: &World, sweep: &PaymentRow) {
    let id = sweep.id;
    let unit = move |tx: &mut Tx<'_>, context: &PayContext| {
        let stored = payments::find(tx, id)?.unwrap();
        finalise(tx, &stored, context)
    };
    world.unit(unit).await.unwrap();
}

/// The payment is found in its new block before anybody knows that our sweep was mined, before it and with a stranger's
/// dust: it waits again when that sweep is final, and is swept once.
#[tokio::test]
async fn a_sweep_that_is_found_late_and_brought_dust_leaves_the_payment_to_the_next() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    arrives_from(&world, &given, QUOTED, (STRANGER, 1, BLOCK - 1)).await;
    let first = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    arrives_from(&world, &given, QUOTED, (STRANGER, 1, BLOCK + 1)).await;
    let seen = |sweep: &PaymentRow, units| SeenDeposit {
        tx: sent(sweep, true).hash,
        ..brought(&given, sweep, units, REFUND_TO)
    };
    back(&world, seen(&first, QUOTED / 20)).await.unwrap();
    is_mined(&world, &first, BLOCK).await;
    assert_eq!(waiting(&world, &given).await, 0, "not before it is final");
    is_final(&world, &first).await;
    assert_eq!((world.state(quote.id).await, waiting(&world, &given).await), (State::Waiting, 1));
    let second = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    world.deposit(seen(&second, QUOTED)).await.unwrap();
    assert_eq!(world.state(quote.id).await, State::Pending);
    is_mined(&world, &second, BLOCK).await;
    is_final(&world, &second).await;
    assert_eq!(waiting(&world, &given).await, 0, "nothing is left to sweep");
}

/// A reorg may put a sweep before the transfer that it was to take: it succeeds, and the money is still there.
#[tokio::test]
async fn a_sweep_that_brought_nothing_leaves_the_money_to_the_next() {
    for brings in [false, true] {
        let world = World::new().await;
        let (_, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
        arrives(&world, &given, QUOTED, 1).await;
        let payment = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
        let (handle, done) = (world.handle(ORIGIN), sent(&payment, true));
        if brings {
            let seen = deposited(&given, given.order, QUOTED, REFUND_TO);
            world.deposit(SeenDeposit { tx: done.hash, ..seen }).await.unwrap();
        }
        world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &done, context)).await.unwrap();
        assert_eq!(waiting(&world, &given).await, 0, "not before it is final");
        is_final(&world, &payment).await;
        assert_eq!(waiting(&world, &given).await, usize::from(!brings));
    }
}

/// An order that was priced anew and paid out, and whose deposit a reorg took away, is the one that the same money pays for
/// when it is swept again.
#[tokio::test]
async fn an_order_whose_deposit_is_missing_is_swept_for_again() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    arrives(&world, &given, QUOTED, 1).await;
    let (order, request) = (OrderId(B256::repeat_byte(0x77)), quote.id);
    swept(&world, &given, Purpose::Again { order, request }, REFUND_TO).await.unwrap();
    let at = place(&given);
    let missing = move |tx: &mut Tx<'_>| sweeps::missing(tx, ORIGIN, at.address, at.currency);
    assert_eq!(world.store.read(missing).await.unwrap(), []);
    let amount = units(QUOTED);
    let loss = Loss { order, request, chain: ORIGIN, currency: USDC, amount, usd: UsdMicros(1), deadline: NOW };
    world.unit(move |tx, context| Ok(losses::open(tx, &loss, context.now)?)).await.unwrap();
    assert_eq!(world.store.read(missing).await.unwrap(), [Missing { order, request, amount }]);
}

/// A sweep is mined again after a reorg, before some of the transfers that it was for.
#[tokio::test]
async fn a_part_of_the_money_that_an_order_was_paid_out_for_does_not_go_back() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    let (order, at) = (given.order, place(&given));
    arrives(&world, &given, QUOTED, 1).await;
    swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    let seen = deposited(&given, order, QUOTED, REFUND_TO);
    world.deposit(seen.clone()).await.unwrap();
    assert!(world.live(Subject::Fill(order)).await.is_some());
    world
        .unit(move |tx, context| {
            let stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            orders::deposits::vanish(tx, &stored, context)
        })
        .await
        .unwrap();
    let part = SeenDeposit { tx: B256::repeat_byte(0x5b), ..deposited(&given, order, QUOTED / 2, REFUND_TO) };
    assert!(back(&world, part).await.is_none(), "it was paid for");
    let missing = move |tx: &mut Tx<'_>| sweeps::missing(tx, ORIGIN, at.address, at.currency);
    let left = Missing { order, request: quote.id, amount: units(QUOTED / 2) };
    assert_eq!(world.store.read(missing).await.unwrap(), [left], "the rest still is");
    // A person sets it against the loss, which is told in full.
    let (options, nodes) = (world.options.clone(), tokio::runtime::Handle::current());
    let run = move || audit::run(&options, &[], nodes, &|_, _, _, _| ());
    let checks = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let told = [format!("{} of {USDC}", units(QUOTED)), format!("{} of it has come back", units(QUOTED / 2))];
    let notes: Vec<_> = checks.iter().flat_map(|check| &check.notes).collect();
    assert!(notes.iter().any(|note| told.iter().all(|told| note.contains(told))), "{notes:?}");
}

/// Two orders of one address were paid out, and a reorg took both of their deposits. One sweep brings the money of both
/// under one of them: the part beyond it is the other's, and goes back to nobody.
#[tokio::test]
async fn money_beyond_an_order_is_kept_for_another_of_its_address_that_was_paid_out() {
    for (lost_beside, goes_back) in [(0, QUOTED / 2), (QUOTED / 4, QUOTED / 4), (QUOTED / 2, 0), (QUOTED, 0)] {
        let world = World::new().await;
        let (_, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
        let order = given.order;
        arrives(&world, &given, QUOTED, 1).await;
        let sweep = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
        let seen = deposited(&given, order, QUOTED, REFUND_TO);
        world.deposit(seen.clone()).await.unwrap();
        let fill = world.live(Subject::Fill(order)).await.unwrap();
        let (first, second) = (
            seen.clone(),
            SeenDeposit { tx: B256::repeat_byte(0x5c), ..deposited(&given, order, QUOTED * 3 / 2, REFUND_TO) },
        );
        world
            .unit(move |tx, context| {
                let stored = deposits::find(tx, ORIGIN, first.tx, first.ordinal)?.unwrap();
                orders::deposits::vanish(tx, &stored, context)
            })
            .await
            .unwrap();
        // The other order was swept for at the same address.
        is_mined(&world, &sweep, BLOCK + 1).await;
        let other = OrderId(B256::repeat_byte(0x78));
        if lost_beside > 0 {
            arrives(&world, &given, QUOTED / 10, 2).await;
            let request = given.request;
            swept(&world, &given, Purpose::Again { order: other, request }, REFUND_TO).await.unwrap();
            let (amount, usd) = (units(lost_beside), UsdMicros(1));
            let loss = Loss { order: other, request, chain: ORIGIN, currency: USDC, amount, usd, deadline: NOW };
            world.unit(move |tx, context| Ok(losses::open(tx, &loss, context.now)?)).await.unwrap();
        }
        world.deposit(second).await.unwrap();
        let id = fill.id;
        let paid = world
            .unit(move |tx, context| {
                let tied = deposits::of_order(tx, order)?.unwrap();
                deposits::set_state(tx, tied.id, DepositState::Final)?;
                payments::set_state(tx, id, PaymentState::Mined, context.now)?;
                let stored = payments::find(tx, id)?.unwrap();
                finalise(tx, &stored, context)
            })
            .await
            .unwrap();
        let back: Vec<_> = paid.iter().map(|row| row.payment.purpose()).collect();
        assert_eq!(back, if goes_back > 0 { vec![PaymentPurpose::Excess] } else { Vec::new() }, "{lost_beside}");
        // Less the gas of sending it, and of the sweep.
        assert!(paid.iter().all(|row| row.payment.amount <= units(goes_back)), "{lost_beside}");
    }
}
