//! Credits in USDC for another currency: at the rate of an exchange, or later.

use alloy::primitives::{Address, B256, U256};
use domain::deposit::State as DepositState;
use domain::fees::AppFee;
use domain::ids::OrderId;
use domain::ledger::{Cause, Entry, Hold, HoldId, HoldKind, UsdcMicros};
use domain::money::{Amount, Signed};
use domain::quote::{Quote, QuoteOptions};
use domain::sponsorship::{Component, SponsorAsk, Sponsorship};
use evm::SeenTreasuryTransfer;
use market::Snapshot;
use store::dues::Due;
use store::payments::{PaymentRow, Subject};
use store::treasury_transfers::TreasuryTransferId;
use store::{Tx, deposits, ledger, outcomes, treasury_transfers};

use super::world::*;
use crate::chain::payment_events::{finalise, mined};
use crate::error::SolverError;
use crate::holds::sponsorship::{self, Asked, FillCost};
use crate::integrators::{earnings, funding};
use crate::quoting::quote::row;

const APP: Address = Address::repeat_byte(0x66);
/// Relay fee and spread of an exchange between a major currency and a stable one, in basis points.
const CHARGED_BPS: i64 = 11;
/// A tenth of an ether at 3,000 dollars, less those.
const A_TENTH_OF_AN_ETHER: i64 = 300 * 100 * (10_000 - CHARGED_BPS);

fn age(snapshot: &mut Snapshot) {
    for quoted in snapshot.prices.values_mut() {
        quoted.age_secs = quoted.max_age_secs + 1;
    }
}

/// A stored quote of one ether across chains, a tenth of which is the app's.
async fn quote_with_app_fee(world: &World) -> (Quote, OrderId) {
    let app_fees = vec![AppFee { recipient: APP, bps: 1_000 }];
    let quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions { app_fees, ..QuoteOptions::default() });
    let order = quote.order().unwrap().id();
    world.store.begin_quote(row(&quote, Some(order))).unwrap().durable().await.unwrap();
    (quote, order)
}

async fn fill(world: &World, order: OrderId) -> PaymentRow {
    let fills = world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap();
    fills.into_iter().next().unwrap()
}

/// The fill and its deposit become final.
async fn end(world: &World, order: OrderId, fill: PaymentRow) {
    let (handle, sent, id) = (world.handle(DESTINATION), sent(&fill, true), fill.id);
    world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &sent, context)).await.unwrap();
    let unit = move |tx: &mut Tx<'_>, context: &_| {
        let row = store::payments::find(tx, id)?.unwrap();
        finalise(tx, &row, context)?;
        let stored = deposits::of_order(tx, order)?.unwrap();
        deposits::set_state(tx, stored.id, DepositState::Final)?;
        sponsorship::settle(tx, order, context)
    };
    world.unit(unit).await.unwrap();
}

async fn balance(world: &World, wallet: Address) -> i64 {
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(ledger::account(tx, wallet)?.balance.0);
    world.store.read(read).await.unwrap()
}

/// One look at fills whose app fees are not credited yet. Returns how many there were.
async fn catch_up(world: &World) -> usize {
    let unit = |tx: &mut Tx<'_>, context: &_| {
        let late = outcomes::unpriced_after(tx, store::payments::PaymentId(0), 10)?;
        for booked in &late {
            earnings::credit_late(tx, booked, context)?;
        }
        Ok::<_, SolverError>(late.len())
    };
    world.unit(unit).await.unwrap()
}

#[tokio::test]
async fn app_fees_between_chains_are_no_cheaper_exchange() {
    let world = World::new().await;
    let (_, order) = quote_with_app_fee(&world).await;
    let paid = fill(&world, order).await;
    end(&world, order, paid).await;
    assert_eq!(balance(&world, APP).await, A_TENTH_OF_AN_ETHER);
    assert_eq!(catch_up(&world).await, 0);
}

#[tokio::test]
async fn app_fees_wait_for_prices_and_the_fill_does_not() {
    let mut world = World::new().await;
    let (_, order) = quote_with_app_fee(&world).await;
    world.snapshot(ORIGIN, age);
    let paid = fill(&world, order).await;
    end(&world, order, paid).await;
    assert_eq!((catch_up(&world).await, balance(&world, APP).await), (1, 0), "no price, no credit");
    // The market has fallen meanwhile: the quoted price is nobody's to have.
    world.snapshot(ORIGIN, |snapshot| {
        snapshot.prices.values_mut().for_each(|quoted| quoted.age_secs = 0);
        snapshot.prices.get_mut(&ETH).unwrap().price = dollar(1_500);
    });
    assert_eq!((catch_up(&world).await, balance(&world, APP).await), (1, A_TENTH_OF_AN_ETHER / 2));
    assert_eq!((catch_up(&world).await, balance(&world, APP).await), (0, A_TENTH_OF_AN_ETHER / 2), "and once");
}

#[tokio::test]
async fn native_funding_is_no_cheaper_exchange_and_waits_for_prices() {
    let mut world = World::new().await;
    let seen = SeenTreasuryTransfer {
        tx: B256::repeat_byte(0xf0),
        ordinal: 0,
        log_index: None,
        sender: USER,
        currency: ETH,
        amount: U256::from(ONE_ETHER / 10),
        account: Ok(APP),
    };
    let handle = world.handle(ORIGIN);
    let credit = move |tx: &mut Tx<'_>, context: &_| {
        funding::apply(tx, &handle, head(BLOCK), &seen, context)?;
        for id in treasury_transfers::ripe(tx, ORIGIN, BLOCK, TreasuryTransferId(0), 10)? {
            funding::credit(tx, &handle, id, context)?;
        }
        Ok::<_, SolverError>(())
    };
    world.snapshot(ORIGIN, age);
    world.unit(credit.clone()).await.unwrap();
    assert_eq!(balance(&world, APP).await, 0);
    world.snapshot(ORIGIN, |snapshot| snapshot.prices.values_mut().for_each(|quoted| quoted.age_secs = 0));
    world.unit(credit.clone()).await.unwrap();
    world.unit(credit).await.unwrap();
    assert_eq!(balance(&world, APP).await, A_TENTH_OF_AN_ETHER);
}

#[tokio::test]
async fn a_sponsored_fill_waits_for_prices_instead_of_taking_the_quoted_ones() {
    let mut world = World::new().await;
    let mut quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions::default());
    let ask = SponsorAsk::new(APP, Component::DEFAULT.to_vec(), None);
    let mut totals = [Signed::ZERO; 5];
    totals[0] = Signed::cost(quote.figures.fees.execution().unwrap());
    quote.figures.sponsorship = Some(Sponsorship::allocate(&ask, totals, dollar(3_000), 18).unwrap());
    let order = quote.order().unwrap().id();
    let cost =
        FillCost { amount: quote.figures.paid, market: None, gas: units(1_000_000_000_000), sweep: Some(Amount::ZERO) };
    let reserve = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
        let due = Due {
            subject: Subject::Fill(order),
            request: Some(quote.id),
            chain: DESTINATION,
            currency: ETH,
            recipient: RECIPIENT,
            amount: cost.amount,
            since: NOW,
        };
        let (handle, there) = context.on(DESTINATION).unwrap();
        sponsorship::reserve(tx, &quote, &due, &cost, (handle, there.unwrap()), context)
    };
    // Its balance is empty, which is found out only once the costs are known.
    assert!(matches!(world.unit(reserve.clone()).await.unwrap(), Asked::TooLow));
    world.snapshot(ORIGIN, age);
    assert!(matches!(world.unit(reserve).await.unwrap(), Asked::Unknown));
}

/// Fees stay with us and may come out of what a fast fill counts on. Gas currency for the recipient leaves us.
#[tokio::test]
async fn a_sponsor_delivers_nothing_out_of_what_a_fast_fill_counts_on() {
    const FUNDS: UsdcMicros = UsdcMicros(100_000_000);
    for (top_up, held, covered) in [(true, true, false), (false, true, true), (true, false, true)] {
        let world = World::new().await;
        let mut quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions::default());
        if top_up {
            quote.figures.fees.top_up = units(ONE_ETHER / 1_000);
        }
        let ask = SponsorAsk::new(APP, Component::DEFAULT.to_vec(), None);
        let mut totals = [Signed::ZERO; 5];
        totals[0] = Signed::cost(quote.figures.fees.execution().unwrap());
        quote.figures.sponsorship = Some(Sponsorship::allocate(&ask, totals, dollar(3_000), 18).unwrap());
        let order = quote.order().unwrap().id();
        let cost = FillCost {
            amount: quote.figures.paid,
            market: None,
            gas: units(1_000_000_000_000),
            sweep: Some(Amount::ZERO),
        };
        let asked = world.unit(move |tx, context| {
            let funds = Entry::new(Cause::Funding { transfer: 1 }, APP, FUNDS, None).unwrap();
            ledger::post(tx, &funds, context.now)?;
            if held {
                let id = HoldId::first(HoldKind::FastFill, B256::repeat_byte(9));
                ledger::open_hold(tx, &Hold { id, wallet: APP, amount: FUNDS, request: None }, context.now)?;
            }
            let due = Due {
                subject: Subject::Fill(order),
                request: Some(quote.id),
                chain: DESTINATION,
                currency: ETH,
                recipient: RECIPIENT,
                amount: cost.amount,
                since: NOW,
            };
            let (handle, there) = context.on(DESTINATION).unwrap();
            sponsorship::reserve(tx, &quote, &due, &cost, (handle, there.unwrap()), context)
        });
        let asked = asked.await.unwrap();
        assert_eq!(matches!(asked, Asked::Reserved(_)), covered, "top-up {top_up}, held {held}: {asked:?}");
    }
}

/// The sweep that brings the deposit of an address is gas like the fill's: a sponsor of gas pays for both.
#[tokio::test]
async fn a_sponsor_of_gas_pays_for_the_sweep_of_an_address() {
    const FUNDS: UsdcMicros = UsdcMicros(100_000_000);
    // A thousandth of an ether is three dollars. What is not known keeps the fill waiting.
    let sweeps = [Some(Amount::ZERO), Some(units(ONE_ETHER / 1_000)), None];
    let mut charged = Vec::new();
    for sweep in sweeps {
        let world = World::new().await;
        let mut quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions::default());
        let ask = SponsorAsk::new(APP, Component::DEFAULT.to_vec(), None);
        let mut totals = [Signed::ZERO; 5];
        totals[0] = Signed::cost(quote.figures.fees.execution().unwrap());
        quote.figures.sponsorship = Some(Sponsorship::allocate(&ask, totals, dollar(3_000), 18).unwrap());
        let order = quote.order().unwrap().id();
        let cost = FillCost { amount: quote.figures.paid, market: None, gas: units(1_000_000_000_000), sweep };
        let asked = world.unit(move |tx, context| {
            let funds = Entry::new(Cause::Funding { transfer: 1 }, APP, FUNDS, None).unwrap();
            ledger::post(tx, &funds, context.now)?;
            let due = Due {
                subject: Subject::Fill(order),
                request: Some(quote.id),
                chain: DESTINATION,
                currency: ETH,
                recipient: RECIPIENT,
                amount: cost.amount,
                since: NOW,
            };
            let (handle, there) = context.on(DESTINATION).unwrap();
            sponsorship::reserve(tx, &quote, &due, &cost, (handle, there.unwrap()), context)
        });
        charged.push(match asked.await.unwrap() {
            Asked::Reserved(outcome) => outcome.unwrap().sponsored.map(|it| it.payment.0),
            Asked::Unknown => None,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(charged[1].unwrap() - charged[0].unwrap(), 3_000_000);
    assert_eq!(charged[2], None);
}
