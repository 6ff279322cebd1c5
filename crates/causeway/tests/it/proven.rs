//! The crash points, the transitions of every state machine, the paths that webhooks tell and the rules about money,
//! each with the tests that prove it.
//!
//! The points are read from the code and the transitions from the machines themselves: a new one without a test fails
//! here, and so does a test that was renamed or removed. `cargo test -p causeway --test it proven -- --nocapture`
//! prints the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use causeway::crash::POINTS;

use crate::crash;

mod machines;
mod paths;

use machines::{MACHINES, machine_steps};
use paths::{PATHS, documented_paths};

/// A fact, and the names of the tests that prove it.
type Proof = (&'static str, &'static [&'static str]);

const ORDINARY: &[&str] = &["a_native_transfer_arrives_to_the_unit_on_postgres", "the_ordinary_path"];
const GASLESS: &[&str] = &[
    "a_user_without_gas_bridges_by_an_authorization",
    "a_user_without_gas_bridges_by_permit2",
    "dying_with_a_relay_committed_deposits_once",
];
const REFUNDED: &[&str] = &["a_short_deposit_goes_back_on_postgres"];
const RECOVERED: &[&str] = &["a_restored_backup_refuses_to_pay_until_it_has_recovered"];
const FOUND_REFUNDED: &[&str] = &[
    "a_restored_backup_does_not_refund_again",
    "a_restored_backup_does_not_fill_an_order_refunded_on_the_other_chain",
];
const ADOPTED: &[&str] = &["a_deposit_that_lands_again_after_its_fill_is_adopted"];
const REVERTED: &[&str] = &["a_fill_that_reverts_is_refunded_when_that_is_final"];
/// The table of the machine, which pins each transition, and random events through it: for transitions that no story on
/// a chain can bring about by itself.
const MACHINE: &[&str] =
    &["the_documented_table_is_the_code_s", "a_terminal_state_stays_and_no_request_is_both_filled_and_refunded"];
/// Each event in this state, with what follows.
const RELAY_TABLE: &[&str] = &["a_request_whose_relay_is_on_its_way_meets_every_event"];
const PAYMENTS: &[&str] = &["what_is_final_or_void_stays_so", "only_a_final_revert_is_void"];

/// The life of a request, by state and event, as `docs/transfer.md` has it.
const REQUEST: &[Proof] = &[
    ("waiting, Relayed", GASLESS),
    ("waiting, RelayVoid", MACHINE),
    ("waiting, DepositAccepted", ORDINARY),
    ("waiting, FastFill", &["a_fast_fill_is_paid_before_its_deposit_which_frees_the_hold"]),
    ("waiting, FastFillVoid", MACHINE),
    ("waiting, DepositRefused", REFUNDED),
    ("waiting, DepositLost", &["a_deposit_that_stays_away_fails_its_request"]),
    ("waiting, FillSent", &["a_fast_fill_is_paid_before_its_deposit_which_frees_the_hold"]),
    ("waiting, FillMined", &["dying_with_a_hold_committed_pays_once"]),
    ("waiting, CannotFill", MACHINE),
    ("waiting, Executed (success: true)", &["a_same_chain_transaction_is_found"]),
    ("waiting, Executed (success: false)", &["only_the_quoted_transaction_counts"]),
    ("waiting, Found (refund: false)", RECOVERED),
    ("waiting, Found (refund: true)", FOUND_REFUNDED),
    ("depositing, RelayVoid", &["a_relay_that_its_user_undercuts_fails_and_pays_nobody"]),
    ("depositing, RelayGone", RELAY_TABLE),
    ("depositing, DepositAccepted", GASLESS),
    ("depositing, FastFill", RELAY_TABLE),
    ("depositing, FastFillVoid", RELAY_TABLE),
    ("depositing, DepositRefused", RELAY_TABLE),
    ("depositing, DepositLost", RELAY_TABLE),
    ("depositing, FillSent", RELAY_TABLE),
    ("depositing, FillMined", RELAY_TABLE),
    ("depositing, CannotFill", RELAY_TABLE),
    (
        "depositing, Executed (success: true)",
        &["a_gasless_swap_on_one_chain_is_paid_by_its_sponsor", "a_call_of_a_smart_account_is_relayed"],
    ),
    ("depositing, Executed (success: false)", RELAY_TABLE),
    ("depositing, Found (refund: false)", RELAY_TABLE),
    ("depositing, Found (refund: true)", RELAY_TABLE),
    (
        "pending, DepositGone (payment decided: false)",
        &["a_deposit_that_vanishes_before_the_fill_returns_the_request_to_waiting"],
    ),
    ("pending, FillSent", ORDINARY),
    ("pending, FillMined", &["dying_with_a_payment_sent_pays_once"]),
    ("pending, FillVoid", MACHINE),
    ("pending, CannotFill", &["an_expired_quote_is_not_filled"]),
    ("pending, OperatorRefund", &["the_operator_refunds_a_request_that_waits_for_its_fill"]),
    ("pending, Found (refund: false)", RECOVERED),
    ("pending, Found (refund: true)", FOUND_REFUNDED),
    ("submitted, FastFillVoid", &["a_fast_fill_that_reverts_or_is_short"]),
    ("submitted, FillMined", ORDINARY),
    (
        "submitted, FillVoid",
        &["a_fill_that_reverts_is_refunded_when_that_is_final", "a_fill_that_is_not_mined_in_time_is_given_up"],
    ),
    ("submitted, Found (refund: false)", MACHINE),
    ("submitted, Found (refund: true)", MACHINE),
    ("success, FillVoid", MACHINE),
    ("success, Executed (success: false)", &["a_same_chain_request_ends_as_the_chain_shows_it_last"]),
    ("refunding, DepositGone (payment decided: false)", MACHINE),
    ("refunding, RefundMined", REFUNDED),
    ("refunding, RefundVoid", &["every_path_that_turns_tells_exactly_its_sequence"]),
    ("refunding, RefundImpossible", &["every_path_tells_exactly_its_sequence"]),
    ("refunding, Found (refund: false)", MACHINE),
    ("refunding, Found (refund: true)", FOUND_REFUNDED),
    ("refunded, RefundVoid", MACHINE),
    ("failed, OperatorRefund", &["a_person_sends_the_deposit_of_a_failed_order_to_its_recovery_address"]),
    (
        "failed, Executed (success: true)",
        &[
            "a_same_chain_swap_that_reverted_and_then_succeeded_is_a_success",
            "a_same_chain_request_ends_as_the_chain_shows_it_last",
        ],
    ),
    ("failed, Found (refund: false)", MACHINE),
    ("failed, Found (refund: true)", MACHINE),
];

const MONEY: &[Proof] = &[
    (
        "A recipient gets what was promised, to the unit.",
        &[
            "a_native_transfer_arrives_to_the_unit_on_sqlite",
            "a_native_transfer_arrives_to_the_unit_on_postgres",
            "a_usdc_transfer_arrives_to_the_unit",
            "two_hundred_random_quotes_come_true_to_the_unit",
            "a_fixed_output_arrives_as_it_was_asked_for",
        ],
    ),
    (
        "An order is paid once, whoever dies, repeats or races.",
        &[
            "twenty_transfers_at_once_all_arrive_to_the_unit",
            "a_deposit_that_lands_during_the_call_pays_once_postgres",
            "another_takes_over_from_a_worker_that_is_killed",
            "a_worker_that_slept_through_its_lease_writes_nothing",
        ],
    ),
    (
        "An order is filled or refunded, never both.",
        &[
            "a_terminal_state_stays_and_no_request_is_both_filled_and_refunded",
            "a_fill_that_reverts_is_refunded_when_that_is_final",
        ],
    ),
    (
        "A deposit that cannot be filled goes back, less its gas.",
        &["a_short_deposit_goes_back_on_sqlite", "a_short_deposit_goes_back_on_postgres"],
    ),
    ("A second deposit under one order goes back.", &["a_second_deposit_under_one_order_is_returned"]),
    (
        "A deposit under an unknown order goes back to its depositor.",
        &["a_deposit_under_an_unknown_order_is_returned_to_its_depositor"],
    ),
    ("A transfer of nothing is no deposit.", &["a_transfer_of_nothing_under_a_victims_order_changes_nothing"]),
    (
        "The excess of an order that does not grow goes back.",
        &["the_excess_over_an_exact_output_goes_back", "an_excess_above_the_limit_is_refunded_with_its_order"],
    ),
    (
        "One node's word is not money.",
        &[
            "a_deposit_that_one_node_invents_is_not_paid",
            "a_transfer_to_the_treasury_that_one_node_invents_is_not_credited",
            "a_fill_that_one_node_shows_as_failed_is_not_void",
            "a_deposit_that_one_of_two_nodes_hides_waits_for_it",
        ],
    ),
    (
        "A deposit waits for the confirmations its size asks for.",
        &["a_deposit_waits_for_its_confirmations", "a_large_deposit_waits_longer_than_a_small_one"],
    ),
    ("Payments against young deposits are bounded.", &["payments_against_young_deposits_are_bounded"]),
    (
        "A deposit that stays away after its fill is a loss, booked once and reversed by what lands.",
        &["a_deposit_that_stays_away_after_its_fill_is_a_loss", "a_loss_is_not_the_sponsors_until_it_is_made_good"],
    ),
    ("A database older than the chain pays nothing until it has recovered.", RECOVERED),
    (
        "Amounts never wrap; charges round up, payments round down.",
        &["arithmetic_never_wraps", "the_two_roundings_differ_by_at_most_one"],
    ),
    (
        "The deposit is the fees and the rest; user and sponsor pay the whole.",
        &[
            "deposit_equals_fees_plus_what_is_left",
            "user_and_sponsor_pay_what_is_delivered_and_all_fees",
            "sponsor_and_user_pay_the_whole_and_the_cap_is_kept",
        ],
    ),
    ("A cause is booked once.", &["every_cause_has_an_id_of_its_own", "an_entry_moves_something_and_the_right_way"]),
    (
        "A hold ends once and pays for no more than it holds.",
        &["a_hold_ends_once_and_hearing_it_twice_is_harmless", "a_hold_pays_for_no_more_than_it_holds"],
    ),
    (
        "Fast fills never exceed the balance.",
        &[
            "many_fast_fills_at_once_pay_once_and_never_exceed_the_balance_sqlite",
            "many_fast_fills_at_once_pay_once_and_never_exceed_the_balance_postgres",
        ],
    ),
    (
        "Claims never exceed the balance, and each is paid once.",
        &[
            "many_claims_at_once_never_exceed_the_balance_sqlite",
            "many_claims_at_once_never_exceed_the_balance_postgres",
            "a_restored_backup_pays_no_claim_twice",
        ],
    ),
    (
        "A sponsor pays for what its balance covers, when the deposit is final.",
        &[
            "a_balance_that_covers_one_pays_for_one",
            "nothing_is_earned_or_charged_before_the_deposit_is_final",
            "a_sponsor_is_charged_for_a_fill_that_was_recovered",
        ],
    ),
    (
        "An app balance is right to the unit from funding to withdrawal.",
        &["from_funding_to_withdrawal_to_the_unit", "an_integrator_pays_and_earns_to_the_unit"],
    ),
    (
        "Apps earn by final transactions, once.",
        &["apps_earn_by_same_chain_transactions", "apps_earn_nothing_by_a_transaction_that_a_reorg_removed"],
    ),
    (
        "A transfer to the treasury is credited when it is final, once.",
        &["every_form_is_credited_or_shown_to_the_operator", "nothing_is_credited_before_it_is_final"],
    ),
    (
        "The depository repays exactly what was settled, once.",
        &[
            "settled_deposits_reach_the_treasury_exactly",
            "refunds_and_returns_are_reimbursed_like_fills",
            "a_restored_backup_does_not_repay_what_was_repaid",
        ],
    ),
    (
        "The allocator signs for what the chains prove, within its caps.",
        &[
            "forged_rows_are_refused",
            "the_database_itself_refuses_to_promise_too_much",
            "caps_hold_back_what_is_too_much",
            "nodes_that_disagree_get_no_signature",
            "fills_through_the_router_are_proven_too",
        ],
    ),
    (
        "A payout that expired is signed again under its nonce.",
        &["an_expired_signature_is_replaced_under_the_same_nonce"],
    ),
    (
        "A refund beyond our own funds goes out of the depository, once.",
        &[
            "a_refund_above_the_limit_goes_out_of_the_depository",
            "a_refund_beyond_the_risk_budget_goes_out_of_the_depository",
            "a_refund_that_somebody_else_was_faster_with_is_not_signed_again",
        ],
    ),
    (
        "The treasury signs for gas of our own wallets and nothing else.",
        &[
            "the_treasury_signs_nothing_but_top_ups",
            "a_low_wallet_is_filled_up_from_the_treasury_once",
            "dying_with_a_top_up_signed_fills_up_once",
            "dying_with_a_top_up_sent_fills_up_once",
        ],
    ),
    (
        "A currency becomes dollars at the rate of an exchange, never better.",
        &[
            "app_fees_between_chains_are_no_cheaper_exchange",
            "native_funding_is_no_cheaper_exchange_and_waits_for_prices",
        ],
    ),
    (
        "The deposit of a fast fill is owed at its worth of the moment it is due.",
        &[
            "a_deposit_that_does_not_come_is_owed_at_the_price_at_the_end_of_its_window",
            "while_the_service_is_away_the_window_is_not_open_longer",
            "a_late_deposit_is_credited_at_its_own_worth_and_never_beyond_what_was_charged",
            "a_fee_that_was_a_fast_fills_dollar_cannot_be_claimed",
        ],
    ),
    (
        "Gas that a recipient burns is the recipient's to pay for.",
        &[
            "a_recipient_that_refuses_when_it_is_paid_pays_for_the_gas_and_is_remembered",
            "calls_have_no_more_gas_to_burn_than_was_charged_for",
        ],
    ),
    (
        "Money at a deposit address fills an order or goes back, once.",
        &[
            "a_strict_address_is_paid_exactly_behind_dust_and_paid_again",
            "a_strict_address_is_paid_over_under_and_in_another_currency",
            "an_open_address_is_paid_again_and_again",
            "money_at_an_address_goes_back_to_whom_it_can",
            "money_that_comes_late_goes_back_or_is_priced_anew",
        ],
    ),
    (
        "A relayed permit deposits once, and its gas is paid by the quote or its sponsor.",
        &[
            "a_user_without_gas_bridges_by_permit2",
            "dying_with_a_relay_committed_deposits_once",
            "a_relay_that_its_user_undercuts_fails_and_pays_nobody",
            "a_gasless_swap_on_one_chain_is_paid_by_its_sponsor",
        ],
    ),
    (
        "A transfer on the venue is paid once, and its word is worth no more than its cap.",
        &[
            "usdc_arrives_on_the_venue_to_the_unit",
            "a_withdrawal_arrives_to_the_unit",
            "dying_around_a_transfer_to_the_venue_pays_once",
            "a_transfer_of_unknown_outcome_is_looked_up_and_not_repeated",
            "the_word_of_the_venue_has_a_cap",
            "the_word_that_payments_failed_has_a_cap",
        ],
    ),
    ("The audit finds every error in the books.", &["an_audit_finds_every_forged_row"]),
];

#[test]
fn every_crash_point_transition_and_money_rule_has_a_test() -> Result<()> {
    let tests = tests()?;
    let mut missing = Vec::new();
    let mut show = |heading: &str, proofs: Vec<(String, Vec<&str>)>| {
        println!("\n{heading}");
        for (fact, by) in proofs {
            println!("  {fact}");
            by.iter().for_each(|test| println!("      {test}"));
            let unknown = by.iter().filter(|test| !tests.contains(**test));
            missing.extend(unknown.map(|test| format!("{fact}: there is no test {test}")));
            if by.is_empty() {
                missing.push(format!("{fact}: no test is named for it"));
            }
        }
    };
    let points = crash_points()?;
    ensure!(
        points.iter().map(String::as_str).eq(BTreeSet::from(POINTS)),
        "`POINTS` is not what the code has: {points:?}"
    );
    let crashes = points.into_iter().map(|point| {
        let by = crash::TESTED.iter().filter(|(at, _)| *at == point).map(|(_, test)| *test).collect();
        (point, by)
    });
    show("Crash points", crashes.collect());
    show("The life of a request", proven(documented_steps()?, REQUEST)?);
    show("Other state machines", proven(machine_steps(), MACHINES)?);
    show("Events of a request", proven(documented_paths()?, PATHS)?);
    show("Money", MONEY.iter().map(|(fact, by)| ((*fact).to_owned(), by.to_vec())).collect());
    ensure!(missing.is_empty(), "{missing:#?}");
    Ok(())
}

/// Each fact with its proofs. A proof of something that is not a fact any more is refused.
fn proven(facts: Vec<String>, proofs: &'static [Proof]) -> Result<Vec<(String, Vec<&'static str>)>> {
    for (fact, _) in proofs {
        ensure!(facts.iter().any(|it| it == fact), "there is no {fact} any more");
    }
    let by = |fact: &String| proofs.iter().find(|(it, _)| it == fact).map(|(_, by)| by.to_vec()).unwrap_or_default();
    Ok(facts.into_iter().map(|fact| (fact.clone(), by(&fact))).collect())
}

/// The rows of the table in `docs/transfer.md`, which a test of `domain` compares with the machine.
fn documented_steps() -> Result<Vec<String>> {
    let page = fs::read_to_string(crates().join("../docs/transfer.md"))?;
    let (_, table) = page.split_once("| state | event | next | also |\n|---|---|---|---|\n").context("the table")?;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(str::trim);
        Ok(format!("{}, {}", cells.next().context("a state")?, cells.next().context("an event")?))
    })
    .collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file below a folder of each crate.
fn files(folders: &[&str]) -> Result<Vec<String>> {
    fn read(folder: &Path, texts: &mut Vec<String>) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                read(&path, texts)?;
            } else if path.extension().is_some_and(|it| it == "rs") {
                texts.push(fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }
    let mut texts = Vec::new();
    for entry in fs::read_dir(crates())? {
        let entry = entry?.path();
        for folder in folders.iter().map(|folder| entry.join(folder)).filter(|folder| folder.is_dir()) {
            read(&folder, &mut texts)?;
        }
    }
    Ok(texts)
}

/// The points at which the code may be made to die.
fn crash_points() -> Result<BTreeSet<String>> {
    let sources = files(&["src"])?;
    let calls = sources.iter().flat_map(|text| text.split("crash(\"").skip(1));
    let points: Vec<&str> = calls.filter_map(|rest| rest.split_once('"').map(|(point, _)| point)).collect();
    ensure!(!points.is_empty(), "no crash point was found: are they written in another way now?");
    Ok(points.into_iter().map(str::to_owned).collect())
}

/// The names of all tests in the workspace.
fn tests() -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = crash::TESTED.iter().map(|(_, test)| (*test).to_owned()).collect();
    for text in files(&["src", "tests"])? {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line == "crate::on_both_engines! {" {
                names.extend(lines.by_ref().take_while(|line| *line != "}").map(str::to_owned));
            }
            if line != "#[test]" && !line.starts_with("#[tokio::test") {
                continue;
            }
            let name = lines.by_ref().find_map(|line| {
                let (_, rest) = line.split_once("fn ")?;
                Some(rest.split(['(', '<']).next()?.to_owned())
            });
            names.extend(name);
        }
    }
    Ok(names)
}
