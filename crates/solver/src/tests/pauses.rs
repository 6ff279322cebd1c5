//! Pauses of chains: nothing begins there, and everything else goes on.

use domain::request::State;
use store::chain_pauses::{self, Decision};
use store::dues;
use store::payments::Subject;

use super::decide::{decide, fill, paid, refund, waits};
use super::world::*;
use crate::chain::payment_events::expire_halted;
use crate::operator::pauses;
use crate::payments::Reason;

const WHY: &str = "paused by alice: maintenance";

fn by_alice() -> Decision {
    Decision { at: NOW, by: "alice".to_owned(), reason: "maintenance".to_owned() }
}

#[tokio::test]
async fn a_paused_chain_is_given_no_payment_and_holds_up_no_other() {
    let world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let there = world.handle(DESTINATION);
    there.health.pause(Some(WHY.to_owned()));
    assert_eq!(there.refusing().as_deref().map(String::as_str), Some(WHY), "nothing is promised there either");
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::Paused(WHY.to_owned())));
    // Its payments are known, so that the deposit may go back on its own chain.
    paid(decide(&world, refund(&quote, ONE_ETHER), &quote).await);
    there.health.pause(None);
    let (other, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    // A pause of the origin holds up refunds there, and no fill elsewhere.
    world.handle(ORIGIN).health.pause(Some(WHY.to_owned()));
    assert!(waits(&decide(&world, refund(&other, ONE_ETHER), &other).await, &Reason::Paused(WHY.to_owned())));
    paid(decide(&world, fill(&other), &other).await);
}

#[tokio::test]
async fn a_fill_that_waits_for_a_paused_chain_is_refunded_once_its_time_is_over() {
    let world = World::new().await;
    world.handle(DESTINATION).health.pause(Some(WHY.to_owned()));
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    assert!(world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().is_empty());
    let deadline = u64::from(quote.terms.as_ref().unwrap().deadline);
    for (time, state) in [(head(BLOCK).time, State::Pending), (deadline, State::Refunding)] {
        let at = evm::Head { time, ..head(BLOCK + 1) };
        let swept = world.unit(move |tx, context| {
            let waiting = dues::fills_from(tx, ORIGIN, DESTINATION, 10)?;
            expire_halted(tx, at, &waiting[0], context)
        });
        let paid: Vec<_> = swept.await.unwrap().iter().map(|row| row.payment.subject).collect();
        assert_eq!(world.state(quote.id).await, state);
        assert_eq!(paid.contains(&Subject::Refund(order)), state == State::Refunding);
    }
}

#[tokio::test]
async fn a_process_learns_of_a_pause_and_of_its_end_from_the_database() {
    let world = World::new().await;
    let solver = world.solver(|| NOW);
    let handle = world.handle(DESTINATION);
    let set = |paused: bool| {
        let unit = move |tx: &mut store::Tx<'_>| match paused {
            true => chain_pauses::pause(tx, DESTINATION, &by_alice()),
            false => chain_pauses::resume(tx, DESTINATION, &by_alice()),
        };
        world.store.write(unit)
    };
    assert!(set(true).await.unwrap());
    assert_eq!(handle.health.paused(), None, "nobody has looked yet");
    pauses::look(&solver).await.unwrap();
    assert_eq!(handle.health.paused().as_deref().map(String::as_str), Some(WHY));
    assert_eq!(world.handle(ORIGIN).health.paused(), None);
    // A worker that begins anew keeps it.
    handle.begin(NOW);
    handle.health.refuse(None);
    assert!(handle.refusing().is_some());
    assert!(set(false).await.unwrap());
    pauses::look(&solver).await.unwrap();
    assert_eq!(handle.refusing(), None);
}
