use super::*;

#[test]
fn a_sponsor_pays_the_fees_and_the_user_gets_the_markets_rate() {
    let figures = Case { options: sponsored(None), ..Case::new(250_000_000, 1, 2) }.quote().unwrap().figures;
    assert_eq!(figures.output.to_string(), "250000000000000000000");
    // The gas of the fill stays in the figures, whoever pays it: it bounds the cost of failed calls.
    assert_eq!(figures.fees.fill_gas.to_string(), "180000");
    let paid = figures.sponsorship.unwrap();
    assert_eq!(paid.sponsored_total().unwrap().to_string(), "225000");
    let capped = Case { options: sponsored(Some(100_000)), ..Case::new(250_000_000, 1, 2) }.quote().unwrap().figures;
    assert_eq!(capped.output.to_string(), "249875000000000000000");
    // One who cannot pay pays nothing, and the quote stands without.
    let broke = Case { options: sponsored(None), sponsor: 224_999, ..Case::new(250_000_000, 1, 2) }.quote().unwrap();
    assert_eq!(broke.figures.sponsorship.unwrap().sponsored_total().unwrap(), Amount::ZERO);
    assert_eq!(broke.figures.output.to_string(), "249775000000000000000");
}

#[test]
fn a_sponsor_makes_good_what_the_pools_take() {
    let with = |options| Case { options, ..Case::new(100_000 * ETHER, 3, 1) }.quote().unwrap().figures;
    let (plain, paid) = (with(QuoteOptions::default()), with(sponsored(None)));
    let fair: Amount = "2000000000".parse().unwrap();
    assert!(plain.output < paid.output && paid.output <= fair);
    assert!(fair.checked_sub(paid.output).unwrap() <= "10".parse().unwrap(), "{}", paid.output);
    // The other way round the user pays what the output is worth.
    let backward = |options| {
        let case = Case { trade: Trade::ExactOutput, options, ..Case::new(2_000_000_000, 3, 1) };
        case.quote().unwrap().figures
    };
    let (plain, paid) = (backward(QuoteOptions::default()), backward(sponsored(None)));
    let fair: Amount = (100_000 * ETHER).to_string().parse().unwrap();
    assert!(plain.input > fair);
    let near = fair.mul_floor(Ratio::bps(9_999)).unwrap()..=fair.mul_ceil(Ratio::bps_more(1)).unwrap();
    assert!(near.contains(&paid.input), "{}", paid.input);
}

#[test]
fn what_the_pools_take_is_told_even_where_the_user_pays_it() {
    for trade in [Trade::ExactInput, Trade::ExactOutput] {
        let amount = if trade == Trade::ExactInput { 100_000 * ETHER } else { 1_900_000_000 };
        let with = |selected: &[Component]| {
            let sponsor = SponsorAsk::new(SPONSOR, selected.to_vec(), None);
            let options = QuoteOptions { sponsor: Some(sponsor), ..QuoteOptions::default() };
            let figures = Case { trade, options, ..Case::new(amount, 3, 1) }.quote().unwrap().figures;
            (figures.output, figures.input, figures.sponsorship.unwrap())
        };
        let plain = Case { trade, ..Case::new(amount, 3, 1) }.quote().unwrap().figures;
        let (output, input, none) = with(&[]);
        assert_eq!((output, input), (plain.output, plain.input), "nobody makes it good");
        let swap = none.bucket(Component::Swap);
        assert!(swap.total.size() > plain.fees.rebalance.size() && !swap.total.is_negative(), "{swap:?}");
        assert!(swap.sponsored.is_zero());
        let (.., all) = with(&[Component::Swap]);
        assert!(!all.bucket(Component::Swap).sponsored.is_zero());
    }
}

#[test]
fn a_fixed_rate_holds_whatever_the_market_says() {
    let rate = |rate: &str| QuoteOptions { fixed_rate: Some(rate.parse().unwrap()), ..sponsored(None) };
    let with = |options| Case { options, ..Case::new(250_000_000, 1, 1) }.quote();
    let figures = with(rate("1:0.9996")).unwrap().figures;
    assert_eq!((figures.output.to_string(), figures.minimum.to_string()), ("249900000".into(), "249900000".into()));
    assert_eq!(figures.fixed.unwrap().market_output.to_string(), "250000000");
    assert_eq!(with(rate("1:1.06")), Err(Refusal::FixedRateDeviates));
    assert_eq!(with(QuoteOptions { sponsor: None, ..rate("1:1") }), Err(Refusal::FixedRateUnsponsored));
    let unheld = Case { options: rate("1:1"), ..Case::new(ETHER, 0, 0) }.quote();
    assert_eq!(unheld, Err(Refusal::FixedRateCurrency));
    let broke = Case { options: rate("1:1"), sponsor: 10, ..Case::new(250_000_000, 1, 1) }.quote();
    assert_eq!(broke, Err(Refusal::SponsorBalance));
    // The fees are two cents and the gas; the drift, ten cents more.
    let with_balance = |sponsor| Case { options: rate("1:1.0004"), sponsor, ..Case::new(250_000_000, 1, 1) }.quote();
    let fees = with_balance(i64::MAX).unwrap().figures.sponsorship.unwrap().sponsored_total().unwrap();
    let cost = i64::try_from(fees.units()).unwrap() + 100_000;
    assert!(with_balance(cost).is_ok());
    assert_eq!(with_balance(cost - 1), Err(Refusal::SponsorBalance));
    // A sponsor that owes too much gets no fixed rate, even one that pays.
    let earning = Case { options: rate("1:0.9996"), sponsor: -1, ..Case::new(250_000_000, 1, 1) }.quote();
    assert_eq!(earning, Err(Refusal::SponsorBalance));
    for trade in [Trade::ExactOutput, Trade::ExpectedOutput] {
        let broke = Case { trade, options: rate("1:1"), sponsor: 10, ..Case::new(250_000_000, 1, 1) }.quote();
        assert_eq!(broke, Err(Refusal::SponsorBalance), "{trade:?}");
    }
    let backward = Case { trade: Trade::ExactOutput, options: rate("1:0.5").clone(), ..Case::new(1, 1, 1) };
    assert_eq!(backward.quote(), Err(Refusal::FixedRateDeviates));
    let backward = Case { trade: Trade::ExactOutput, options: rate("1:0.9996"), ..Case::new(249_900_000, 1, 1) };
    assert_eq!(backward.quote().unwrap().figures.input.to_string(), "250000000");
}

#[test]
fn a_fixed_rate_is_exactly_that_whatever_our_inventory_needs() {
    for (needs, trade, amount) in [
        ((10_000, -10_000), Trade::ExactInput, 250_000_000),
        ((10_000, -10_000), Trade::ExactOutput, 249_900_000),
        ((-10_000, 10_000), Trade::ExactInput, 250_000_000),
        ((0, 0), Trade::ExactInput, 250_000_000),
    ] {
        let options = QuoteOptions { fixed_rate: Some("1:0.9996".parse().unwrap()), ..sponsored(None) };
        let terms = Terms { rebalance_bps: 20, ..terms() };
        let figures = Case { needs, terms, trade, options, ..Case::new(amount, 1, 1) }.quote().unwrap().figures;
        let (input, output) = (figures.input.to_string(), figures.output.to_string());
        assert_eq!((input.as_str(), output.as_str()), ("250000000", "249900000"), "{needs:?} {trade:?}");
    }
}

#[test]
fn who_bears_what_adds_up_to_what_the_user_loses() {
    let user_pays = |figures: &Figures| {
        let (deposit, paid) = (figures.prices.deposit, figures.sponsorship.as_ref().unwrap());
        paid.buckets.iter().map(|bucket| deposit.usd_signed(bucket.user_pays().unwrap(), 18).unwrap().0).sum::<i64>()
    };
    let lost = |figures: &Figures, to: u8| {
        let worth = figures.prices.destination.usd_floor(figures.output, to).unwrap();
        figures.prices.origin.usd_floor(figures.input, 18).unwrap().0 - worth.0
    };
    // Through a pool whose loss nobody makes good, out of a pool that somebody does, and at a rate that a pool bounds.
    let bounded = Some(Ratio::new(U256::from(2_900_000_000u64), U256::from(ETHER)).unwrap());
    for (from, to, amount, losses_known, hedge) in [
        (3, 0, 5_000 * ETHER, false, None),
        (3, 0, 5_000 * ETHER, true, None),
        (0, 3, ETHER / 10, false, None),
        (0, 3, ETHER / 10, true, None),
        (0, 1, ETHER, true, bounded),
    ] {
        for options in [sponsored(None), sponsored(Some(50_000)), sponsored(Some(0))] {
            let case = Case { options, losses_known, hedge, ..Case::new(amount, from, to) };
            let figures = case.quote().unwrap().figures;
            let (pays, lost) = (user_pays(&figures), lost(&figures, if to == 1 { 6 } else { 18 }));
            assert!((pays - lost).abs() <= 20, "{from} to {to}: the user pays {pays} and loses {lost}");
            assert!(losses_known && hedge.is_none() || lost > 1_000, "this shows nothing");
        }
    }
}
