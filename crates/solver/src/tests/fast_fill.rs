//! Cases of fast fills: what the hold is, what ends it, and what the deposit is worth whenever it comes.

use std::time::Duration;

use alloy::primitives::Address;
use domain::api_key::ApiKeyId;
use domain::ids::OrderId;
use domain::ledger::{Cause, Entry, UsdcMicros};
use domain::money::UsdMicros;
use domain::quote::Quote;
use domain::request::State;
use evm::Head;
use market::Quoted;
use store::payments::{PaymentRow, Subject};
use store::risk::Limits;
use store::{Tx, audit, deposits, ledger, payments, risk};

use super::late_deposits::remember;
use super::world::*;
use crate::chain::events::{BlockEvent, apply};
use crate::chain::payment_events::{finalise, mined, retry};
use crate::error::SolverError;
use crate::integrators::fast_fill::{Answer, FastFillError, Ineligible, Wish, decide};
use crate::orders;

const WALLET: Address = Address::repeat_byte(0x77);
pub(super) const DOLLAR: i64 = 1_000_000;
/// The funds of the integrator.
pub(super) const FUNDS: i64 = 10_000 * DOLLAR;
/// The hold for one ether at 3,000 dollars, with its margin.
pub(super) const HELD: i64 = 3_060 * DOLLAR;
/// Relay fee and spread of an exchange between ether and USDC.
const EXCHANGE_BPS: i64 = 11;
pub(super) const WINDOW_SECS: u64 = 1_800;

pub(super) async fn world(change: impl Fn(&mut crate::handle::Settings)) -> World {
    let world = World::with(change).await;
    let funds = Entry::new(Cause::Funding { transfer: 1 }, WALLET, UsdcMicros(FUNDS), None).unwrap();
    world.unit(move |tx, context| Ok(ledger::post(tx, &funds, context.now)?)).await.unwrap();
    world
}

/// The charge for one ether at this price.
pub(super) fn charge(dollars: i64) -> i64 {
    dollars * DOLLAR / 10_000 * (10_000 + EXCHANGE_BPS)
}

/// The credit for it.
pub(super) fn credit(dollars: i64) -> i64 {
    dollars * DOLLAR / 10_000 * (10_000 - EXCHANGE_BPS)
}

pub(super) async fn ask(
    world: &World,
    quote: &Quote,
    amount: Option<u128>,
) -> Result<(Answer, Vec<PaymentRow>), FastFillError> {
    let (request, context) = (quote.id, world.context.clone());
    let key = ApiKeyId::new([0; 10]);
    let wish = Wish { request, key, wallet: WALLET, amount: amount.map(units), most: None };
    world.store.write(move |tx| decide(tx, &wish, &context)).await
}

/// One ether, to be filled ahead of its deposit; the fill is decided.
async fn decided(world: &World) -> (Quote, OrderId, PaymentRow) {
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let (answer, paid) = ask(world, &quote, None).await.unwrap();
    assert_eq!(answer, Answer::Queued);
    assert_eq!(books(world).await, (FUNDS, HELD));
    (quote, order, paid.into_iter().next().unwrap())
}

/// The same, and the fill is mined.
pub(super) async fn filled(world: &World) -> OrderId {
    let (quote, order, fill) = decided(world).await;
    mine(world, &fill, true).await;
    assert_eq!(world.state(quote.id).await, State::Success);
    order
}

pub(super) async fn mine(world: &World, row: &PaymentRow, success: bool) {
    let (handle, sent) = (world.handle(row.payment.chain), sent(row, success));
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &sent, context)).await.unwrap();
}

/// The deposit is in a block, so many seconds after the fill was asked for.
pub(super) async fn land(world: &World, order: OrderId, amount: u128, secs: u64) {
    let (handle, seen) = (world.handle(ORIGIN), deposit(order, ETH, amount));
    let head = Head { time: head(BLOCK).time + secs, ..head(BLOCK) };
    world.unit(move |tx, context| orders::deposits::apply(tx, &handle, head, &seen, context)).await.unwrap();
}

pub(super) async fn apply_event(world: &World, event: BlockEvent) {
    let handle = world.handle(ORIGIN);
    world.unit(move |tx, context| apply(tx, &handle, head(BLOCK + 20), &event, context)).await.unwrap();
}

pub(super) async fn make_final(world: &World, order: OrderId) {
    let tied = world.unit(move |tx, _| Ok(deposits::of_order(tx, order)?.unwrap().id)).await.unwrap();
    apply_event(world, BlockEvent::DepositFinal(tied)).await;
}

/// The window has ended for good.
pub(super) async fn miss(world: &World, order: OrderId) {
    apply_event(world, BlockEvent::Loss(order)).await;
}

pub(super) fn set_price(world: &mut World, dollars: u128) {
    let price = Quoted { price: dollar(dollars), age_secs: 0, max_age_secs: 3_600 };
    world.snapshot(ORIGIN, |snapshot| {
        snapshot.prices.insert(ETH, price);
    });
}

pub(super) fn set_max_age(world: &mut World, max_age: Duration) {
    world.snapshot(ORIGIN, |snapshot| snapshot.max_age = max_age);
}

/// Balance and hold. The audit's own statements find nothing to say.
pub(super) async fn books(world: &World) -> (i64, i64) {
    let read = |tx: &mut Tx<'_>| {
        assert_eq!(ledger::mismatches(tx, 10)?, []);
        assert_eq!(audit::fast_fill_contradictions(tx, 10)?, []);
        Ok::<_, SolverError>(ledger::account(tx, WALLET)?)
    };
    let account = world.store.read(read).await.unwrap();
    (account.balance.0, account.held.0)
}

#[tokio::test]
async fn a_hold_has_a_margin_unless_the_deposit_is_a_stablecoin() {
    let world = world(|_| ()).await;
    decided(&world).await;
    let (quote, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    ask(&world, &quote, None).await.unwrap();
    assert_eq!(books(&world).await, (FUNDS, HELD + 100 * DOLLAR));
}

/// Its hold is worth what the deposit was worth when it was asked for.
#[tokio::test]
async fn a_fast_fill_that_waits_until_its_window_has_ended_is_not_paid() {
    let mut world = world(|_| ()).await;
    let max_age = world.context.on(DESTINATION).unwrap().1.unwrap().max_age;
    world.snapshot(DESTINATION, |snapshot| snapshot.max_age = Duration::ZERO);
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let (answer, paid) = ask(&world, &quote, None).await.unwrap();
    assert_eq!((answer, paid.len()), (Answer::Queued, 0));
    assert_eq!(books(&world).await, (FUNDS, HELD));
    world.snapshot(DESTINATION, |snapshot| snapshot.max_age = max_age);
    world.context.now = NOW.plus(Duration::from_secs(WINDOW_SECS + 1));
    let unit = world.unit(move |tx, context| {
        let due = store::dues::find(tx, &Subject::Fill(order))?.unwrap();
        retry(tx, head(BLOCK + 1), &due, context)
    });
    assert!(unit.await.unwrap().is_empty());
    assert_eq!(books(&world).await, (FUNDS, 0));
    assert_eq!(world.state(quote.id).await, State::Waiting);
}

#[tokio::test]
async fn a_fast_fill_for_more_than_the_quote_brings_is_refused() {
    let world = world(|_| ()).await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    for amount in [2 * ONE_ETHER, ONE_ETHER * 112 / 100] {
        let refused = ask(&world, &quote, Some(amount)).await;
        assert!(matches!(refused, Err(FastFillError::MoreThanQuoted { .. })), "{amount}: {refused:?}");
    }
    assert_eq!(books(&world).await, (FUNDS, 0));
    // The quoted deposit is nine tenths of this, and would end the hold.
    ask(&world, &quote, Some(ONE_ETHER * 110 / 100)).await.unwrap();
}

#[tokio::test]
async fn a_price_that_nobody_knows_is_not_stood_for() {
    let mut world = world(|_| ()).await;
    let (quote, _) = world.quote(ETH, USDC, ONE_ETHER).await;
    set_max_age(&mut world, Duration::ZERO);
    let refused = ask(&world, &quote, None).await;
    assert!(matches!(refused, Err(FastFillError::NotEligible(Ineligible::PriceUnknown))), "{refused:?}");
    // The destination prices the same asset.
    decided(&world).await;
}

#[tokio::test]
async fn a_deposit_within_the_window_ends_the_hold_at_any_price() {
    for (dollars, secs) in [(3_000, 0), (1_000, 60), (9_000, WINDOW_SECS)] {
        let mut world = world(|_| ()).await;
        let order = filled(&world).await;
        set_price(&mut world, dollars);
        land(&world, order, ONE_ETHER, secs).await;
        assert_eq!(books(&world).await, (FUNDS, 0), "{dollars} after {secs}");
        make_final(&world, order).await;
        assert_eq!(books(&world).await, (FUNDS, 0));
    }
}

#[tokio::test]
async fn nothing_is_owed_for_a_fill_that_is_not_mined() {
    let world = world(|_| ()).await;
    let (_, order, fill) = decided(&world).await;
    miss(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS, HELD));
    mine(&world, &fill, true).await;
    remember(&world, WINDOW_SECS, 3_000);
    miss(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS - charge(3_000), 0));
}

#[tokio::test]
async fn a_shortage_is_booked_in_the_commit_that_ends_the_hold() {
    let world = world(|_| ()).await;
    let (_, order, fill) = decided(&world).await;
    land(&world, order, ONE_ETHER * 95 / 100, 0).await;
    assert_eq!(books(&world).await, (FUNDS, HELD), "the fill is not mined: nothing of the hold is free");
    mine(&world, &fill, true).await;
    assert_eq!(books(&world).await, (FUNDS - charge(150), 0));
}

#[tokio::test]
async fn a_surplus_is_credited_as_an_exchange_once_its_deposit_is_final() {
    let world = world(|_| ()).await;
    let order = filled(&world).await;
    land(&world, order, ONE_ETHER * 105 / 100, 0).await;
    assert_eq!(books(&world).await, (FUNDS, HELD), "a reorg may bring back a smaller one");
    make_final(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS + credit(150), 0));
}

#[tokio::test]
async fn a_difference_without_a_price_keeps_the_hold_until_there_is_one() {
    let mut world = world(|_| ()).await;
    let order = filled(&world).await;
    set_max_age(&mut world, Duration::ZERO);
    land(&world, order, ONE_ETHER * 95 / 100, 0).await;
    make_final(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS, HELD));
    set_max_age(&mut world, Duration::from_secs(3_600));
    apply_event(&world, BlockEvent::Unpriced(order)).await;
    assert_eq!(books(&world).await, (FUNDS - charge(150), 0));
}

#[tokio::test]
async fn a_fill_that_turns_out_void_after_its_deposit_costs_nothing() {
    let world = world(|_| ()).await;
    let (quote, order, fill) = decided(&world).await;
    land(&world, order, ONE_ETHER * 95 / 100, 0).await;
    mine(&world, &fill, false).await;
    let id = fill.id;
    world
        .unit(move |tx, context| {
            let row = payments::find(tx, id)?.unwrap();
            finalise(tx, &row, context)
        })
        .await
        .unwrap();
    assert_eq!(world.state(quote.id).await, State::Refunding);
    assert!(world.live(Subject::Refund(order)).await.is_some());
    assert_eq!(books(&world).await, (FUNDS, 0));
}

async fn at_risk(world: &World) -> i64 {
    let read = |tx: &mut Tx<'_>| Ok::<_, SolverError>(risk::used(tx, NOW)?);
    world.store.read(read).await.unwrap().iter().map(|used| used.open.0).sum()
}

#[tokio::test]
async fn a_landed_deposit_counts_against_the_risk_budget_until_it_is_final() {
    let world = world(|_| ()).await;
    let order = filled(&world).await;
    assert_eq!(at_risk(&world).await, 0, "the hold stands for it");
    land(&world, order, ONE_ETHER, 0).await;
    assert_eq!((books(&world).await, at_risk(&world).await), ((FUNDS, 0), 3_000 * DOLLAR));
    make_final(&world, order).await;
    assert_eq!(at_risk(&world).await, 0);
}

#[tokio::test]
async fn a_landed_deposit_beyond_the_risk_budget_keeps_its_hold_until_it_is_final() {
    let open = UsdMicros(2_999 * DOLLAR);
    let world = world(|settings| settings.risk = Limits { open, ..settings.risk }).await;
    let order = filled(&world).await;
    land(&world, order, ONE_ETHER, 0).await;
    assert_eq!((books(&world).await, at_risk(&world).await), ((FUNDS, HELD), 0));
    // A reorg takes the deposit away: the hold still stands for it, and it is owed.
    let row = world.unit(move |tx, _| Ok(deposits::of_order(tx, order)?.unwrap())).await.unwrap();
    world.unit(move |tx, context| orders::deposits::vanish(tx, &row, context)).await.unwrap();
    assert_eq!(books(&world).await, (FUNDS, HELD));
    land(&world, order, ONE_ETHER, 0).await;
    make_final(&world, order).await;
    assert_eq!(books(&world).await, (FUNDS, 0));
}
