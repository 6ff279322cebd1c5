//! Cases of deposit addresses: sweeps as payments, and what becomes of the deposits that they bring.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::deposit_address::{AddressAsk, Derivation, Factory, Kind};
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::payment::State as PaymentState;
use domain::quote::{Quote, QuoteOptions};
use domain::request::State;
use evm::SeenDeposit;
use store::arrivals::{self, Arrival, Place};
use store::blocks::{self, Cursor};
use store::deposit_addresses::{self, DepositAddress, Ends};
use store::payments::{PaymentRow, Subject};
use store::requests::Request;
use store::{Tx, deposits, payments, requests, settlements};

use super::world::*;
use crate::chain::payment_events::{finalise, mined};
use crate::context::PayContext;
use crate::deposit_addresses::sweep::{Decided, Purpose, sweep};
use crate::env::Screening;
use crate::error::SolverError;
use crate::orders;
use crate::orders::refunds::return_to_depositor;
use crate::payments::amount::{refund_cost, sweep_cost};
use crate::quoting::quote::row;
use crate::quoting::routes::{RouteInputs, with_origin_gas};

pub(super) const QUOTED: u128 = 100 * ONE_USDC;
pub(super) const REFUND_TO: Address = Address::repeat_byte(0x44);

/// An address that was given out and is paid at.
pub(super) async fn given(world: &World, kind: Kind, refund_to: Option<Address>) -> (Quote, DepositAddress) {
    given_for(world, AddressAsk { kind, recovery: None }, refund_to).await
}

pub(super) async fn given_for(world: &World, ask: AddressAsk, refund_to: Option<Address>) -> (Quote, DepositAddress) {
    let (deposit_address, kind) = (Some(ask), ask.kind);
    let mut quote = quote(USDC, USDC, QUOTED, QuoteOptions { deposit_address, ..QuoteOptions::default() });
    quote.ask.refund_to = refund_to.map(Into::into);
    let order = quote.order().unwrap().id();
    let derivation = quote.derivation(order).unwrap();
    let given = DepositAddress {
        address: Factory::new(world.handle(ORIGIN).chain.deposit_address_factory.unwrap()).address_of(derivation),
        request: quote.id,
        order,
        kind,
        derivation,
        chain: ORIGIN,
        currency: USDC,
        created_at: NOW,
    };
    let (stored, copy) = (row(&quote, Some(order)), given.clone());
    let ends = Ends { watched_until: NOW, forgotten_at: NOW };
    let unit = move |tx: &mut Tx<'_>| {
        blocks::advance(tx, ORIGIN, Cursor { number: BLOCK, hash: head(BLOCK).hash }, NOW, 100)?;
        Ok::<_, SolverError>(deposit_addresses::give_out(tx, &stored, &copy, ends)?.unwrap())
    };
    assert_eq!(world.store.write(unit).await.unwrap().state, State::Waiting);
    (quote, given)
}

pub(super) fn place(given: &DepositAddress) -> Place {
    Place { address: given.address, currency: given.currency }
}

pub(super) async fn arrives(world: &World, given: &DepositAddress, units: u128, tx: u8) {
    arrives_from(world, given, units, (STRANGER, tx, BLOCK)).await;
}

pub(super) async fn arrives_from(
    world: &World,
    given: &DepositAddress,
    units: u128,
    (sender, tx, block): (Address, u8, u64),
) {
    let arrival = Arrival {
        chain: ORIGIN,
        address: given.address,
        currency: given.currency,
        amount: super::world::units(units),
        tx: Some(B256::repeat_byte(tx)),
        log_index: 3,
        sender: Some(sender),
        direct: true,
        block_number: block,
        block_hash: head(block).hash,
        ripe_at: block,
        created_at: NOW,
    };
    world.unit(move |tx, _| Ok(arrivals::put(tx, &arrival)?)).await.unwrap();
}

pub(super) async fn swept(
    world: &World,
    given: &DepositAddress,
    (purpose, units): (Purpose, u128),
    depositor: Address,
) -> Option<PaymentRow> {
    let (handle, given) = (world.handle(ORIGIN), given.clone());
    let decided = Decided { place: place(&given), amount: super::world::units(units), purpose, depositor };
    world.unit(move |tx, context| sweep(tx, &handle, &given, &decided, context)).await.unwrap()
}

pub(super) async fn waiting(world: &World, given: &DepositAddress) -> usize {
    let place = place(given);
    let read = move |tx: &mut Tx<'_>| arrivals::waiting_at(tx, ORIGIN, place.address, place.currency);
    world.store.read(read).await.unwrap().len()
}

async fn request(world: &World, quote: &Quote) -> Request {
    let id = quote.id;
    world.store.read(move |tx| requests::find(tx, id)).await.unwrap().unwrap()
}

/// A sweep for the order of an address, decided for so much.
pub(super) const fn for_order(units: u128) -> (Purpose, u128) {
    (Purpose::Order, units)
}

/// The deposit of so much that a sweep for the order of its address makes.
pub(super) fn brought(given: &DepositAddress, payment: &PaymentRow, units: u128, depositor: Address) -> SeenDeposit {
    SeenDeposit { input: payment.payment.data.clone(), ..deposited(given, given.order, units, depositor) }
}

/// The deposit that a sweep of ours makes.
pub(super) fn deposited(given: &DepositAddress, order: OrderId, units: u128, depositor: Address) -> SeenDeposit {
    let to = Some(Address::repeat_byte(0xd7));
    SeenDeposit { depositor, payer: given.address, sender: FILLER, to, ..deposit(order, USDC, units) }
}

#[tokio::test]
async fn a_sweep_is_one_payment_that_moves_gas_and_settles_nothing() {
    let world = World::new().await;
    let (_, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    assert!(matches!(given.derivation, Derivation::Strict { depositor, .. } if depositor == REFUND_TO));
    arrives(&world, &given, QUOTED, 1).await;
    let payment = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    assert!(matches!(payment.payment.subject, Subject::Sweep(_)));
    assert!(payment.payment.value.is_zero() && payment.payment.amount.is_zero());
    assert_eq!(evm::calldata::trailing_id(&payment.payment.data), Some(payment.payment.order().0));
    assert_ne!(payment.payment.order(), given.order, "a sweep never names its order where a fill would");
    let order = given.order;
    let outcome = world.store.read(move |tx| settlements::outcome(tx, order)).await.unwrap();
    assert_eq!(outcome, None);
    // While it is under way there is no other, whatever else arrives.
    assert_eq!(waiting(&world, &given).await, 0);
    arrives(&world, &given, 5, 2).await;
    assert!(swept(&world, &given, for_order(QUOTED), REFUND_TO).await.is_none());
    assert_eq!(waiting(&world, &given).await, 1);
}

#[tokio::test]
async fn a_sweep_that_failed_for_good_leaves_the_money_to_the_next() {
    let world = World::new().await;
    let (_, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    arrives(&world, &given, QUOTED, 1).await;
    let first = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    let (handle, failed) = (world.handle(ORIGIN), sent(&first, false));
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &failed, context)).await.unwrap();
    assert!(swept(&world, &given, for_order(QUOTED), REFUND_TO).await.is_none(), "it is not final");
    let id = first.id;
    world
        .unit(move |tx, context| {
            let stored = payments::find(tx, id)?.unwrap();
            finalise(tx, &stored, context)
        })
        .await
        .unwrap();
    let state = world.store.read(move |tx| payments::find(tx, id)).await.unwrap().unwrap().state;
    assert_eq!((state, waiting(&world, &given).await), (PaymentState::Void, 1));
    let second = swept(&world, &given, for_order(QUOTED), REFUND_TO).await.unwrap();
    assert_ne!(second.payment.subject, first.payment.subject);
    // One that is mined frees the address for the next.
    let (handle, done) = (world.handle(ORIGIN), sent(&second, true));
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 2), &done, context)).await.unwrap();
    arrives(&world, &given, 5, 2).await;
    assert!(swept(&world, &given, for_order(QUOTED), REFUND_TO).await.is_some());
}

#[tokio::test]
async fn what_a_sweep_brings_is_filled_or_refunded_by_the_rules_of_its_address() {
    let zero = Address::ZERO;
    let address = |given: &DepositAddress| given.address;
    // Kind, `refundTo`, amount, depositor of the event, state, and whom a refund goes to.
    type Case = (&'static str, Kind, Option<Address>, u128, fn(&DepositAddress) -> Address, State, Option<Address>);
    let cases: [Case; 7] = [
        ("exact", Kind::Strict, Some(REFUND_TO), QUOTED, |_| REFUND_TO, State::Pending, None),
        ("over", Kind::Strict, Some(REFUND_TO), 3 * QUOTED, |_| REFUND_TO, State::Pending, None),
        ("under", Kind::Strict, Some(REFUND_TO), QUOTED / 2, |_| REFUND_TO, State::Refunding, Some(REFUND_TO)),
        ("to the sender", Kind::Strict, Some(zero), QUOTED / 2, |_| STRANGER, State::Refunding, Some(STRANGER)),
        ("to nobody known", Kind::Strict, Some(zero), QUOTED / 2, address, State::Failed, None),
        ("open and exact", Kind::Open, None, QUOTED, address, State::Pending, None),
        ("open, the sender", Kind::Open, Some(zero), QUOTED, |_| STRANGER, State::Pending, None),
    ];
    for (name, kind, refund_to, units, depositor, state, back) in cases {
        let world = World::new().await;
        let (quote, given) = given(&world, kind, refund_to).await;
        arrives(&world, &given, units, 1).await;
        let payment = swept(&world, &given, for_order(units), depositor(&given)).await.unwrap();
        world.deposit(brought(&given, &payment, units, depositor(&given))).await.unwrap();
        let request = request(&world, &quote).await;
        assert_eq!(request.state, state, "{name}");
        let refund = world.live(Subject::Refund(given.order)).await;
        assert_eq!(refund.map(|refund| refund.payment.recipient), back, "{name}");
        if state == State::Failed {
            assert_eq!(request.refund_fail_reason, None, "{name}");
            assert_eq!(request.fail_reason, Some(FailReason::DepositedAmountTooLowToFill), "{name}");
        }
    }
}

/// Somebody pays a little and has it swept, and the payment of somebody else joins the sweep: nobody knows whose it is,
/// and the refund goes to neither by itself.
#[tokio::test]
async fn a_refund_to_the_sender_goes_to_nobody_who_sent_only_a_part() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Strict, Some(Address::ZERO)).await;
    arrives(&world, &given, QUOTED / 20, 1).await;
    let payment = swept(&world, &given, for_order(QUOTED / 20), STRANGER).await.unwrap();
    world.deposit(brought(&given, &payment, QUOTED / 2, STRANGER)).await.unwrap();
    assert_eq!(request(&world, &quote).await.state, State::Failed);
    assert!(world.live(Subject::Refund(given.order)).await.is_none());
}

/// A stranger sweeps what is partly paid, by themselves or by calls in a fill of ours: that is a request of its own,
/// and the order can still be paid.
#[tokio::test]
async fn a_stranger_cannot_end_an_order_by_sweeping_its_address() {
    for (sender, to) in [(STRANGER, 0xd7), (FILLER, 0xd5)] {
        let world = World::new().await;
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        let to = Some(Address::repeat_byte(to));
        let dust = SeenDeposit { sender, to, ..deposited(&given, given.order, QUOTED / 2, REFUND_TO) };
        world.deposit(dust).await.unwrap();
        assert_eq!(world.state(quote.id).await, State::Waiting);
        let rest = SeenDeposit { tx: B256::repeat_byte(0xd2), ..deposited(&given, given.order, QUOTED, REFUND_TO) };
        world.deposit(rest).await.unwrap();
        assert_eq!(world.state(quote.id).await, State::Pending);
    }
}

#[tokio::test]
async fn what_cannot_be_quoted_goes_back_as_a_child_of_its_address() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    arrives(&world, &given, 7, 1).await;
    let payment = swept(&world, &given, (Purpose::Back(FailReason::NoQuotes), 7), REFUND_TO).await.unwrap();
    let call = evm::contracts::DepositAddressFactory::sweepOpenCall::abi_decode(&payment.payment.data).unwrap();
    assert_eq!((call.depositor, call.token, call.amount), (REFUND_TO, USDC, U256::from(7)));
    assert_ne!(call.orderId, given.order.0, "it can pay for nothing");
    let seen = deposited(&given, OrderId(call.orderId), QUOTED, REFUND_TO);
    world.deposit(SeenDeposit { amount: U256::from(QUOTED), ..seen }).await.unwrap();
    assert_eq!(world.state(quote.id).await, State::Waiting);
    let parent = quote.id;
    let children = move |tx: &mut Tx<'_>| {
        let ids = requests::children(tx, parent)?;
        ids.into_iter().map(|id| Ok(requests::find(tx, id)?.unwrap())).collect::<Result<Vec<_>, SolverError>>()
    };
    let children = world.store.read(children).await.unwrap();
    let child = children.first().unwrap();
    assert_eq!((child.state, child.fail_reason), (State::Refunding, Some(FailReason::NoQuotes)));
    let shown = {
        let child = child.clone();
        world.store.read(move |tx| deposit_addresses::shown(tx, &child)).await.unwrap().unwrap()
    };
    assert_eq!((shown.address, shown.kind), (given.address, Kind::Open));
    let order = OrderId(call.orderId);
    let tied = world.store.read(move |tx| deposits::of_order(tx, order)).await.unwrap();
    assert!(tied.is_none());
}

/// A transfer and a stranger's sweep share a block: the sender is known only when the block has been searched, and is a
/// party of the payment like the deposit's own.
#[tokio::test]
async fn a_blocked_sender_is_found_behind_a_strangers_sweep() {
    const BLOCKED: Address = Address::repeat_byte(0xb1);
    for (sender, state, reason) in
        [(BLOCKED, State::Refunding, Some(FailReason::BlockedWallet)), (STRANGER, State::Pending, None)]
    {
        let mut world = World::new().await;
        world.context.screening = Arc::new(Screening { blocked: [BLOCKED].into(), custodial: BTreeSet::new() });
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        let seen = SeenDeposit { sender: STRANGER, ..deposited(&given, given.order, QUOTED, REFUND_TO) };
        let (handle, copy) = (world.handle(ORIGIN), seen.clone());
        let apply = move |tx: &mut Tx<'_>, context: &PayContext| {
            orders::deposits::apply(tx, &handle, head(BLOCK + 1), &copy, context)
        };
        assert!(world.unit(apply).await.unwrap().is_empty());
        assert_eq!(world.state(quote.id).await, State::Waiting, "nobody knows yet who sent it");
        arrives_from(&world, &given, QUOTED, (sender, 1, BLOCK + 1)).await;
        let order = given.order;
        let confirm = move |tx: &mut Tx<'_>, context: &PayContext| {
            deposit_addresses::set_cursor(tx, ORIGIN, Cursor { number: BLOCK + 1, hash: head(BLOCK + 1).hash })?;
            let stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            let mut request = requests::lock_order(tx, order)?;
            orders::deposits::confirm(tx, &stored, request.as_mut(), context)
        };
        world.unit(confirm).await.unwrap();
        let request = request(&world, &quote).await;
        assert_eq!((request.state, request.fail_reason), (state, reason));
        assert!(world.live(Subject::Refund(order)).await.is_none());
        assert_eq!(world.live(Subject::Fill(order)).await.is_none(), sender == BLOCKED);
    }
}

/// The gas of a transfer back and of a sweep, in USDC.
fn costs(world: &World) -> (Amount, Amount) {
    let (handle, snapshot) = (world.handle(ORIGIN), world.context.chains[&ORIGIN].1.clone().unwrap());
    let transfer = refund_cost(&handle, &snapshot, USDC, false).unwrap().unwrap();
    (transfer, sweep_cost(&handle, &snapshot, USDC).unwrap().unwrap())
}

/// Returns a deposit once it is final.
pub(super) async fn back(world: &World, seen: SeenDeposit) -> Option<PaymentRow> {
    let handle = world.handle(ORIGIN);
    world.deposit(seen.clone()).await.unwrap();
    let give_back = move |tx: &mut Tx<'_>, context: &PayContext| {
        let mut stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
        stored.state = domain::deposit::State::Final;
        return_to_depositor(tx, &handle, &stored, context)
    };
    world.unit(give_back).await.unwrap().pop()
}

#[tokio::test]
async fn the_gas_of_the_sweep_comes_off_whatever_goes_back_after_it() {
    let world = World::new().await;
    let (transfer, sweep) = costs(&world);
    assert!(!sweep.is_zero());
    let of = |units| super::world::units(units);
    // The refund of a strict order that was paid too little.
    let (_, strict) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    arrives(&world, &strict, QUOTED / 2, 1).await;
    let payment = swept(&world, &strict, for_order(QUOTED / 2), REFUND_TO).await.unwrap();
    world.deposit(brought(&strict, &payment, QUOTED / 2, REFUND_TO)).await.unwrap();
    let refund = world.live(Subject::Refund(strict.order)).await.unwrap().payment.amount;
    assert_eq!(refund, of(QUOTED / 2).checked_sub(transfer).unwrap().checked_sub(sweep).unwrap());
    // The return of what could not be quoted, and of what does not pay for its own gas.
    for (tx, units) in [(0xd3, QUOTED), (0xd4, u128::try_from(transfer.units()).unwrap() + 1)] {
        let world = World::new().await;
        let (_, open) = given(&world, Kind::Open, Some(REFUND_TO)).await;
        arrives(&world, &open, units, tx).await;
        let paid = swept(&world, &open, (Purpose::Back(FailReason::NoQuotes), units), REFUND_TO).await.unwrap();
        let call = evm::contracts::DepositAddressFactory::sweepOpenCall::abi_decode(&paid.payment.data).unwrap();
        let seen = deposited(&open, OrderId(call.orderId), units, REFUND_TO);
        let paid = back(&world, SeenDeposit { tx: B256::repeat_byte(tx), ..seen }).await;
        let left = of(units).saturating_sub(transfer).saturating_sub(sweep);
        assert_eq!(paid.map(|paid| paid.payment.amount), Some(left).filter(|left| !left.is_zero()));
    }
    // A stranger who swept has paid for it.
    let world = World::new().await;
    let (_, strict) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
    let seen = deposited(&strict, strict.order, QUOTED / 2, REFUND_TO);
    let paid = back(&world, SeenDeposit { sender: STRANGER, tx: B256::repeat_byte(0xd5), ..seen }).await.unwrap();
    assert_eq!(paid.payment.amount, of(QUOTED / 2).checked_sub(transfer).unwrap());
}

#[tokio::test]
async fn the_quote_of_an_address_has_its_sweep_in_the_gas() {
    let world = World::new().await;
    let (origin, destination) = (world.handle(ORIGIN), world.handle(DESTINATION));
    let snapshot = |chain| world.context.chains[&chain].1.clone().unwrap();
    let (here, there) = (snapshot(ORIGIN), snapshot(DESTINATION));
    let side = |chain, currency| domain::pricing::Side { chain, currency };
    let inputs = RouteInputs {
        origin: side(&origin.chain, origin.chain.token(USDC).unwrap()),
        destination: side(&destination.chain, destination.chain.token(USDC).unwrap()),
        here: &here,
        there: &there,
        sponsor_available: domain::money::UsdMicros(0),
    };
    let fill = units(60_000_000_000_000);
    let mut ask = quote(USDC, USDC, QUOTED, QuoteOptions::default()).ask;
    assert_eq!(with_origin_gas(fill, &ask, inputs, false).unwrap(), fill);
    ask.options.deposit_address = Some(AddressAsk { kind: Kind::Strict, recovery: None });
    let more = with_origin_gas(fill, &ask, inputs, false).unwrap().checked_sub(fill).unwrap();
    // To a millionth of a dollar, at three thousand dollars an ether on both chains.
    let (sweep, step) = (crate::payments::gas::sweep_cost(&here, false), units(1_000_000_000));
    assert!(more >= sweep && more <= sweep.checked_add(step).unwrap(), "{more} for a sweep of {sweep}");
}
