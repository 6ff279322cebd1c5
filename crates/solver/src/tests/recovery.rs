//! The recovery address of a deposit address without `refundTo`: nothing goes there by itself, and what a person sends
//! does.

use alloy::primitives::Address;
use domain::deposit_address::{AddressAsk, Kind};
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::quote::Quote;
use domain::request::{Event, State};
use store::payments::Subject;
use store::{Tx, dues, requests};

use super::deposit_addresses::{QUOTED, arrives, deposited, for_order, given_for, swept};
use super::world::*;
use crate::chain::payment_events::retry;
use crate::context::PayContext;
use crate::operator::manual_refund::{Decision, NotRefunded, refund};
use crate::orders::advance::advance;

const RECOVERY: Address = Address::repeat_byte(0x66);

/// An order that waits for its fill, with a deposit that names this account.
async fn waits(world: &mut World, recovery: Option<Address>, depositor: Address) -> (Quote, OrderId) {
    world.snapshot(DESTINATION, |snapshot| snapshot.tokens.get_mut(&USDC).unwrap().treasury = units(0));
    let (quote, given) = given_for(world, AddressAsk { kind: Kind::Open, recovery }, None).await;
    arrives(world, &given, QUOTED, 1).await;
    swept(world, &given, for_order(QUOTED), depositor).await.unwrap();
    world.deposit(deposited(&given, given.order, QUOTED, depositor)).await.unwrap();
    assert_eq!(world.state(quote.id).await, State::Pending);
    (quote, given.order)
}

async fn by_hand(world: &World, quote: &Quote) -> Result<State, NotRefunded> {
    let decision = Decision { by: "a person".to_owned(), reason: "it cannot be filled".to_owned() };
    refund(&world.solver(|| NOW), quote.id, decision).await.unwrap()
}

/// The account that the worker pays when it finds the refund due.
async fn paid_to(world: &World, order: OrderId) -> Option<Address> {
    let due = world.store.read(move |tx| dues::find(tx, &Subject::Refund(order))).await.unwrap()?;
    let paid = world.unit(move |tx, context| retry(tx, head(BLOCK + 1), &due, context)).await.unwrap();
    paid.first().map(|paid| paid.payment.recipient)
}

#[tokio::test]
async fn a_person_sends_the_deposit_of_a_failed_order_to_its_recovery_address() {
    for (recovery, depositor, back) in [
        (Some(RECOVERY), RECOVERY, Some(RECOVERY)),
        // Somebody else's deposit under the order, and one of an address without a recovery address.
        (Some(RECOVERY), STRANGER, None),
        (None, STRANGER, None),
        (Some(TREASURY), TREASURY, None),
    ] {
        let mut world = World::new().await;
        let (quote, order) = waits(&mut world, recovery, depositor).await;
        let fails = move |tx: &mut Tx<'_>, context: &PayContext| {
            let mut request = requests::lock_order(tx, order)?.unwrap();
            let event = Event::CannotFill { reason: FailReason::SolverBalanceTooLow };
            advance(tx, &mut request, event, &(), context)
        };
        assert!(world.unit(fails).await.unwrap().is_empty(), "nothing goes there by itself");
        assert_eq!(world.state(quote.id).await, State::Failed);
        let decided = by_hand(&world, &quote).await;
        assert_eq!(decided.ok().filter(|state| *state == State::Refunding), back.map(|_| State::Refunding));
        assert_eq!(paid_to(&world, order).await, back);
    }
}

#[tokio::test]
async fn a_person_sends_a_deposit_that_waits_for_its_fill_to_its_recovery_address() {
    let mut world = World::new().await;
    let (quote, order) = waits(&mut world, Some(RECOVERY), RECOVERY).await;
    assert_eq!(by_hand(&world, &quote).await, Ok(State::Refunding));
    assert_eq!(paid_to(&world, order).await, Some(RECOVERY));
    assert!(by_hand(&world, &quote).await.is_err(), "once");
}
