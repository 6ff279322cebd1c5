use proptest::prelude::*;

use super::*;

fn options() -> impl Strategy<Value = QuoteOptions> {
    let app = proptest::collection::vec(0u16..200, 0..3);
    (app, proptest::option::of(proptest::option::of(0i64..5_000_000)), proptest::option::of(0i64..5_000_000)).prop_map(
        |(app, sponsor, top_up)| QuoteOptions {
            app_fees: app.into_iter().map(|bps| AppFee { recipient: Address::repeat_byte(6), bps }).collect(),
            sponsor: sponsor.and_then(|cap| sponsored(cap).sponsor),
            top_up: top_up.map(UsdMicros),
            any_impact: true,
            ..QuoteOptions::default()
        },
    )
}

fn trades() -> impl Strategy<Value = Trade> {
    prop_oneof![Just(Trade::ExactInput), Just(Trade::ExactOutput), Just(Trade::ExpectedOutput)]
}

proptest! {
    #[test]
    fn deposit_equals_fees_plus_what_is_left(amount in 1u128..1u128 << 80) {
        if let Ok(quote) = quote(amount, 1, 1, u128::MAX >> 1) {
            let figures = quote.figures;
            prop_assert_eq!(figures.fees.total().unwrap().taken_from(figures.input).unwrap(), figures.output);
            prop_assert!(figures.minimum <= figures.output);
        }
    }

    #[test]
    fn a_fixed_output_costs_the_least_input_that_pays_for_it(amount in 1u128..1u128 << 70, to in 1usize..3) {
        if let Ok(fixed) = trade(Trade::ExactOutput, amount, 1, to, u128::MAX >> 1) {
            let input = u128::try_from(fixed.figures.input.units()).unwrap();
            prop_assert_eq!(fixed.figures.output.units(), U256::from(amount));
            let forward = quote(input, 1, to, u128::MAX >> 1).unwrap();
            prop_assert!(forward.figures.output >= fixed.figures.output);
            if let Ok(less) = quote(input - 1, 1, to, u128::MAX >> 1) {
                prop_assert!(less.figures.output < fixed.figures.output);
            }
        }
    }

    #[test]
    fn more_in_is_never_less_out(amount in 1u128..1u128 << 80, more in 0u128..1u128 << 40, to in 1usize..3) {
        if let (Ok(less), Ok(greater)) = (quote(amount, 1, to, u128::MAX >> 1), quote(amount + more, 1, to, u128::MAX >> 1)) {
            prop_assert!(greater.figures.output >= less.figures.output);
        }
    }

    #[test]
    fn user_and_sponsor_pay_what_is_delivered_and_all_fees(
        options in options(), trade in trades(), amount in 1u128..1u128 << 84, from in 0usize..4, to in 1usize..4,
        needs in (-10_000i32..10_000, -10_000i32..10_000),
    ) {
        let terms = Terms { rebalance_bps: 30, ..terms() };
        let case = Case { trade, options, needs, terms, ..Case::new(amount, from, to) };
        if let Ok(quote) = case.quote() {
            let figures = &quote.figures;
            let sponsored = figures.sponsorship.as_ref().map_or(Amount::ZERO, |paid| paid.sponsored_total().unwrap());
            let paid_in = figures.deposit.checked_add(sponsored).unwrap();
            prop_assert_eq!(figures.fees.total().unwrap().taken_from(paid_in).unwrap(), figures.exchanged);
            prop_assert!(figures.minimum <= figures.output);
        }
    }

    #[test]
    fn more_in_is_never_less_out_in_any_mode(
        options in options(), amount in 1u128..1u128 << 84, more in 0u128..1u128 << 60, from in 0usize..4, to in 1usize..4,
    ) {
        let case = |amount| Case { options: options.clone(), ..Case::new(amount, from, to) }.quote();
        if let (Ok(less), Ok(greater)) = (case(amount), case(amount + more)) {
            prop_assert!(greater.figures.output >= less.figures.output);
        }
    }
}
