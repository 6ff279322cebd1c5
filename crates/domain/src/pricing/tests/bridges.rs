use super::*;

#[test]
fn a_stablecoin_bridge_costs_gas_and_the_flat_fee() {
    let figures = a_quote().figures;
    // 60,000 gas at 1 gwei and $3,000 is $0.18.
    assert_eq!(figures.fees.fill_gas.to_string(), "180000");
    assert_eq!(figures.fees.flat.to_string(), "20000");
    assert_eq!(figures.fees.relay, Amount::ZERO);
    assert_eq!(figures.output.to_string(), "249800000");
    assert_eq!(figures.minimum.to_string(), "248551000");
    assert_eq!(figures.operation, Operation::Bridge);
    assert_eq!(figures.time_estimate_secs, 4);
    let slow = Case { fill_millis: 1_600, ..Case::new(250_000_000, 1, 1) }.quote().unwrap().figures;
    assert_eq!(slow.time_estimate_secs, 6);
}

#[test]
fn two_stablecoins_are_swapped_at_a_basis_point() {
    let figures = quote(250_000_000, 1, 2, u128::MAX >> 1).unwrap().figures;
    assert_eq!(figures.fees.relay.to_string(), "25000");
    assert_eq!(figures.output.to_string(), "249775000000000000000");
    assert_eq!(figures.operation, Operation::Swap);
}

#[test]
fn what_cannot_be_served_is_refused() {
    assert_eq!(quote(200_000, 1, 1, u128::MAX >> 1), Err(Refusal::AmountTooLow { fees: "200000".parse().unwrap() }));
    assert_eq!(quote(250_000_000, 1, 1, 1_000_000), Err(Refusal::InsufficientLiquidity));
}

#[test]
fn an_exact_output_has_no_slippage_and_an_expected_one_has() {
    for (kind, minimum) in [(Trade::ExactOutput, "249800000"), (Trade::ExpectedOutput, "248551000")] {
        let figures = trade(kind, 249_800_000, 1, 1, u128::MAX >> 1).unwrap().figures;
        assert_eq!(figures.input.to_string(), "250000000");
        assert_eq!((figures.output.to_string(), figures.minimum.to_string()), ("249800000".into(), minimum.into()));
    }
}

#[test]
fn the_order_of_a_quote_is_bound_to_its_figures() {
    let quote = a_quote();
    let order = quote.order().unwrap();
    assert_eq!(order.inputs[0].amount, quote.figures.deposit);
    assert_eq!(order.output.payments[0].minimum, quote.figures.minimum);
    assert_eq!(order.inputs[0].refunds[0].recipient, quote.ask.user);
    let mut other = quote.clone();
    other.terms.as_mut().unwrap().salt = B256::repeat_byte(10);
    assert_ne!(other.order().unwrap().id(), order.id());
}

#[test]
fn ether_is_exchanged_for_dollars_at_the_feeds_less_the_spread() {
    let quote = quote(ETHER, 0, 1, u128::MAX >> 1).unwrap();
    let (figures, fees) = (&quote.figures, &quote.figures.fees);
    assert_eq!(fees.relay.to_string(), (ETHER / 10_000 * 6).to_string());
    assert_eq!(fees.rebalance.to_string(), (ETHER / 10_000 * 5).to_string());
    // $3,000 less $3.30 in shares, $0.18 of gas and $0.02, and a fraction of the smallest unit.
    assert_eq!(figures.output.to_string(), "2996499999");
    assert_eq!(quote.ask.ttl_secs, Some(600));
    assert!(quote.terms.as_ref().unwrap().exchange);
}

#[test]
fn no_rate_is_better_than_what_a_pool_would_give_us() {
    let with = |dollars: u64| {
        let hedge = Ratio::new(U256::from(dollars) * U256::from(1_000_000), U256::from(ETHER)).ok();
        Case { hedge, ..Case::new(ETHER, 0, 1) }.quote().unwrap().figures.output
    };
    let feeds = quote(ETHER, 0, 1, u128::MAX >> 1).unwrap().figures.output;
    assert_eq!(with(3_100), feeds, "the feeds are lower");
    // The pool gives $2,970: that is what is left once the spread of five basis points is off.
    let fees = Case::new(ETHER, 0, 1).quote().unwrap().figures;
    let bounded = fees.exchanged.mul_floor(
        Ratio::new(U256::from(2_970_000_000u64) * U256::from(10_000), U256::from(ETHER) * U256::from(9_995)).unwrap(),
    );
    assert_eq!(with(2_970), bounded.unwrap());
}

#[test]
fn what_depends_on_a_market_stands_for_ten_minutes_at_the_most() {
    let with = |case: Case, ttl| Case { ttl, ..case }.quote().unwrap().ask.ttl_secs;
    assert_eq!(with(Case::new(ETHER, 0, 1), Some(604_000)), Some(600));
    assert_eq!(with(Case::new(ETHER, 0, 1), Some(60)), Some(60));
    assert_eq!(with(Case::new(250_000_000, 1, 3), None), Some(600));
    assert_eq!(with(Case::new(250_000_000, 1, 1), Some(604_000)), Some(604_000), "a bridge is worth itself");
}
