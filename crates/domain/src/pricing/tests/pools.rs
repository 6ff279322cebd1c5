use super::*;

#[test]
fn a_token_with_a_pool_is_deposited_as_what_the_pool_gives() {
    let (tail, one) = (100_000 * ETHER, 1);
    let quote = quote(tail, 3, one, u128::MAX >> 1).unwrap();
    let swap = quote.origin_swap.as_ref().unwrap();
    assert_eq!((swap.input, swap.output), (quote.figures.input, quote.figures.deposit));
    let order = quote.order().unwrap();
    assert_eq!(order.inputs[0].amount, quote.figures.deposit);
    assert_eq!(order.inputs[0].currency, Address::ZERO.into());
    // The least the user's swap may bring is the least that still pays for the minimum.
    let Bound::LeastOutput(least) = swap.bound else { panic!("the input is fixed") };
    assert!(least < swap.output && least > swap.output.mul_floor(Ratio::bps(9_790)).unwrap());
    assert!(quote.destination_swap.is_none());
}

#[test]
fn an_output_that_we_do_not_hold_is_bought_in_the_fill() {
    let quote = quote(250_000_000, 1, 3, u128::MAX >> 1).unwrap();
    let swap = quote.destination_swap.as_ref().unwrap();
    assert_eq!((swap.input, swap.output), (quote.figures.paid, quote.figures.output));
    assert_eq!(swap.bound, Bound::LeastOutput(quote.figures.minimum));
    let terms = quote.terms.as_ref().unwrap();
    assert_eq!(terms.payout.address, Address::ZERO.into());
    assert_eq!(quote.order().unwrap().output.payments[0].currency, quote.ask.destination.address);
}

#[test]
fn an_exact_output_is_bought_with_room_for_the_pools_to_move() {
    let quote = trade(Trade::ExactOutput, 5_000 * ETHER, 3, 3, u128::MAX >> 1).unwrap();
    let (origin, destination) = (quote.origin_swap.as_ref().unwrap(), quote.destination_swap.as_ref().unwrap());
    assert_eq!((quote.figures.output, quote.figures.minimum), (quote.ask.amount, quote.ask.amount));
    assert_eq!(destination.bound, Bound::MostInput(quote.figures.paid));
    assert_eq!(destination.input.mul_ceil(Ratio::bps_more(50)).unwrap(), quote.figures.paid);
    assert_eq!(origin.bound, Bound::MostInput(origin.input.mul_ceil(Ratio::bps_more(50)).unwrap()));
    assert_eq!(quote.figures.operation, Operation::Bridge);
    let expected = trade(Trade::ExpectedOutput, 5_000 * ETHER, 3, 3, u128::MAX >> 1).unwrap();
    assert!(expected.figures.output >= expected.ask.amount && expected.figures.minimum < expected.ask.amount);
}

#[test]
fn a_trade_that_loses_too_much_needs_insisting() {
    let big = |any_impact| {
        let options = QuoteOptions { any_impact, ..QuoteOptions::default() };
        Case { options, ..Case::new(2_000_000 * ETHER, 3, 1) }.quote()
    };
    assert_eq!(big(false), Err(Refusal::ImpactTooHigh));
    assert!(big(true).is_ok());
}

#[test]
fn an_inventory_out_of_balance_makes_transfers_dearer_or_cheaper() {
    let with = |needs| {
        let terms = Terms { rebalance_bps: 20, ..terms() };
        Case { needs, terms, ..Case::new(250_000_000, 1, 1) }.quote().unwrap().figures
    };
    assert_eq!(with((0, 10_000)).fees.rebalance, Signed::cost("250000".parse().unwrap()));
    assert_eq!(with((10_000, -10_000)).fees.rebalance, Signed::reward("500000".parse().unwrap()));
    assert_eq!(with((10_000, -10_000)).output.to_string(), "250300000");
    assert_eq!(with((5_000, 5_000)).fees.rebalance, Signed::ZERO);
}

#[test]
fn gas_can_be_delivered_beside_the_output() {
    let options = QuoteOptions { top_up: Some(UsdMicros(2_000_000)), ..QuoteOptions::default() };
    let quote = Case { options: options.clone(), ..Case::new(250_000_000, 1, 1) }.quote().unwrap();
    assert_eq!(quote.figures.fees.top_up.to_string(), "2000000");
    assert_eq!(quote.figures.top_up.unwrap().to_string(), "666666666666666");
    assert_eq!(quote.figures.output.to_string(), "247800000");
    let order = quote.order().unwrap();
    assert_eq!(order.output.payments.len(), 2);
    assert_eq!(order.output.payments[1].minimum, quote.figures.top_up.unwrap());
    assert_eq!(Case { options, ..Case::new(ETHER, 0, 0) }.quote(), Err(Refusal::TopUpOfGas));
}

#[test]
fn calls_spend_what_arrives_and_no_more() {
    let calls = |value: u128| {
        let call = Call { to: Address::repeat_byte(5), value: Amount::new(U256::from(value)), data: Bytes::new() };
        QuoteOptions { calls: vec![call], ..QuoteOptions::default() }
    };
    let native = |value| Case { options: calls(value), ..Case::new(ETHER, 0, 0) }.quote();
    let quote = native(ETHER / 2).unwrap();
    let order = quote.order().unwrap();
    assert_eq!(order.output.calls.len(), 1);
    assert_eq!(order.output.payments[0].recipient, Address::repeat_byte(0xd1).into());
    assert_eq!(native(ETHER), Err(Refusal::CallValues));
    assert_eq!(Case { options: calls(1), ..Case::new(250_000_000, 1, 1) }.quote(), Err(Refusal::CallValues));
}

#[test]
fn app_fees_come_out_of_the_input_and_stay_below_it() {
    let fee = |bps| AppFee { recipient: Address::repeat_byte(6), bps };
    let with = |app_fees| {
        Case { options: QuoteOptions { app_fees, ..QuoteOptions::default() }, ..Case::new(250_000_000, 1, 1) }.quote()
    };
    let figures = with(vec![fee(100), fee(50)]).unwrap().figures;
    assert_eq!(figures.fees.app.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2500000", "1250000"]);
    assert_eq!(figures.output.to_string(), "246050000");
    assert_eq!(with(vec![fee(5_000), fee(5_000)]), Err(Refusal::AppFees));
}
