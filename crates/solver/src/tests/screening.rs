//! Cases of a list that grows after the quote: the commit that pays asks it again.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use domain::deposit::State as DepositState;
use domain::fail::FailReason;
use domain::ids::OrderId;
use domain::quote::{Quote, QuoteOptions};
use domain::request::State;
use domain::subject::DepositKey;
use evm::SeenDeposit;
use store::deposits::ReturnDue;
use store::dues::Due;
use store::payments::{PaymentRow, Subject};
use store::{Tx, deposits, dues, requests};

use super::world::*;
use crate::chain::payment_events::retry;
use crate::env::Screening;
use crate::error::SolverError;
use crate::orders::refunds::return_to_depositor;
use crate::payments::{Outcome, Reason, pay};
use crate::quoting::quote::row;

const PAYER: Address = Address::repeat_byte(0x41);
const SENDER: Address = Address::repeat_byte(0x42);
const DEPOSITOR: Address = Address::repeat_byte(0x43);
const REFUND_TO: Address = Address::repeat_byte(0x44);
const PARTIES: [(&str, Address); 6] = [
    ("payer", PAYER),
    ("sender", SENDER),
    ("depositor", DEPOSITOR),
    ("user", USER),
    ("recipient", RECIPIENT),
    ("refundTo", REFUND_TO),
];

fn list(world: &mut World, blocked: &[Address]) {
    let blocked = blocked.iter().copied().collect();
    world.context.screening = Arc::new(Screening { blocked, custodial: BTreeSet::new() });
}

/// A transfer between six different wallets whose deposit has come and whose fill waits for the market.
async fn waiting_for_its_fill(world: &mut World) -> (Quote, OrderId) {
    let mut quote = quote(ETH, ETH, ONE_ETHER, QuoteOptions::default());
    quote.ask.refund_to = Some(REFUND_TO.into());
    let order = quote.order().unwrap().id();
    world.store.begin_quote(row(&quote, Some(order))).unwrap().durable().await.unwrap();
    let market = world.context.chains.get_mut(&DESTINATION).unwrap().1.take();
    let seen = SeenDeposit { payer: PAYER, sender: SENDER, depositor: DEPOSITOR, ..deposit(order, ETH, ONE_ETHER) };
    assert!(world.deposit(seen).await.unwrap().is_empty());
    world.context.chains.get_mut(&DESTINATION).unwrap().1 = market;
    (quote, order)
}

async fn due(world: &World, subject: Subject) -> Option<Due> {
    let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(dues::find(tx, &subject)?);
    world.store.read(read).await.unwrap()
}

async fn try_again(world: &World, subject: Subject) -> Vec<PaymentRow> {
    let due = due(world, subject).await.unwrap();
    world.unit(move |tx, context| retry(tx, head(BLOCK + 1), &due, context)).await.unwrap()
}

#[tokio::test]
async fn a_wallet_that_is_blocked_after_the_quote_is_neither_paid_nor_refunded() {
    for (party, who) in PARTIES {
        let mut world = World::new().await;
        let (quote, order) = waiting_for_its_fill(&mut world).await;
        list(&mut world, &[who]);
        assert!(try_again(&world, Subject::Fill(order)).await.is_empty(), "{party}");
        let id = quote.id;
        let read = move |tx: &mut Tx<'_>| Ok::<_, SolverError>(requests::find(tx, id)?.unwrap());
        let request = world.store.read(read).await.unwrap();
        assert_eq!(
            (request.state, request.fail_reason),
            (State::Refunding, Some(FailReason::BlockedWallet)),
            "{party}"
        );
        assert!(world.live(Subject::Fill(order)).await.is_none(), "{party}");
        for _ in 0..2 {
            assert!(try_again(&world, Subject::Refund(order)).await.is_empty(), "{party}");
            assert!(world.live(Subject::Refund(order)).await.is_none(), "{party}");
        }
        // A person has looked, and the list no longer names them: the deposit goes back.
        list(&mut world, &[]);
        assert_eq!(try_again(&world, Subject::Refund(order)).await[0].payment.recipient, REFUND_TO, "{party}");
    }
}

#[tokio::test]
async fn a_list_that_names_nobody_of_them_stops_nothing() {
    let mut world = World::new().await;
    let (_, order) = waiting_for_its_fill(&mut world).await;
    list(&mut world, &[STRANGER]);
    assert_eq!(try_again(&world, Subject::Fill(order)).await[0].payment.recipient, RECIPIENT);
}

#[tokio::test]
async fn the_excess_of_a_deposit_is_not_sent_to_or_from_a_blocked_wallet() {
    for (party, who) in PARTIES {
        let mut world = World::new().await;
        let (quote, _) = waiting_for_its_fill(&mut world).await;
        list(&mut world, &[who]);
        let excess = Due {
            subject: Subject::Excess(DepositKey(B256::repeat_byte(0xe0))),
            request: Some(quote.id),
            chain: ORIGIN,
            currency: ETH,
            recipient: REFUND_TO,
            amount: units(ONE_ETHER / 10),
            since: NOW,
        };
        let outcome = world.unit(move |tx, context| pay(tx, &excess, Some(&quote), context)).await.unwrap();
        assert!(matches!(outcome, Outcome::NotNow(Reason::Blocked)), "{party}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_deposit_of_no_order_is_not_returned_to_or_from_a_blocked_wallet() {
    for (party, who) in &PARTIES[..3] {
        let mut world = World::new().await;
        let unknown = OrderId(B256::repeat_byte(0x99));
        let seen =
            SeenDeposit { payer: PAYER, sender: SENDER, depositor: DEPOSITOR, ..deposit(unknown, ETH, ONE_ETHER) };
        world.deposit(seen.clone()).await.unwrap();
        list(&mut world, &[*who]);
        let handle = world.handle(ORIGIN);
        let give_back = move |tx: &mut Tx<'_>, context: &crate::context::PayContext| {
            let mut stored = deposits::find(tx, ORIGIN, seen.tx, seen.ordinal)?.unwrap();
            stored.state = DepositState::Final;
            deposits::set_return_due(tx, stored.id, ReturnDue::Yes)?;
            return_to_depositor(tx, &handle, &stored, context)
        };
        assert!(world.unit(give_back.clone()).await.unwrap().is_empty(), "{party}");
        list(&mut world, &[]);
        assert_eq!(world.unit(give_back).await.unwrap()[0].payment.recipient, DEPOSITOR, "{party}");
    }
}
