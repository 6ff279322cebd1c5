//! Cases of deposit addresses that were forgotten because nobody had paid at them.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::deposit_address::{Derivation, Kind};
use domain::fail::FailReason;
use domain::request::State;
use evm::{SeenDeposit, SeenTransfer};
use store::arrivals::{self, Place};
use store::blocks::{self, Cursor};
use store::{deposit_addresses, deposits, requests};

use super::deposit_addresses::{QUOTED, REFUND_TO, arrives_from, deposited, given, waiting};
use super::world::*;
use crate::context::PayContext;
use crate::deposit_addresses::balances::note_balance;
use crate::deposit_addresses::prune;
use crate::deposit_addresses::sweep::{Decided, Purpose, sweep};
use crate::deposit_addresses::transfers::put_all;
use crate::env::Screening;
use crate::orders;
use crate::orders::refunds::return_to_depositor;

const AT: Cursor = Cursor { number: BLOCK, hash: alloy::primitives::B256::repeat_byte(0x0b) };

/// Somebody has paid on another chain than the address was given out for, and asks for a search when it is forgotten.
#[tokio::test]
async fn money_at_a_forgotten_address_is_swept_by_the_key_that_was_kept() {
    let world = World::new().await;
    let (quote, given) = given(&world, Kind::Open, Some(REFUND_TO)).await;
    let old = given.clone();
    assert!(world.unit(move |tx, _| Ok(deposit_addresses::forget(tx, &old, NOW)?)).await.unwrap());
    let (address, id) = (given.address, quote.id);
    let read = move |tx: &mut store::Tx<'_>| {
        let known = (deposit_addresses::find(tx, address)?, requests::find(tx, id)?.is_some());
        Ok::<_, store::StoreError>((known, deposit_addresses::forgotten(tx, address)?))
    };
    let (known, kept) = world.store.read(read).await.unwrap();
    assert_eq!((known, &kept), ((None, false), &Some(given.clone())));
    let (kept, handle) = (kept.unwrap(), world.handle(DESTINATION));
    for is_new in [true, false] {
        let (kept, handle) = (kept.clone(), handle.clone());
        let unit = move |tx: &mut store::Tx<'_>, context: &PayContext| {
            note_balance(tx, &handle, AT, &kept, USDC, U256::from(QUOTED), context)
        };
        assert_eq!(world.unit(unit).await.unwrap(), is_new);
    }
    assert_eq!(world.state(quote.id).await, State::Waiting, "its request is there again");
    let place = Place { address, currency: USDC };
    let waiting = move |tx: &mut store::Tx<'_>| arrivals::waiting_at(tx, DESTINATION, address, USDC);
    assert_eq!(world.store.read(waiting).await.unwrap().len(), 1);
    let purpose = Purpose::Back(FailReason::NoQuotes);
    let decided = Decided { place, amount: units(QUOTED), purpose, depositor: REFUND_TO };
    let paid = world.unit(move |tx, context| sweep(tx, &handle, &kept, &decided, context)).await.unwrap().unwrap();
    let call = evm::contracts::DepositAddressFactory::sweepOpenCall::abi_decode(&paid.payment.data).unwrap();
    assert!(matches!(given.derivation, Derivation::Open(route) if route.0 == call.routeKey));
    assert_eq!((paid.payment.chain, call.depositor), (DESTINATION, REFUND_TO));
}

/// Somebody pays at a strict address that was forgotten, and sweeps it in the same block: its request is there again,
/// and the sender is a party of the refund like the deposit's own.
#[tokio::test]
async fn a_blocked_sender_is_found_behind_the_sweep_of_a_forgotten_address() {
    const BLOCKED: Address = Address::repeat_byte(0xb1);
    for (sender, back) in [(BLOCKED, None), (STRANGER, Some(REFUND_TO))] {
        let mut world = World::new().await;
        world.context.screening = Arc::new(Screening { blocked: [BLOCKED].into(), custodial: BTreeSet::new() });
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        let old = given.clone();
        assert!(world.unit(move |tx, _| Ok(deposit_addresses::forget(tx, &old, NOW)?)).await.unwrap());
        let units = QUOTED / 2;
        let seen = SeenDeposit { sender: STRANGER, ..deposited(&given, given.order, units, REFUND_TO) };
        let (handle, copy) = (world.handle(ORIGIN), seen.clone());
        let apply = move |tx: &mut store::Tx<'_>, context: &PayContext| {
            orders::deposits::apply(tx, &handle, head(BLOCK + 1), &copy, context)
        };
        assert!(world.unit(apply).await.unwrap().is_empty());
        assert_eq!(world.state(quote.id).await, State::Waiting, "it is there again, and nobody knows yet who paid");
        arrives_from(&world, &given, units, (sender, 1, BLOCK + 1)).await;
        let (handle, order) = (world.handle(ORIGIN), given.order);
        let confirm = move |tx: &mut store::Tx<'_>, context: &PayContext| {
            deposit_addresses::set_cursor(tx, ORIGIN, Cursor { number: BLOCK + 1, hash: head(BLOCK + 1).hash })?;
            let stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            let mut request = requests::lock_order(tx, order)?;
            orders::deposits::confirm(tx, &stored, request.as_mut(), context)?;
            let mut stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            stored.state = domain::deposit::State::Final;
            return_to_depositor(tx, &handle, &stored, context)
        };
        let returned = world.unit(confirm).await.unwrap().pop();
        assert_eq!(returned.map(|returned| returned.payment.recipient), back);
    }
}

/// Somebody pays at a strict address that was forgotten, and sweeps it two blocks later, when the block of the payment
/// has been searched: the payment was kept then, and its sender is a party of the refund.
#[tokio::test]
async fn a_payment_at_a_forgotten_address_is_found_in_its_block() {
    const BLOCKED: Address = Address::repeat_byte(0xb1);
    let searched = |block| Cursor { number: block, hash: head(block).hash };
    for (sender, back) in [(BLOCKED, None), (STRANGER, Some(REFUND_TO))] {
        let mut world = World::new().await;
        world.context.screening = Arc::new(Screening { blocked: [BLOCKED].into(), custodial: BTreeSet::new() });
        let (quote, given) = given(&world, Kind::Strict, Some(REFUND_TO)).await;
        let old = given.clone();
        assert!(world.unit(move |tx, _| Ok(deposit_addresses::forget(tx, &old, NOW)?)).await.unwrap());
        let units = QUOTED / 2;
        let transfer = SeenTransfer {
            tx: B256::repeat_byte(0xa1),
            log_index: Some(3),
            currency: USDC,
            from: sender,
            direct: true,
            to: given.address,
            amount: U256::from(units),
        };
        let handle = world.handle(ORIGIN);
        let search = move |tx: &mut store::Tx<'_>, context: &PayContext| {
            let found = deposit_addresses::among(tx, ORIGIN, &[transfer.to])?;
            let found: Vec<_> = found.into_iter().map(|given| (given, transfer)).collect();
            deposit_addresses::set_cursor(tx, ORIGIN, searched(BLOCK + 3))?;
            put_all(tx, &handle, searched(BLOCK + 1), &found, context)
        };
        world.unit(search).await.unwrap();
        assert_eq!((world.state(quote.id).await, waiting(&world, &given).await), (State::Waiting, 1));
        let seen = SeenDeposit { sender: STRANGER, ..deposited(&given, given.order, units, REFUND_TO) };
        let handle = world.handle(ORIGIN);
        let returned = move |tx: &mut store::Tx<'_>, context: &PayContext| {
            orders::deposits::apply(tx, &handle, head(BLOCK + 3), &seen, context)?;
            let mut stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            stored.state = domain::deposit::State::Final;
            return_to_depositor(tx, &handle, &stored, context)
        };
        let returned = world.unit(returned).await.unwrap().pop();
        assert_eq!(returned.map(|returned| returned.payment.recipient), back);
    }
}

#[tokio::test]
async fn an_address_is_looked_at_on_every_chain_of_its_factory_before_it_is_forgotten() {
    let world = World::new().await;
    let (solver, handle) = (world.solver(|| NOW), world.handle(ORIGIN));
    assert!(prune::elsewhere(&solver, &handle).await.unwrap().is_empty(), "no block of the other chain is known");
    world.unit(|tx, context| Ok(blocks::advance(tx, DESTINATION, AT, context.now, 100)?)).await.unwrap();
    let others = prune::elsewhere(&solver, &handle).await.unwrap();
    assert_eq!(others.iter().map(|(other, at)| (other.id(), *at)).collect::<Vec<_>>(), [(DESTINATION, AT)]);
}
