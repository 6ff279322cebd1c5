//! The smaller machines and their proofs.

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
];
