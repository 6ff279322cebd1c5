use std::collections::HashSet;

use alloy_primitives::B256;

use super::*;

const WALLET: Address = Address::repeat_byte(2);
const HOLD: HoldId = HoldId::first(HoldKind::FastFill, B256::repeat_byte(1));

fn causes() -> Vec<Cause> {
    vec![
        Cause::Funding { transfer: 1 },
        Cause::AppFee { payment: 1, place: 0 },
        Cause::AppFee { payment: 1, place: 1 },
        Cause::SameChainFee { execution: 1, place: 0 },
        Cause::SameChainFee { execution: 1, place: 1 },
        Cause::Sponsorship { payment: 1 },
        Cause::FixedRate { payment: 1 },
        Cause::FastFillSurplus { deposit: 1 },
        Cause::FastFillShortage { deposit: 1 },
        Cause::FastFillLoss { hold: HOLD },
        Cause::FastFillLossBeyond { hold: HOLD },
        Cause::FastFillReturn { hold: HOLD },
        Cause::FastFillGas { hold: HOLD },
        Cause::Claim { hold: HoldId::first(HoldKind::Claim, B256::repeat_byte(1)) },
    ]
}

#[test]
fn every_cause_has_an_id_of_its_own() {
    let ids: HashSet<_> = causes().into_iter().map(Cause::id).collect();
    assert_eq!(ids.len(), causes().len());
    assert_eq!(Cause::AppFee { payment: 7, place: 2 }.id(), "app-fee:7/2");
    let fees = [(1, 0), (1, 1), (2, 0), (256, 0)].map(|(payment, place)| HoldId::of_app_fee(payment, place).subject);
    assert_eq!(HashSet::from(fees).len(), fees.len());
    assert_eq!(HOLD.to_string(), format!("fast-fill:0x{}/0", "01".repeat(32)));
}

#[test]
fn what_is_paid_out_is_what_is_taken_off() {
    let amount = |units: u64| Amount::new(U256::from(units));
    assert_eq!(UsdcMicros(1_234_567).in_units(6), Ok(amount(1_234_567)));
    assert_eq!(UsdcMicros(1_234_567).in_units(8), Ok(amount(123_456_700)));
    assert_eq!(UsdcMicros(1_230_000).in_units(2), Ok(amount(123)));
    assert!(UsdcMicros(1_234_567).in_units(2).is_err() && UsdcMicros(-1).in_units(6).is_err());
}

#[test]
fn an_entry_moves_something_and_the_right_way() {
    let fits = |cause, delta| Entry::new(cause, WALLET, UsdcMicros(delta), None).is_ok();
    for cause in causes() {
        assert!(!fits(cause, 0));
        assert!(!fits(cause, MAX_AMOUNT.0 + 1) && !fits(cause, i64::MIN));
    }
    assert!(fits(Cause::Funding { transfer: 1 }, 1) && !fits(Cause::Funding { transfer: 1 }, -1));
    assert!(fits(Cause::Sponsorship { payment: 1 }, -1) && !fits(Cause::Sponsorship { payment: 1 }, 1));
    assert!(fits(Cause::FixedRate { payment: 1 }, -1) && fits(Cause::FixedRate { payment: 1 }, 1));
}

#[test]
fn what_is_available_depends_on_the_use() {
    let account = |balance, held, reserved| Account {
        balance: UsdcMicros(balance),
        held: UsdcMicros(held),
        reserved: UsdcMicros(reserved),
    };
    for (account, narrow, wide) in [
        (account(100, 0, 0), 100, 100),
        (account(100, 30, 0), 70, 100),
        (account(100, 30, 50), 20, 50),
        (account(100, 100, 50), 0, 50),
        (account(-10, 0, 0), 0, 0),
    ] {
        assert_eq!(account.available(HoldKind::FastFill), UsdcMicros(narrow));
        assert_eq!(account.available(HoldKind::Claim), UsdcMicros(narrow));
        assert_eq!(account.available(HoldKind::Sponsorship), UsdcMicros(wide));
    }
    // A hold of nothing is refused to those who owe too much already.
    let nothing = UsdcMicros::ZERO;
    assert!(account(-50_000_000, 0, 0).covers(HoldKind::Sponsorship, nothing));
    assert!(!account(-50_000_001, 0, 0).covers(HoldKind::Sponsorship, nothing));
    assert!(!account(-1, 0, 0).covers(HoldKind::Sponsorship, UsdcMicros(1)));
}

#[test]
fn a_hold_pays_for_no_more_than_it_holds() {
    let entry = |cause, delta| Entry::new(cause, WALLET, UsdcMicros(delta), None).unwrap();
    let fees = entry(Cause::Sponsorship { payment: 1 }, -70);
    let loss = entry(Cause::FixedRate { payment: 1 }, -50);
    let gain = entry(Cause::FixedRate { payment: 1 }, 50);
    assert!(fits(UsdcMicros(120), WALLET, &[fees, loss]));
    assert!(!fits(UsdcMicros(119), WALLET, &[fees, loss]));
    assert!(fits(UsdcMicros(20), WALLET, &[fees, gain]));
    assert!(fits(UsdcMicros::ZERO, WALLET, &[]));
    assert!(!fits(UsdcMicros(120), Address::ZERO, &[fees]));
}
