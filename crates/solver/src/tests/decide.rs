//! Cases of the decision to pay: every reason to wait, to refuse, and to pay.

use domain::fail::{FailReason, RefundFailReason};
use domain::money::UsdMicros;
use domain::payment::State as PaymentState;
use domain::quote::Quote;
use domain::revert::Revert;
use domain::subject::DepositKey;
use store::dues::Due;
use store::payments::{PaymentRow, Subject};
use store::refused_recipients::{self, Recipient};
use store::risk::Limits;
use store::{Tx, lanes, payments, settlements};

use super::world::*;
use crate::context::PayContext;
use crate::context::refused_recipients::REFUSED_FOR;
use crate::error::SolverError;
use crate::handle::trials::Verdict;
use crate::handle::{CHECK_TIMEOUT_MILLIS, Settings};
use crate::payments::send::give_up_ending;
use crate::payments::{Outcome, Reason, pay};

/// The fill of a quote, as it is due.
pub(super) fn fill(quote: &Quote) -> Due {
    let terms = quote.terms.as_ref().unwrap();
    Due {
        subject: Subject::Fill(quote.order().unwrap().id()),
        request: Some(quote.id),
        chain: terms.payout.chain,
        currency: terms.payout.address.packed().unwrap(),
        recipient: RECIPIENT,
        amount: quote.figures.paid,
        since: NOW,
    }
}

pub(super) fn refund(quote: &Quote, amount: u128) -> Due {
    let terms = quote.terms.as_ref().unwrap();
    Due {
        subject: Subject::Refund(quote.order().unwrap().id()),
        chain: terms.deposit.chain,
        currency: terms.deposit.address.packed().unwrap(),
        recipient: USER,
        amount: units(amount),
        ..fill(quote)
    }
}

pub(super) async fn decide(world: &World, due: Due, quote: &Quote) -> Outcome {
    let quote = quote.clone();
    world.unit(move |tx, context| pay(tx, &due, Some(&quote), context)).await.unwrap()
}

pub(super) fn paid(outcome: Outcome) -> PaymentRow {
    match outcome {
        Outcome::Paid(row) => *row,
        other => panic!("not paid: {other:?}"),
    }
}

pub(super) fn waits(outcome: &Outcome, reason: &Reason) -> bool {
    matches!(outcome, Outcome::NotNow(given) if given == reason)
}

/// Makes a payment of a unit void, as a final block would.
fn void(tx: &mut Tx<'_>, row: &PaymentRow, context: &PayContext) -> Result<(), SolverError> {
    payments::set_state(tx, row.id, PaymentState::Void, context.now)?;
    Ok(settlements::free(tx, row.payment.order(), row.id)?)
}

#[tokio::test]
async fn a_fill_takes_the_next_nonce_and_the_settlement_of_its_order() {
    let world = World::new().await;
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let row = paid(decide(&world, fill(&quote), &quote).await);
    let payment = &row.payment;
    assert_eq!((payment.wallet, payment.nonce, payment.chain), (FILLER, 0, DESTINATION));
    assert_eq!((payment.target, payment.value, payment.amount), (RECIPIENT, quote.figures.paid, quote.figures.paid));
    assert!(payment.data.ends_with(order.as_slice()), "the calldata ends with the order's id");
    let outcome = decide(&world, fill(&quote), &quote).await;
    assert!(matches!(outcome, Outcome::Settled), "{outcome:?}");
    let outcome = decide(&world, refund(&quote, ONE_ETHER), &quote).await;
    assert!(matches!(outcome, Outcome::Settled), "a filled order is not refunded: {outcome:?}");
    let (other, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    let row = paid(decide(&world, fill(&other), &other).await);
    assert_eq!((row.payment.nonce, row.payment.target, row.payment.currency), (1, USDC, USDC));
}

#[tokio::test]
async fn a_payment_waits_for_its_chain() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, Reason); 6] = [
        (
            "the chain refuses payments",
            |world| world.handle(DESTINATION).health.refuse(Some("stopped".to_owned())),
            Reason::Refusing("stopped".to_owned()),
        ),
        (
            "the order's other chain does",
            |world| world.handle(ORIGIN).health.refuse(Some("stopped".to_owned())),
            Reason::Refusing("stopped".to_owned()),
        ),
        ("another process is the worker", |world| world.context.pays = false, Reason::Elsewhere),
        ("this process only looks", |world| world.context.sends = false, Reason::Elsewhere),
        ("no snapshot", |world| world.context.chains.get_mut(&DESTINATION).unwrap().1 = None, Reason::NoMarket),
        (
            "gas above the cap",
            |world| world.snapshot(DESTINATION, |snapshot| snapshot.base_fee = 100_000_000_000),
            Reason::FeesTooHigh,
        ),
    ];
    for (name, change, reason) in cases {
        let mut world = World::new().await;
        let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
        change(&mut world);
        let outcome = decide(&world, fill(&quote), &quote).await;
        assert!(waits(&outcome, &reason), "{name}: {outcome:?}");
        assert!(world.live(fill(&quote).subject).await.is_none(), "{name}: nothing is paid");
    }
}

#[tokio::test]
async fn a_payment_waits_for_a_lane_and_for_funds() {
    let mut world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    world.unit(|tx, _| Ok(lanes::quarantine(tx, DESTINATION, FILLER, Some("foreign"))?)).await.unwrap();
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::LanesFull));
    world.unit(|tx, _| Ok(lanes::quarantine(tx, DESTINATION, FILLER, None)?)).await.unwrap();
    world.snapshot(DESTINATION, |snapshot| snapshot.native.clear());
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::Inventory));
    world.snapshot(DESTINATION, |snapshot| _ = snapshot.native.insert(FILLER, units(50 * ONE_ETHER)));
    // Four payments fill the window; the fifth waits.
    for _ in 0..4 {
        let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
        paid(decide(&world, fill(&quote), &quote).await);
    }
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::LanesFull));
}

#[tokio::test]
async fn a_return_leaves_half_of_every_lane_to_fills() {
    let world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let returned = |n: u8| Due {
        subject: Subject::Return { row: n.into(), key: DepositKey(alloy::primitives::B256::repeat_byte(n)) },
        request: None,
        ..refund(&quote, ONE_ETHER / 10)
    };
    let mut outcomes = Vec::new();
    for n in 1..=3 {
        let due = returned(n);
        outcomes.push(world.unit(move |tx, context| pay(tx, &due, None, context)).await.unwrap());
    }
    assert!(matches!(outcomes[..2], [Outcome::Paid(_), Outcome::Paid(_)]), "{outcomes:?}");
    assert!(waits(&outcomes[2], &Reason::LanesFull), "{outcomes:?}");
    paid(decide(&world, refund(&quote, ONE_ETHER), &quote).await);
}

#[tokio::test]
async fn a_return_is_never_more_than_a_tenth_of_our_funds() {
    let world = World::new().await;
    let (quote, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    for (usdc, fits) in [(90_000, true), (110_000, false)] {
        let key = DepositKey(alloy::primitives::B256::repeat_byte(u8::from(fits)));
        let subject = Subject::Return { row: i64::from(fits), key };
        let due = Due { subject, amount: units(usdc * ONE_USDC), ..refund(&quote, 0) };
        let outcome = world.unit(move |tx, context| pay(tx, &due, None, context)).await.unwrap();
        assert_eq!(matches!(outcome, Outcome::Paid(_)), fits, "{usdc}: {outcome:?}");
        assert_eq!(waits(&outcome, &Reason::TooLarge), !fits, "{usdc}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_refund_pays_for_its_own_gas() {
    let world = World::new().await;
    let (quote, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    let row = paid(decide(&world, refund(&quote, 100 * ONE_USDC), &quote).await);
    let cost = units(100 * ONE_USDC).checked_sub(row.payment.amount).unwrap();
    // 60,000 units at twice the base fee and the tip, at 3,000 dollars: some cents, and never more than a dollar.
    assert!(cost > units(0) && cost < units(ONE_USDC), "{cost}");
    let (small, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    let outcome = decide(&world, refund(&small, 1), &small).await;
    assert!(
        matches!(outcome, Outcome::Worthless(RefundFailReason::AmountTooLowToRefund)),
        "a refund that costs more than it returns: {outcome:?}"
    );
}

#[tokio::test]
async fn a_large_refund_is_left_to_the_depository_where_that_pays_it() {
    let capped = |settings: &mut Settings| {
        settings.most_refund = UsdMicros(50_000_000);
        settings.depository_caps = [(USDC, units(1_000 * ONE_USDC))].into();
    };
    let world = World::with(capped).await;
    let (quote, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    assert!(waits(&decide(&world, refund(&quote, 100 * ONE_USDC), &quote).await, &Reason::TooLarge));
    // The depository pays no excess: it would wait for ever.
    let excess = Due {
        subject: Subject::Excess(DepositKey(alloy::primitives::B256::repeat_byte(0xe0))),
        ..refund(&quote, 100 * ONE_USDC)
    };
    paid(decide(&world, excess, &quote).await);
    let world = World::with(|settings| settings.most_refund = UsdMicros(50_000_000)).await;
    let (quote, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    paid(decide(&world, refund(&quote, 100 * ONE_USDC), &quote).await);
}

#[tokio::test]
async fn a_payment_against_a_deposit_that_is_not_final_counts_against_the_risk_budget() {
    let tight = |settings: &mut Settings| {
        settings.risk = Limits { open: UsdMicros(100_000_000), per_minute: UsdMicros(i64::MAX) };
    };
    let world = World::with(tight).await;
    let (quote, order) = world.quote(USDC, USDC, 150 * ONE_USDC).await;
    let fills = world.deposit(deposit(order, USDC, 150 * ONE_USDC)).await.unwrap();
    assert!(fills.is_empty(), "the budget holds it up");
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::OverBudget));
}

#[tokio::test]
async fn an_exchange_is_priced_again_and_never_at_a_price_that_has_passed() {
    let mut world = World::new().await;
    let (quote, _) = world.quote(ETH, USDC, ONE_ETHER).await;
    // One percent down: the market's amount is paid, which is still above the minimum.
    let moved = |dollars| {
        move |snapshot: &mut market::Snapshot| {
            snapshot.prices.get_mut(&ETH).unwrap().price = dollar(dollars);
        }
    };
    world.snapshot(ORIGIN, moved(2_970));
    let row = paid(decide(&world, fill(&quote), &quote).await);
    assert!(row.payment.amount < quote.figures.paid, "{} of {}", row.payment.amount, quote.figures.paid);
    assert!(row.payment.amount >= quote.figures.minimum);
    // Ten percent down: the deposit goes back.
    let (quote, _) = world.quote(ETH, USDC, ONE_ETHER).await;
    world.snapshot(ORIGIN, moved(2_700));
    let outcome = decide(&world, fill(&quote), &quote).await;
    assert!(matches!(outcome, Outcome::CannotFill(FailReason::Slippage)), "{outcome:?}");
    // Up: the quoted amount, and no more.
    world.snapshot(ORIGIN, moved(3_300));
    assert_eq!(paid(decide(&world, fill(&quote), &quote).await).payment.amount, quote.figures.paid);
}

#[tokio::test]
async fn an_exchange_waits_for_prices_and_a_bridge_does_not() {
    let mut world = World::new().await;
    let (exchange, _) = world.quote(ETH, USDC, ONE_ETHER).await;
    let (bridge, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    world.snapshot(ORIGIN, |snapshot| snapshot.prices.clear());
    assert!(waits(&decide(&world, fill(&exchange), &exchange).await, &Reason::NoMarket));
    paid(decide(&world, fill(&bridge), &bridge).await);
}

#[tokio::test]
async fn a_payment_that_failed_twice_waits_for_a_person() {
    let world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    for round in 0..2u64 {
        let row = paid(decide(&world, fill(&quote), &quote).await);
        assert_eq!(row.payment.nonce, round, "each has a nonce of its own");
        world.unit(move |tx, context| void(tx, &row, context)).await.unwrap();
    }
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::NeedsPerson));
}

#[tokio::test]
async fn a_unit_that_fails_leaves_no_gap_in_the_nonces() {
    let world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let (due, of) = (fill(&quote), quote.clone());
    let failed = world
        .unit(move |tx, context| {
            pay(tx, &due, Some(&of), context)?;
            Err::<(), _>(SolverError::InvariantViolated("a test fails its unit"))
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(paid(decide(&world, fill(&quote), &quote).await).payment.nonce, 0);
}

/// Notes that the recipient is a contract.
async fn to_contract(world: &World) {
    world.unit(|tx, context| Ok(store::contracts::note(tx, DESTINATION, RECIPIENT, context.now)?)).await.unwrap();
}

#[tokio::test]
async fn a_native_fill_to_a_contract_is_tried_and_goes_through_the_router() {
    let world = World::new().await;
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    to_contract(&world).await;
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::Untried));
    let handle = world.handle(DESTINATION);
    let wanted = handle.trials.take(8);
    let [(tried, attempt)] = &wanted[..] else { panic!("one trial is asked for: {wanted:?}") };
    assert_eq!((*tried, attempt.from, attempt.to), (order, FILLER, handle.chain.router));
    assert!(!handle.trials.has_unread());
    handle.trials.answered(order, Some(Verdict::Passes));
    assert!(handle.trials.has_unread(), "the fill is looked for until it is decided with the verdict");
    let row = paid(decide(&world, fill(&quote), &quote).await);
    assert!(!handle.trials.has_unread());
    assert_eq!(row.payment.target, handle.chain.router);
    assert_eq!(row.payment.gas, 71_500, "a tenth above the estimate, for the sponsor, the user and the chain alike");
    assert_eq!(attempt.gas, Some(row.payment.gas), "with no more gas than it is paid with");
}

#[tokio::test]
async fn a_recipient_that_fails_its_trial_costs_no_gas() {
    let world = World::new().await;
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    to_contract(&world).await;
    for (revert, reason) in
        [(Revert::Silent, FailReason::MissingRevertData), (Revert::OutOfGas, FailReason::QuotedGasLimitExceeded)]
    {
        decide(&world, fill(&quote), &quote).await;
        world.handle(DESTINATION).trials.answered(order, Some(Verdict::Refuses(revert)));
        let outcome = decide(&world, fill(&quote), &quote).await;
        assert!(matches!(outcome, Outcome::CannotFill(given) if given == reason), "{outcome:?}");
    }
    assert!(world.live(fill(&quote).subject).await.is_none(), "nothing is sent");
}

#[tokio::test]
async fn nodes_that_cannot_try_a_fill_do_not_keep_it_back() {
    let world = World::new().await;
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    to_contract(&world).await;
    for _ in 0..3 {
        assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::Untried));
        world.handle(DESTINATION).trials.answered(order, None);
    }
    paid(decide(&world, fill(&quote), &quote).await);
}

#[tokio::test]
async fn a_wallet_is_paid_untried_with_the_gas_of_a_transfer() {
    let world = World::new().await;
    for (currency, amount, limit) in [(ETH, ONE_ETHER, 24_508), (USDC, 100 * ONE_USDC, 66_000)] {
        let (quote, _) = world.quote(currency, currency, amount).await;
        assert_eq!(paid(decide(&world, fill(&quote), &quote).await).payment.gas, limit);
    }
}

/// A quote of one asset stands for a week: it must not be an option on the destination's gas.
#[tokio::test]
async fn a_bridge_of_one_asset_is_refunded_when_its_gas_has_become_three_times_the_quoted() {
    for (currency, amount) in [(ETH, ONE_ETHER), (USDC, 100 * ONE_USDC)] {
        let mut world = World::new().await;
        let (quote, _) = world.quote(currency, currency, amount).await;
        // Sixty thousand units at a gwei were quoted.
        let limit = if currency == ETH { 24_508 } else { 66_000 };
        let at = |times: u128| times * 60_000 * 1_000_000_000 / limit;
        world.snapshot(DESTINATION, |snapshot| (snapshot.base_fee, snapshot.tip) = (at(4), 0));
        let outcome = decide(&world, fill(&quote), &quote).await;
        let dear = FailReason::QuotedGasLimitExceeded;
        assert!(matches!(outcome, Outcome::CannotFill(reason) if reason == dear), "{outcome:?}");
        world.snapshot(DESTINATION, |snapshot| (snapshot.base_fee, snapshot.tip) = (at(3), 0));
        paid(decide(&world, fill(&quote), &quote).await);
    }
}

#[tokio::test]
async fn a_recipient_that_refused_is_not_paid_for_a_while() {
    let mut world = World::new().await;
    let recipient = Recipient { chain: DESTINATION, currency: ETH, address: RECIPIENT };
    world.unit(move |tx, context| Ok(refused_recipients::note(tx, recipient, context.now)?)).await.unwrap();
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let outcome = decide(&world, fill(&quote), &quote).await;
    assert!(matches!(outcome, Outcome::CannotFill(FailReason::TransferFailed)), "{outcome:?}");
    let (other, _) = world.quote(USDC, USDC, 100 * ONE_USDC).await;
    paid(decide(&world, fill(&other), &other).await);
    world.context.now = NOW.plus(REFUSED_FOR);
    paid(decide(&world, fill(&quote), &quote).await);
}

/// Makes the snapshot of a chain older than its age limit.
fn halt(world: &mut World, chain: domain::ids::ChainId) {
    world.snapshot(chain, |snapshot| snapshot.max_age = std::time::Duration::ZERO);
}

#[tokio::test]
async fn a_chain_that_stands_still_is_given_no_payment() {
    let mut world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    halt(&mut world, DESTINATION);
    assert!(waits(&decide(&world, fill(&quote), &quote).await, &Reason::Halted));
    // The deposit is not locked with it: its own chain pays.
    paid(decide(&world, refund(&quote, ONE_ETHER), &quote).await);
    halt(&mut world, ORIGIN);
    let (other, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    assert!(waits(&decide(&world, refund(&other, ONE_ETHER), &other).await, &Reason::Halted));
}

#[tokio::test]
async fn a_chain_that_no_node_shows_holds_up_only_its_own_payments() {
    let world = World::new().await;
    let (quote, _) = world.quote(ETH, ETH, ONE_ETHER).await;
    let key = DepositKey(alloy::primitives::B256::repeat_byte(7));
    let returned = Due { subject: Subject::Return { row: 7, key }, ..refund(&quote, ONE_ETHER / 10) };
    let decided = |due: &Due| {
        let due = due.clone();
        world.unit(move |tx, context| pay(tx, &due, None, context))
    };
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::NotNow(Reason::Refusing(_)));
    let there = world.handle(DESTINATION);
    // The checks may be about to find that the database is older than the chain.
    there.begin(NOW);
    assert!(refused(&decided(&returned).await.unwrap()));
    // They have found it.
    there.health.refuse(Some("the database is older than the chain".to_owned()));
    assert!(refused(&decided(&returned).await.unwrap()));
    // They cannot find anything, because no node answers.
    there.begin(domain::time::Timestamp::from_millis(NOW.millis() - CHECK_TIMEOUT_MILLIS - 1));
    assert!(refused(&decide(&world, refund(&quote, ONE_ETHER), &quote).await), "an order of that chain");
    assert!(refused(&decided(&Due { chain: DESTINATION, ..returned.clone() }).await.unwrap()), "that chain itself");
    assert!(matches!(decided(&returned).await.unwrap(), Outcome::Paid(_)));
}

#[tokio::test]
async fn a_fill_near_its_deadline_is_given_up_wherever_it_stands_in_its_lane() {
    let world = World::new().await;
    for tx in [0xd1, 0xd2] {
        let (_, order) = world.quote(ETH, ETH, ONE_ETHER).await;
        let seen = evm::SeenDeposit { tx: alloy::primitives::B256::repeat_byte(tx), ..deposit(order, ETH, ONE_ETHER) };
        assert_eq!(world.deposit(seen).await.unwrap().len(), 1);
    }
    let unmined = |tx: &mut Tx<'_>| Ok::<_, SolverError>(payments::unmined(tx, DESTINATION, FILLER, 10)?);
    let handle = world.handle(DESTINATION);
    let mut queue = world.store.read(unmined).await.unwrap();
    assert_eq!(queue.len(), 2);
    let early = world.solver(|| NOW);
    assert_eq!(give_up_ending(&early, &handle, &mut queue).await.unwrap(), []);
    // Orders live for a week; this is three minutes before they end.
    let late = world.solver(|| NOW.plus(std::time::Duration::from_secs(604_800 - 180)));
    let given_up = give_up_ending(&late, &handle, &mut queue).await.unwrap();
    assert_eq!(given_up, queue.iter().map(|stored| stored.id).collect::<Vec<_>>());
    let stored = world.store.read(unmined).await.unwrap();
    assert!(stored.iter().all(|stored| stored.cancelled && stored.attempts == 2), "{stored:?}");
    assert_eq!(give_up_ending(&late, &handle, &mut queue).await.unwrap(), [], "each once");
}
