//! The smaller machines and their proofs.

use std::collections::BTreeSet;

use domain::{claim, deposit, hold, loss, payment, payout, relay, same_chain_tx, sweep, treasury_transfer};

use super::{ADOPTED, ORDINARY, PAYMENTS, Proof, REVERTED};

/// The smaller machines, by where they go from and to.
pub(super) const MACHINES: &[Proof] = &[
    ("deposit: seen to confirmed", &["a_deposit_waits_for_its_confirmations"]),
    ("deposit: seen to final", &["a_deposit_that_the_node_hides_is_filled_all_the_same"]),
    ("deposit: seen to gone", &["a_deposit_that_stays_away_fails_its_request"]),
    ("deposit: confirmed to final", &["nothing_is_earned_or_charged_before_the_deposit_is_final"]),
    ("deposit: confirmed to gone", ADOPTED),
    ("deposit: gone to seen", ADOPTED),
    ("payment: decided to sent", ORDINARY),
    ("payment: decided to mined", &["dying_with_a_payment_sent_pays_once"]),
    ("payment: decided to reverted", PAYMENTS),
    ("payment: sent to mined", ORDINARY),
    ("payment: sent to reverted", REVERTED),
    ("payment: mined to sent", &["a_fill_that_a_reorg_removes_is_sent_again"]),
    ("payment: mined to final", &["settled_deposits_reach_the_treasury_exactly"]),
    ("payment: reverted to sent", PAYMENTS),
    ("payment: reverted to void", REVERTED),
    (
        "hold: open to posted",
        &["the_destination_is_paid_while_the_origin_stands_still_and_a_deposit_that_never_lands_is_lost"],
    ),
    ("hold: open to voided", &["a_fast_fill_is_paid_before_its_deposit_which_frees_the_hold"]),
    ("claim: asked to pending", &["a_claim_is_paid_to_the_unit", "a_restored_backup_pays_no_claim_twice"]),
    ("claim: pending to success", &["a_claim_is_paid_to_the_unit"]),
    ("claim: pending to failure", &["a_claim_survives_a_reorg_and_one_that_fails_is_credited_back"]),
    ("loss: missing to booked", &["a_deposit_that_stays_away_after_its_fill_is_a_loss"]),
    ("loss: missing to recovered", &["a_loss_is_booked_once_and_reversed_by_whatever_lands"]),
    ("loss: booked to recovered", &["a_deposit_that_stays_away_after_its_fill_is_a_loss"]),
    ("loss: recovered to missing", &["a_loss_is_booked_once_and_reversed_by_whatever_lands"]),
    ("payout: intended to signed", &["settled_deposits_reach_the_treasury_exactly"]),
    ("payout: intended to executed", &["a_used_nonce_ends_a_payout_whatever_it_was"]),
    ("payout: signed to intended", &["an_expired_signature_is_replaced_under_the_same_nonce"]),
    ("payout: signed to executed", &["settled_deposits_reach_the_treasury_exactly"]),
    ("payout: signed to parked", &["a_payout_is_given_up_when_its_last_signature_runs_out"]),
    ("payout: parked to executed", &["a_used_nonce_ends_a_payout_whatever_it_was"]),
    ("relay: live to done", &["a_user_without_gas_bridges_by_permit2"]),
    ("relay: live to void", &["a_relay_that_its_user_undercuts_fails_and_pays_nobody"]),
    ("relay: done to void", &["a_relay_is_held_against_its_account_unless_we_gave_it_up"]),
    ("relay: void to done", &["a_relay_is_held_against_its_account_unless_we_gave_it_up"]),
    ("same-chain transaction: seen to booked", &["apps_earn_by_same_chain_transactions"]),
    ("same-chain transaction: seen to gone", &["apps_earn_nothing_by_a_transaction_that_a_reorg_removed"]),
    ("same-chain transaction: gone to seen", &["a_transaction_is_booked_once_whatever_a_reorg_takes_away"]),
    ("sweep: live to done", &["an_open_address_is_paid_again_and_again"]),
    ("sweep: live to void", &["one_balance_has_one_live_sweep_whatever_a_reorg_takes_away"]),
    ("sweep: done to live", &["one_balance_has_one_live_sweep_whatever_a_reorg_takes_away"]),
    ("sweep: done to void", &["a_sweep_follows_its_block_until_it_is_void"]),
    ("treasury transfer: seen to credited", &["every_form_is_credited_or_shown_to_the_operator"]),
    ("treasury transfer: seen to unattributed", &["every_form_is_credited_or_shown_to_the_operator"]),
    ("treasury transfer: seen to gone", &["nothing_is_credited_before_it_is_final"]),
    ("treasury transfer: gone to seen", &["a_transfer_is_credited_once_and_only_while_its_block_stands"]),
];

/// Every pair of states between which a machine moves.
pub(super) fn machine_steps() -> Vec<String> {
    let mut steps = BTreeSet::new();
    let mut step = |machine: &str, from: &str, to: Option<&str>| {
        if let Some(to) = to.filter(|to| *to != from) {
            steps.insert(format!("{machine}: {from} to {to}"));
        }
    };
    for from in deposit::State::ALL {
        use deposit::Event::{Confirmed, Finalised, Landed, Vanished};
        for event in [Confirmed, Finalised, Vanished, Landed] {
            step("deposit", from.as_str(), deposit::step(from, event).ok().map(deposit::State::as_str));
        }
    }
    for from in payment::State::ALL {
        for event in payment::Event::ALL {
            step("payment", from.as_str(), payment::step(from, event).ok().map(payment::State::as_str));
        }
    }
    for from in hold::State::ALL {
        for event in [hold::Event::Change, hold::Event::Post, hold::Event::Void] {
            step("hold", from.as_str(), hold::step(from, event).ok().map(hold::State::as_str));
        }
    }
    for from in claim::State::ALL {
        use claim::Event::{Failed, Found, Paid, Signed};
        for event in [Signed, Paid, Failed, Found] {
            step("claim", from.as_str(), claim::step(from, event).ok().map(claim::State::as_str));
        }
    }
    for from in loss::State::ALL {
        for event in [loss::Event::Vanished, loss::Event::DeadlineFinal, loss::Event::Landed] {
            step("loss", from.as_str(), Some(loss::step(from, event).as_str()));
        }
    }
    for from in payout::State::ALL {
        use payout::Event::{GivenUp, NonceUsed, SignatureExpired, Signed};
        for event in [Signed, SignatureExpired, GivenUp, NonceUsed] {
            step("payout", from.as_str(), payout::step(from, event).ok().map(payout::State::as_str));
        }
    }
    for from in relay::State::ALL {
        for event in relay::Event::ALL {
            step("relay", from.as_str(), Some(relay::step(from, event).as_str()));
        }
    }
    for from in same_chain_tx::State::ALL {
        for event in same_chain_tx::Event::ALL {
            let to = same_chain_tx::step(from, event).ok().map(same_chain_tx::State::as_str);
            step("same-chain transaction", from.as_str(), to);
        }
    }
    for from in sweep::State::ALL {
        for event in sweep::Event::ALL {
            step("sweep", from.as_str(), Some(sweep::step(from, event).as_str()));
        }
    }
    for from in treasury_transfer::State::ALL {
        use treasury_transfer::Event::{BlockGone, Credited, Seen, SetAside};
        for event in [Seen, Credited, SetAside, BlockGone] {
            let to = treasury_transfer::step(from, event).ok().map(treasury_transfer::State::as_str);
            step("treasury transfer", from.as_str(), to);
        }
    }
    steps.into_iter().collect()
}
