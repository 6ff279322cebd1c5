//! Cases of sweeps that a reorg has put before the payment that they were for.

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::deposit_address::Kind;
use domain::ids::OrderId;
use domain::money::{Amount, UsdMicros};
use domain::request::State;
use evm::SeenDeposit;
use store::deposit_addresses::DepositAddress;
use store::losses::Loss;
use store::payments::{PaymentRow, Subject};
use store::sweeps::Missing;
use store::{Tx, arrivals, deposits, losses, payments, sweeps};

use super::deposit_addresses::{
    QUOTED, REFUND_TO, arrives, arrives_from, back, brought, deposited, for_order, given, place, swept, waiting,
};
use super::world::*;
use crate::audit;
use crate::chain::payment_events::{finalise, mined};
use crate::context::PayContext;
use crate::deposit_addresses::sweep::Purpose;
use crate::orders;

/// A token that is not listed.
const JUNK: Address = Address::repeat_byte(0x99);

/// A block of the origin holds a sweep.
async fn is_mined(world: &World, sweep: &PaymentRow, block: u64) {
    let (handle, done) = (world.handle(ORIGIN), sent(sweep, true));
    world.unit(move |tx, context| mined(tx, &handle, head(block), &done, context)).await.unwrap();
}

/// A stranger's dust is all that is there when the sweep is mined: it goes back as a request of its own, whenever it
/// has its confirmations, and the payment behind it is swept and filled once.
#[tokio::test]
async fn dust_that_a_reorg_gave_to_our_sweep_does_not_take_the_place_of_the_payment() {
    // The payment is found behind the sweep before the dust counts, or after that; in the block of the sweep or a later
    // one.
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

/// A reorg may put the sweep of a strict address before the transfer that it was to take: it succeeds, and the money is
/// still there.
#[tokio::test]
async fn a_sweep_that_brought_nothing_leaves_the_money_to_the_next() {
    for brings in [false, true] {
        let world = World::new().await;
        let (_, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        arrives(&world, &given, QUOTED, 1).await;
        let payment = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
        let (handle, done) = (world.handle(ORIGIN), sent(&payment, true));
        if brings {
            let seen = brought(&given, &payment, QUOTED, REFUND_TO);
            world.deposit(SeenDeposit { tx: done.hash, ..seen }).await.unwrap();
        }
        world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &done, context)).await.unwrap();
        assert_eq!(waiting(&world, &given).await, 0, "not before it is final");
        is_final(&world, &payment).await;
        assert_eq!(waiting(&world, &given).await, usize::from(!brings));
    }
}

/// An order that was priced anew and paid out, and whose deposit a reorg took away, is the one that the same money pays
/// for when it is swept again.
#[tokio::test]
async fn an_order_whose_deposit_is_missing_is_swept_for_again() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    arrives(&world, &given, QUOTED, 1).await;
    let (order, request) = (OrderId(B256::repeat_byte(0x77)), quote.id);
    swept(&world, &given, (Purpose::Again { order, request }, QUOTED), REFUND_TO).await.unwrap();
    assert_eq!(missing(&world, &given).await, []);
    let amount = units(QUOTED);
    let loss = Loss { order, request, chain: ORIGIN, currency: USDC, amount, usd: UsdMicros(1), deadline: NOW };
    world.unit(move |tx, context| Ok(losses::open(tx, &loss, context.now)?)).await.unwrap();
    assert_eq!(missing(&world, &given).await, [Missing { order, request, amount, in_one: false }]);
}

/// A sweep is mined again after a reorg, before some of the transfers that it was for.
#[tokio::test]
async fn a_part_of_the_money_that_an_order_was_paid_out_for_does_not_go_back() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    let order = given.order;
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
    let left = Missing { order, request: quote.id, amount: units(QUOTED / 2), in_one: false };
    assert_eq!(missing(&world, &given).await, [left], "the rest still is");
    // A person sets it against the loss, which is told in full.
    let (options, nodes) = (world.options.clone(), tokio::runtime::Handle::current());
    let run = move || audit::run(&options, &[], nodes, &|_, _, _, _| ());
    let checks = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let told = [format!("{} of {USDC}", units(QUOTED)), format!("{} of it has come back", units(QUOTED / 2))];
    let notes: Vec<_> = checks.iter().flat_map(|check| &check.notes).collect();
    assert!(notes.iter().any(|note| told.iter().all(|told| note.contains(told))), "{notes:?}");
}

/// An address whose order is paid out for its quoted amount, and whose deposit a reorg takes away.
async fn lost(world: &World, kind: Kind) -> DepositAddress {
    let (_, given) = given(world, kind, Some(REFUND_TO)).await;
    lose(world, &given).await;
    given
}

async fn lose(world: &World, given: &DepositAddress) {
    arrives(world, given, QUOTED, 1).await;
    let sweep = swept(world, given, for_order(QUOTED), REFUND_TO).await.unwrap();
    let seen = brought(given, &sweep, QUOTED, REFUND_TO);
    world.deposit(seen.clone()).await.unwrap();
    assert!(world.live(Subject::Fill(given.order)).await.is_some());
    is_mined(world, &sweep, BLOCK + 1).await;
    let vanish = move |tx: &mut Tx<'_>, context: &PayContext| {
        let stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
        orders::deposits::vanish(tx, &stored, context)
    };
    world.unit(vanish).await.unwrap();
}

async fn missing(world: &World, given: &DepositAddress) -> Vec<Missing> {
    let at = place(given);
    world.store.read(move |tx| sweeps::missing(tx, ORIGIN, at.address, at.currency)).await.unwrap()
}

/// Anybody may sweep a strict address, in parts too: parts stay until the order has what it was paid out for, and no
/// longer.
#[tokio::test]
async fn parts_of_a_lost_deposit_stay_whoever_swept_them() {
    let world = World::new().await;
    let (_, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    let part = |tx, units| SeenDeposit {
        tx: B256::repeat_byte(tx),
        sender: STRANGER,
        ..deposited(&given, given.order, units, REFUND_TO)
    };
    // What has gone back before is no part of it.
    assert!(back(&world, part(0x5d, QUOTED / 2)).await.is_some());
    lose(&world, &given).await;
    // Tokens that anybody can make are no part of it, however many.
    for tx in [0x5e, 0x5f] {
        let junk = SeenDeposit { currency: JUNK, amount: U256::MAX, ..part(tx, 0) };
        world.deposit(junk).await.unwrap();
    }
    let parts = [(0x61, QUOTED / 2, true), (0x62, QUOTED / 2, true), (0x63, QUOTED / 10, false)];
    for (tx, units, stays) in parts {
        assert_eq!(back(&world, part(tx, units)).await.is_none(), stays, "{tx:x}");
    }
    // What came to no address of ours goes back.
    let world = World::new().await;
    let given = lost(&world, Kind::Strict).await;
    let stranger = SeenDeposit {
        tx: B256::repeat_byte(0x64),
        payer: STRANGER,
        sender: STRANGER,
        ..deposited(&given, given.order, QUOTED / 2, REFUND_TO)
    };
    assert!(back(&world, stranger).await.is_some());
}

/// Native currency does not tell out of which address it came: whatever comes under the order of a strict one is its
/// own.
#[tokio::test]
async fn parts_of_lost_native_currency_stay_as_well() {
    for lost in [false, true] {
        let world = World::new().await;
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        let (order, request, amount) = (given.order, quote.id, Amount::new(U256::from(2 * ONE_ETHER)));
        if lost {
            let (currency, usd) = (Address::ZERO, UsdMicros(1));
            let loss = Loss { order, request, chain: ORIGIN, currency, amount, usd, deadline: NOW };
            world.unit(move |tx, context| Ok(losses::open(tx, &loss, context.now)?)).await.unwrap();
        }
        let part = SeenDeposit {
            payer: STRANGER,
            sender: STRANGER,
            currency: Address::ZERO,
            amount: U256::from(ONE_ETHER),
            ..deposited(&given, order, 0, REFUND_TO)
        };
        assert_eq!(back(&world, part).await.is_none(), lost);
    }
}

/// A deposit of nine tenths takes the place of a lost one. The last tenth was paid out as well, and is neither priced
/// anew nor sent back.
#[tokio::test]
async fn an_order_that_got_nine_tenths_back_still_misses_the_last() {
    for (units, short) in [(QUOTED * 9 / 10, QUOTED / 10), (QUOTED * 99 / 100, 0), (QUOTED, 0)] {
        let world = World::new().await;
        let given = lost(&world, Kind::Open).await;
        let seen = SeenDeposit { tx: B256::repeat_byte(0x65), ..deposited(&given, given.order, units, REFUND_TO) };
        world.deposit(seen).await.unwrap();
        let left = missing(&world, &given).await;
        let amount = super::world::units(short);
        let expected = Missing { order: given.order, request: given.request, amount, in_one: false };
        assert_eq!(left, if short > 0 { vec![expected] } else { Vec::new() }, "{units}");
        // The rest, swept for the same order, has no slot left.
        arrives(&world, &given, QUOTED / 10, 2).await;
        let again = Purpose::Again { order: given.order, request: given.request };
        swept(&world, &given, (again, QUOTED / 10), REFUND_TO).await.unwrap();
        let rest =
            SeenDeposit { tx: B256::repeat_byte(0x66), ..deposited(&given, given.order, QUOTED / 10, REFUND_TO) };
        assert_eq!(back(&world, rest).await.is_none(), short > 0, "{units}");
        assert_eq!(missing(&world, &given).await, [], "{units}");
    }
}

/// A sweep for an order that misses its deposit names no more than is missing: the rest of the balance waits.
#[tokio::test]
async fn what_a_smaller_sweep_leaves_waits_again() {
    let world = World::new().await;
    let given = lost(&world, Kind::Open).await;
    arrives(&world, &given, QUOTED * 3, 2).await;
    let again = Purpose::Again { order: given.order, request: given.request };
    let sweep = swept(&world, &given, (again, QUOTED), REFUND_TO).await.unwrap();
    let call = evm::contracts::DepositAddressFactory::sweepOpenCall::abi_decode(&sweep.payment.data).unwrap();
    assert_eq!((call.orderId, call.amount), (given.order.0, U256::from(QUOTED)));
    let seen = SeenDeposit { tx: sent(&sweep, true).hash, ..brought(&given, &sweep, QUOTED, REFUND_TO) };
    world.deposit(seen).await.unwrap();
    is_mined(&world, &sweep, BLOCK + 2).await;
    assert_eq!((missing(&world, &given).await, waiting(&world, &given).await), (Vec::new(), 0));
    is_final(&world, &sweep).await;
    let at = place(&given);
    let left = world.store.read(move |tx| arrivals::waiting_at(tx, ORIGIN, at.address, at.currency)).await.unwrap();
    let left: Vec<_> = left.iter().map(|it| (it.amount, it.sender, it.tx)).collect();
    assert_eq!(left, [(units(QUOTED * 2), Some(STRANGER), None)], "the rest of it");
}
