use super::*;
use crate::deposit_address::{AddressAsk, Kind};
use crate::pricing::tests::a_quote;

fn facts(quote: &Quote) -> Facts {
    Facts {
        chain: quote.ask.origin.chain,
        currency: quote.ask.origin.address.evm().unwrap(),
        amount: quote.figures.input,
        payer: quote.ask.user.evm().unwrap(),
        sender: quote.ask.user.evm().unwrap(),
        swept: false,
        relayed: false,
        block_time: quote.created_at,
    }
}

fn part(amount: Amount, bps: u16) -> Amount {
    amount.mul_floor(Ratio::bps(bps)).unwrap()
}

#[test]
fn the_quoted_deposit_earns_the_quoted_output() {
    let quote = a_quote();
    assert_eq!(judge(&quote, &facts(&quote)), Ok(Verdict::Fill { output: quote.figures.output }));
}

#[test]
fn every_other_deposit_has_its_verdict() {
    let quote = a_quote();
    let right = facts(&quote);
    let stranger = Address::repeat_byte(0x99);
    let late =
        Timestamp::from_secs(i64::from(quote.terms.as_ref().unwrap().deadline) - LAST_FILL_BEFORE_DEADLINE_SECS + 1);
    let cases: [(&str, Facts, Verdict); 8] = [
        (
            "another chain",
            Facts { chain: ChainId(1), ..right.clone() },
            Verdict::Unrecognized { reason: FailReason::DepositChainMismatch },
        ),
        (
            "another currency",
            Facts { currency: stranger, ..right.clone() },
            Verdict::Unrecognized { reason: FailReason::OriginCurrencyMismatch },
        ),
        (
            "dust from a stranger",
            Facts { amount: part(right.amount, 8_999), payer: stranger, sender: stranger, ..right.clone() },
            Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill },
        ),
        (
            "too little by the user's signature",
            Facts {
                amount: part(right.amount, 5_000),
                payer: stranger,
                sender: stranger,
                relayed: true,
                ..right.clone()
            },
            Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill },
        ),
        (
            "dust by the user's signature",
            Facts {
                amount: part(right.amount, 999),
                payer: stranger,
                sender: stranger,
                relayed: true,
                ..right.clone()
            },
            Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill },
        ),
        (
            "too little from the user",
            Facts { amount: part(right.amount, 5_000), ..right.clone() },
            Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill },
        ),
        (
            "the whole amount from a stranger",
            Facts { payer: stranger, sender: stranger, ..right.clone() },
            Verdict::Fill { output: quote.figures.output },
        ),
        (
            "too late",
            Facts { block_time: late, ..right.clone() },
            Verdict::Refund { reason: FailReason::ProtocolDeadlineExpired },
        ),
    ];
    for (name, facts, verdict) in cases {
        assert_eq!(judge(&quote, &facts), Ok(verdict), "{name}");
    }
}

/// A contract that the user calls deposits in the user's transaction: its native currency even seems to be paid by
/// the user.
#[test]
fn dust_under_an_order_is_dust_even_in_the_users_own_transaction() {
    let quote = a_quote();
    let right = facts(&quote);
    let (tenth, contract) = (part(right.amount, 1_000), Address::repeat_byte(0x77));
    let one = Amount::new(alloy_primitives::U256::from(1));
    assert!(tenth > quote.figures.fees.fixed().unwrap());
    let dust = Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill };
    let short = Verdict::Refund { reason: FailReason::DepositedAmountTooLowToFill };
    for (amount, verdict) in [(one, dust), (tenth.checked_sub(one).unwrap(), dust), (tenth, short)] {
        for payer in [right.payer, contract] {
            let facts = Facts { amount, payer, ..right.clone() };
            assert_eq!(judge(&quote, &facts), Ok(verdict), "{amount} of {payer}");
        }
    }
}

#[test]
fn a_fill_has_the_time_it_was_said_to_take_and_never_longer_than_the_order() {
    let mut quote = a_quote();
    quote.ask.ttl_secs = Some(600);
    quote.figures.time_estimate_secs = 768;
    let at = |secs| quote.created_at.plus(Duration::from_secs(secs));
    assert_eq!(too_late(&quote, at(601)), Some(FailReason::TtlExpired), "for a deposit");
    assert_eq!(fill_too_late(&quote, at(600 + 768)), None);
    assert_eq!(fill_too_late(&quote, at(600 + 769)), Some(FailReason::TtlExpired));
    quote.ask.ttl_secs = None;
    let end = i64::from(quote.terms.as_ref().unwrap().deadline) - LAST_FILL_BEFORE_DEADLINE_SECS;
    assert_eq!(fill_too_late(&quote, Timestamp::from_secs(end)), None);
    let ended = fill_too_late(&quote, Timestamp::from_secs(end + 1));
    assert_eq!(ended, Some(FailReason::ProtocolDeadlineExpired));
}

#[test]
fn more_or_less_is_scaled_at_the_quoted_rate() {
    let quote = a_quote();
    let mut deposit = facts(&quote);
    deposit.amount = part(quote.figures.input, 9_990);
    let Ok(Verdict::Fill { output }) = judge(&quote, &deposit) else { panic!("a little less still fills") };
    assert!(output < quote.figures.output && output >= quote.figures.minimum);
    deposit.amount = quote.figures.input.checked_add(quote.figures.input).unwrap();
    // The second half pays no gas and no flat fee of its own.
    let double = quote.figures.output.checked_add(quote.figures.input).unwrap();
    assert_eq!(judge(&quote, &deposit), Ok(Verdict::Fill { output: double }));
}

#[test]
fn a_deposit_that_does_not_cover_the_fixed_fees_does_not_count() {
    let mut quote = a_quote();
    quote.figures.minimum = Amount::ZERO;
    // Of a small order the fixed fees are more than a tenth.
    quote.figures.fees.flat = part(quote.figures.deposit, 2_000);
    let mut deposit = facts(&quote);
    let fixed = quote.figures.fees.fixed().unwrap();
    let one = Amount::new(alloy_primitives::U256::from(1));
    for amount in [Amount::ZERO, one, fixed] {
        deposit.amount = amount;
        let dust = Verdict::Unrecognized { reason: FailReason::DepositedAmountTooLowToFill };
        assert_eq!(judge(&quote, &deposit), Ok(dust), "{amount}");
    }
    deposit.amount = fixed.checked_add(one).unwrap();
    assert!(!matches!(judge(&quote, &deposit), Ok(Verdict::Unrecognized { .. })));
}

#[test]
fn an_exchange_is_not_stretched_beyond_its_quote() {
    let mut quote = a_quote();
    quote.terms.as_mut().unwrap().exchange = true;
    let mut deposit = facts(&quote);
    deposit.amount = part(quote.figures.input, 11_000);
    assert!(matches!(judge(&quote, &deposit), Ok(Verdict::Fill { .. })));
    deposit.amount = deposit.amount.checked_add(Amount::new(alloy_primitives::U256::from(1))).unwrap();
    assert_eq!(judge(&quote, &deposit), Ok(Verdict::Refund { reason: FailReason::Slippage }));
}

#[test]
fn what_is_beyond_an_order_that_does_not_grow_goes_back() {
    let mut quote = a_quote();
    let mut deposit = facts(&quote);
    deposit.amount = part(quote.figures.deposit, 15_000);
    // An order at the quoted rate grows with its deposit.
    assert_eq!(excess(&quote, deposit.amount), Ok(Amount::ZERO));
    quote.destination_swap = Some(bought(&quote));
    let beyond = deposit.amount.checked_sub(quote.figures.deposit).unwrap();
    assert_eq!(excess(&quote, deposit.amount), Ok(beyond));
    assert_eq!(judge(&quote, &deposit), Ok(Verdict::Fill { output: quote.figures.paid }));
    // A deposit far beyond it is not ours to give back in parts.
    let far =
        Facts { amount: part(quote.figures.deposit, 20_000).checked_add(quote.figures.deposit).unwrap(), ..deposit };
    assert_eq!(judge(&quote, &far), Ok(Verdict::Refund { reason: FailReason::Slippage }));
    // The parts are the whole.
    assert_eq!(quote.figures.deposit.checked_add(beyond), Ok(deposit.amount));
    // Next to nothing is kept: sending it back would cost more.
    let little = quote.figures.deposit.mul_floor(Ratio::bps_more(MAX_CAPPED_BPS)).unwrap();
    assert_eq!(excess(&quote, little), Ok(Amount::ZERO));
    for amount in [quote.figures.deposit, part(quote.figures.deposit, 5_000), Amount::ZERO] {
        assert_eq!(excess(&quote, amount), Ok(Amount::ZERO), "{amount}");
    }
}

/// Exactly the quoted output, for as much as is paid out at the most.
fn bought(quote: &Quote) -> crate::quote::Swap {
    crate::quote::Swap {
        path: crate::swap::Path::wrapping(Address::repeat_byte(3)),
        input: quote.figures.paid,
        output: quote.figures.output,
        bound: Bound::MostInput(quote.figures.paid),
    }
}

fn strict(kind: Kind) -> Quote {
    let mut quote = a_quote();
    quote.ask.options.deposit_address = Some(AddressAsk { kind, recovery: None });
    quote
}

/// The amount decides, whoever swept it: the exact one fills, more fills and the rest goes back, less goes back.
#[test]
fn a_strict_address_takes_the_exact_amount() {
    let quote = strict(Kind::Strict);
    let one = Amount::new(alloy_primitives::U256::from(1));
    let (stranger, quoted) = (Address::repeat_byte(0x99), quote.figures.deposit);
    let fill = Ok(Verdict::Fill { output: quote.figures.paid });
    let short = FailReason::DepositedAmountTooLowToFill;
    for swept in [false, true] {
        let facts = Facts { payer: stranger, sender: stranger, swept, ..facts(&quote) };
        let of = |amount| judge(&quote, &Facts { amount, ..facts.clone() });
        assert_eq!(of(quoted), fill);
        assert_eq!(of(quoted.checked_add(one).unwrap()), fill);
        assert_eq!(of(part(quoted, 50_000)), fill, "five times as much");
        let less = if swept {
            Verdict::Refund { reason: short }
        } else {
            // Anybody can pay some dust to the address and sweep it: the order goes on.
            Verdict::Unrecognized { reason: short }
        };
        for amount in [quoted.checked_sub(one).unwrap(), part(quoted, 9_500), one] {
            assert_eq!(of(amount), Ok(less), "{amount} swept by us: {swept}");
        }
        let other = Facts { currency: stranger, ..facts.clone() };
        assert_eq!(judge(&quote, &other), Ok(Verdict::Unrecognized { reason: FailReason::IncorrectDepositCurrency }));
    }
    assert_eq!(excess(&quote, quoted), Ok(Amount::ZERO));
    assert_eq!(excess(&quote, quoted.checked_add(one).unwrap()), Ok(one), "to the unit");
    assert_eq!(excess(&quote, part(quoted, 50_000)), quoted.mul_floor(Ratio::bps(40_000)));
}

#[test]
fn a_strict_address_that_is_paid_too_late_goes_back() {
    let mut quote = strict(Kind::Strict);
    quote.ask.ttl_secs = Some(600);
    quote.figures.time_estimate_secs = 30;
    let late = Facts { swept: true, block_time: quote.created_at.plus(Duration::from_secs(601)), ..facts(&quote) };
    assert_eq!(judge(&quote, &late), Ok(Verdict::Fill { output: quote.figures.paid }), "while it was swept");
    let said = u64::from(quote.figures.time_estimate_secs);
    let late = Facts { block_time: late.block_time.plus(Duration::from_secs(said)), ..late };
    assert_eq!(judge(&quote, &late), Ok(Verdict::Refund { reason: FailReason::TtlExpired }));
}

/// An open address has an order for each deposit: the order is judged like every other.
#[test]
fn the_order_of_an_open_address_is_judged_as_any_other() {
    let (open, plain) = (strict(Kind::Open), a_quote());
    for bps in [1, 5_000, 9_990, 10_000, 15_000] {
        let facts = Facts { amount: part(plain.figures.deposit, bps), ..facts(&plain) };
        assert_eq!(judge(&open, &facts), judge(&plain, &facts), "{bps}");
    }
}

/// Options differ between quotes of one route, and what arrives is priced by those of whoever gave the address out.
#[test]
fn every_quote_has_an_address_of_its_own() {
    use crate::deposit_address::Derivation;
    use crate::ids::OrderId;
    let order = |byte| OrderId(alloy_primitives::B256::repeat_byte(byte));
    let (open, mut exact) = (strict(Kind::Open), strict(Kind::Strict));
    assert_eq!(open.derivation(order(1)), open.derivation(order(1)));
    assert_ne!(open.derivation(order(1)), open.derivation(order(2)));
    assert_eq!(a_quote().derivation(order(1)), None);
    exact.ask.refund_to = Some(Address::repeat_byte(5).into());
    let named = Derivation::Strict { order: order(1), depositor: Address::repeat_byte(5) };
    assert_eq!(exact.derivation(order(1)), Some(named));
    // Nobody is known yet whom the salt could name.
    exact.ask.refund_to = Some(Address::ZERO.into());
    assert!(matches!(exact.derivation(order(1)), Some(Derivation::Open(_))));
}
