//! The machine as a table, and its rules.

use proptest::prelude::*;

use super::*;

fn events() -> Vec<Event> {
    let reason = FailReason::TransactionReverted;
    vec![
        Event::Relayed,
        Event::RelayVoid { reason },
        Event::RelayGone,
        Event::DepositAccepted { output: Amount::ZERO },
        Event::FastFill { output: Amount::ZERO },
        Event::FastFillVoid,
        Event::DepositRefused { reason },
        Event::DepositGone { fill_decided: false },
        Event::DepositGone { fill_decided: true },
        Event::DepositLost,
        Event::FillSent,
        Event::FillMined,
        Event::FillVoid { reason },
        Event::RefundMined,
        Event::RefundVoid,
        Event::RefundImpossible { reason: Some(RefundFailReason::AmountTooLowToRefund) },
        Event::CannotFill { reason },
        Event::OperatorRefund,
        Event::Executed { success: true },
        Event::Executed { success: false },
    ]
}

/// The whole machine as a table: what each event means in each state.
fn table() -> String {
    let name = |event: Event| format!("{event:?}").split([' ', '{']).next().unwrap().to_owned();
    let mut table = "| state | event | next | also |\n|---|---|---|---|\n".to_owned();
    let mut all = events();
    all.extend([Event::Found { refund: false }, Event::Found { refund: true }]);
    for state in State::ALL {
        for event in &all {
            let Ok(Step::Move(next)) = step(state, *event) else { continue };
            let also = match (next.due, next.withdraw_due) {
                (None, true) if next.release_hold => "the hold is given back, nothing is due any more",
                (Some(Due::Fill { .. }), _) => "pay the recipient",
                (Some(Due::FillAgain), _) => "pay the recipient again",
                (Some(Due::Refund), _) => "return the deposit",
                (None, true) => "nothing is due any more",
                (None, false) => "",
            };
            let detail = match event {
                Event::DepositGone { fill_decided } => format!(" (payment decided: {fill_decided})"),
                Event::Found { refund } => format!(" (refund: {refund})"),
                Event::Executed { success } => format!(" (success: {success})"),
                _ => String::new(),
            };
            table += &format!("| {} | {}{detail} | {} | {also} |\n", state.as_str(), name(*event), next.state.as_str());
        }
    }
    table
}

#[test]
fn the_documented_table_is_the_code_s() {
    let documented = include_str!("../../../../docs/transfer.md");
    let table = table();
    assert!(documented.contains(&table), "docs/transfer.md should hold this table:\n\n{table}");
}

#[test]
fn the_ordinary_path() {
    let path = [
        (Event::DepositAccepted { output: Amount::ZERO }, State::Pending),
        (Event::FillSent, State::Submitted),
        (Event::FillMined, State::Success),
    ];
    let mut state = State::Waiting;
    for (event, expected) in path {
        let Ok(Step::Move(next)) = step(state, event) else { panic!("{event:?} does not move {state:?}") };
        assert_eq!(next.state, expected);
        state = next.state;
    }
}

/// Every event that a request meets while its relay is on the way, with the state after it and what is due: the chain
/// can bring about few of them at will.
#[test]
fn a_request_whose_relay_is_on_its_way_meets_every_event() {
    let reason = FailReason::TransactionReverted;
    let output = Amount::new(alloy_primitives::U256::from(7));
    let due = |due| Some((State::Depositing, Some(due)));
    let to = |state| Some((state, None));
    let cases = [
        (Event::Relayed, None),
        (Event::RelayVoid { reason }, to(State::Failed)),
        (Event::RelayGone, to(State::Waiting)),
        (Event::DepositAccepted { output }, Some((State::Pending, Some(Due::Fill { output })))),
        (Event::FastFill { output }, due(Due::Fill { output })),
        (Event::FastFillVoid, to(State::Depositing)),
        (Event::DepositRefused { reason }, Some((State::Refunding, Some(Due::Refund)))),
        (Event::DepositGone { fill_decided: false }, None),
        (Event::DepositGone { fill_decided: true }, None),
        (Event::DepositLost, to(State::Failed)),
        (Event::FillSent, to(State::Submitted)),
        (Event::FillMined, to(State::Success)),
        (Event::FillVoid { reason }, None),
        (Event::RefundVoid, None),
        (Event::CannotFill { reason }, to(State::Depositing)),
        (Event::Executed { success: true }, to(State::Success)),
        (Event::Executed { success: false }, to(State::Failed)),
        (Event::Found { refund: false }, to(State::Success)),
        (Event::Found { refund: true }, to(State::Refunded)),
    ];
    for (event, expected) in cases {
        let next = match step(State::Depositing, event) {
            Ok(Step::Move(next)) => Some(next),
            Ok(Step::AlreadyDone) => None,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(next.map(|next| (next.state, next.due)), expected, "{event:?}");
        // A hold for a fill that is not made is free again, and nothing stays due for what was found.
        let unfilled = matches!(event, Event::FastFillVoid | Event::CannotFill { .. });
        assert_eq!(next.is_some_and(|next| next.release_hold), unfilled, "{event:?}");
        let withdrawn = unfilled || matches!(event, Event::Found { .. });
        assert_eq!(next.is_some_and(|next| next.withdraw_due), withdrawn, "{event:?}");
        let because = match event {
            Event::RelayVoid { .. } | Event::DepositRefused { .. } | Event::Executed { success: false } => Some(reason),
            Event::DepositLost => Some(FailReason::DepositReorged),
            _ => None,
        };
        assert_eq!(next.and_then(|next| next.reason), because, "{event:?}");
    }
    let impossible = [Event::OperatorRefund, Event::RefundMined, Event::RefundImpossible { reason: None }];
    for event in impossible {
        assert_eq!(step(State::Depositing, event), Err(IllegalTransition { state: State::Depositing, event }));
    }
    // Nothing is left out.
    let kind = |event: &Event| std::mem::discriminant(event);
    let known: Vec<_> = cases.iter().map(|(event, _)| event).chain(&impossible).map(kind).collect();
    assert!(events().iter().all(|event| known.contains(&kind(event))));
}

#[test]
fn a_deposit_that_vanishes_before_the_fill_returns_the_request_to_waiting() {
    let step = step(State::Pending, Event::DepositGone { fill_decided: false });
    assert!(matches!(step, Ok(Step::Move(Next { state: State::Waiting, withdraw_due: true, .. }))));
}

#[test]
fn a_refund_never_shows_as_failure_on_its_way() {
    assert_eq!(State::Refunding.status(), "pending");
}

#[test]
fn every_state_reads_back() {
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
    }
}

#[test]
fn a_same_chain_request_ends_as_the_chain_shows_it_last() {
    let mut state = State::Waiting;
    for success in [false, false, true, true, false, true] {
        if let Ok(Step::Move(next)) = step(state, Event::Executed { success }) {
            state = next.state;
        }
        assert_eq!(state, if success { State::Success } else { State::Failed });
    }
}

proptest! {
    #[test]
    fn a_terminal_state_stays_and_no_request_is_both_filled_and_refunded(
        picks in proptest::collection::vec(0usize..20, 0..60),
    ) {
        let (mut state, mut filled, mut refunded) = (State::Waiting, false, false);
        // Same-chain requests have no deposit and no payment: theirs is a machine of its own, tested above.
        let same_chain = |event: &Event| matches!(event, Event::Executed { .. });
        for event in picks.into_iter().map(|at| events()[at]).filter(|event| !same_chain(event)) {
            let Ok(Step::Move(next)) = step(state, event) else { continue };
            match (state, event) {
                // A person sends the deposit of a failed request back.
                (State::Failed, Event::OperatorRefund) => prop_assert_eq!(next.state, State::Refunding),
                _ if state.is_terminal() => prop_assert_eq!(next.state, state),
                _ => {}
            }
            filled |= next.state == State::Success;
            refunded |= next.state == State::Refunded;
            prop_assert!(!(filled && refunded));
            state = next.state;
        }
    }
}
