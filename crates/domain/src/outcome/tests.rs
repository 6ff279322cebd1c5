use alloy_primitives::{B256, U256};

use super::*;
use crate::catalog::Class;
use crate::pair::ByClass;
use crate::pricing::tests::{SPONSOR, a_quote, a_sponsored_quote, currency, terms};
use crate::sponsorship::NotSponsored;
use crate::terms::Terms;

fn amount(units: u128) -> Amount {
    Amount::new(U256::from(units))
}

fn dollars(answer: u128) -> Price {
    Price::new(answer, 8).unwrap()
}

const PAR: u128 = 100_000_000;

fn costs(gas: i64, market: Option<u128>) -> Costs {
    let par = dollars(PAR);
    let (gas, market, rate) = (UsdMicros(gas), market.map(amount), credit_rate(PAR, PAR));
    Costs { deposit: par, payout: par, usdc: par, credit: Some(rate), gain: Some(rate), gas, market }
}

/// The rate of credits where an exchange costs nothing.
fn credit_rate(of: u128, usdc: u128) -> CreditRate {
    let free = ByClass { stable: 0, major: 0, minor: 0 };
    let terms = Terms { relay_bps: free, spread_bps: free, ..terms() };
    let [from, to] = ["usdt", "usdc"].map(|id| currency(8453, 1, id, 6, Class::Stable));
    CreditRate::new((&from, dollars(of)), (&to, dollars(usdc)), None, &terms).unwrap()
}

fn outcome(quote: &Quote, deposited: Amount, output: Amount, costs: &Costs) -> Option<Outcome> {
    let deposit = currency(8453, 1, "usdc", 6, Class::Stable);
    let payout =
        if quote.figures.fixed.is_some() { deposit.clone() } else { currency(10, 2, "dai", 18, Class::Stable) };
    Outcome::of(quote, deposited, output, costs, Currencies { deposit: &deposit, payout: &payout }).unwrap()
}

fn at_quote(quote: &Quote, costs: &Costs) -> Outcome {
    outcome(quote, quote.figures.deposit, quote.figures.paid, costs).unwrap()
}

fn gas_of(quote: &Quote) -> i64 {
    i64::try_from(quote.figures.fees.fill_gas.units()).unwrap()
}

#[test]
fn a_plain_transfer_comes_to_nothing() {
    let quote = a_quote();
    assert_eq!(outcome(&quote, quote.figures.deposit, quote.figures.paid, &costs(1_000, None)), None);
}

#[test]
fn at_the_quoted_costs_the_sponsor_pays_the_quoted_fees() {
    let quote = a_sponsored_quote(None, None);
    let quoted = quote.figures.sponsorship.clone().unwrap();
    let outcome = at_quote(&quote, &costs(gas_of(&quote), None));
    let paid = outcome.sponsored.as_ref().unwrap();
    assert_eq!(paid.fees, quoted);
    assert_eq!(paid.payment.0, i64::try_from(quoted.sponsored_total().unwrap().units()).unwrap());
    assert_eq!(outcome.reservation(), Some((SPONSOR, paid.payment)));
    // Ten basis points of 250 dollars for the app.
    assert_eq!(outcome.app_fees.iter().map(|fee| fee.credit.unwrap().0).collect::<Vec<_>>(), [250_000]);
}

#[test]
fn gas_that_turned_out_otherwise_is_the_sponsor_s() {
    let quote = a_sponsored_quote(None, None);
    let (gas, base) = (gas_of(&quote), at_quote(&quote, &costs(gas_of(&quote), None)));
    let payment = |outcome: &Outcome| outcome.sponsored.as_ref().unwrap().payment.0;
    let dearer = at_quote(&quote, &costs(gas + 500, None));
    assert_eq!(payment(&dearer), payment(&base) + 500);
    let cheaper = at_quote(&quote, &costs(gas - 500, None));
    assert_eq!(payment(&cheaper), payment(&base) - 500);
    // Up to its cap, and never for what the user has paid already.
    let capped = a_sponsored_quote(Some(100_000), None);
    assert_eq!(payment(&at_quote(&capped, &costs(gas, None))), 100_000);
    assert_eq!(payment(&at_quote(&capped, &costs(gas + 500, None))), 100_000);
    assert_eq!(payment(&at_quote(&capped, &costs(gas - 500, None))), 99_500);
}

#[test]
fn a_sponsor_that_could_not_pay_when_asked_is_not_asked_again() {
    let mut quote = a_sponsored_quote(None, None);
    let quoted = quote.figures.sponsorship.clone().unwrap();
    quote.figures.sponsorship =
        Some(Sponsorship::none(&quoted.ask, quoted.buckets.map(|bucket| bucket.total), NotSponsored::BalanceTooLow));
    let outcome = at_quote(&quote, &costs(gas_of(&quote) + 500, None));
    assert_eq!((outcome.sponsored, outcome.app_fees.len()), (None, 1));
}

#[test]
fn apps_earn_no_more_than_is_paid_where_a_cap_falls_short() {
    // The cap pays for everything at the quoted price; the deposit's currency is worth twice as much at the fill.
    let free = a_sponsored_quote(None, None);
    let all = free.figures.sponsorship.as_ref().unwrap().sponsored_total().unwrap();
    let quote = a_sponsored_quote(Some(i64::try_from(all.units()).unwrap()), None);
    let quoted = quote.figures.sponsorship.as_ref().unwrap();
    assert!(!quoted.cap_hit && quoted.bucket(Component::App).user_pays().unwrap().size().is_zero());
    let credit = Some(credit_rate(2 * PAR, PAR));
    let dear = Costs { deposit: dollars(2 * PAR), credit, ..costs(2 * gas_of(&quote), None) };
    let outcome = at_quote(&quote, &dear);
    let paid = outcome.sponsored.as_ref().unwrap();
    assert!(paid.fees.cap_hit);
    let earned: i64 = outcome.app_fees.iter().map(|fee| fee.credit.unwrap().0).sum();
    assert!(earned <= paid.payment.0, "{earned} earned, {} paid", paid.payment.0);
    // The app gets the part of the cap that is left for the last bucket.
    let app = paid.fees.bucket(Component::App);
    let worth = dear.deposit.usd_floor(app.sponsored, 6).unwrap().0;
    assert!((worth - earned).abs() <= 2, "{worth} against {earned}");
}

#[test]
fn a_short_deposit_shrinks_shares_and_not_gas() {
    let quote = a_sponsored_quote(None, None);
    let half = quote.figures.deposit.mul_floor(Ratio::bps(5_000)).unwrap();
    let outcome = outcome(&quote, half, quote.figures.paid, &costs(gas_of(&quote), None)).unwrap();
    let (quoted, paid) = (quote.figures.sponsorship.as_ref().unwrap(), &outcome.sponsored.as_ref().unwrap().fees);
    assert_eq!(paid.bucket(Component::Execution), quoted.bucket(Component::Execution));
    assert_eq!(outcome.app_fees[0].credit.unwrap().0, 125_000);
    // More than was quoted for is not paid for.
    let double = quote.figures.deposit.checked_add(quote.figures.deposit).unwrap();
    let more = super::tests::outcome(&quote, double, quote.figures.paid, &costs(gas_of(&quote), None)).unwrap();
    assert_eq!(more, at_quote(&quote, &costs(gas_of(&quote), None)));
}

#[test]
fn a_fixed_rate_s_drift_is_booked_apart_from_the_fees() {
    let quote = a_sponsored_quote(None, Some("1:1"));
    let request = RequestId(B256::repeat_byte(1));
    assert_eq!(quote.figures.paid.to_string(), "250000000");
    for (market, drift) in [(250_000_000, 0), (250_200_160, 200_160), (249_850_089, -149_911)] {
        let outcome = at_quote(&quote, &costs(gas_of(&quote), Some(market)));
        let it = outcome.sponsored.clone().unwrap();
        assert_eq!(it.drift.0, drift);
        let set_aside = outcome.reservation().unwrap().1;
        assert_eq!(set_aside.0, it.payment.0 + (-drift).max(0), "a gain pays for no fees");
        let entries = outcome.sponsor_entries(7, request).unwrap();
        assert!(crate::ledger::fits(set_aside, SPONSOR, &entries));
        let moved: Vec<_> = entries.iter().map(|entry| (entry.cause().id(), entry.delta().0)).collect();
        let mut expected = vec![("sponsorship:7".to_owned(), -it.payment.0)];
        expected.extend((drift != 0).then(|| ("fixed-rate:7".to_owned(), drift)));
        assert_eq!(moved, expected);
    }
}

#[test]
fn dollars_become_usdc_at_its_price() {
    let quote = a_sponsored_quote(None, None);
    let credit = Some(credit_rate(PAR, 50_000_000));
    let cheap = Costs { usdc: dollars(50_000_000), credit, ..costs(gas_of(&quote), None) };
    let (at_par, at_half) = (at_quote(&quote, &costs(gas_of(&quote), None)), at_quote(&quote, &cheap));
    let of = |outcome: &Outcome| (outcome.sponsored.as_ref().unwrap().payment.0, outcome.app_fees[0].credit.unwrap().0);
    assert_eq!(of(&at_half), (of(&at_par).0 * 2, of(&at_par).1 * 2));
}

#[test]
fn app_fees_of_unknown_worth_are_credited_later_and_a_gain_is_not() {
    let request = RequestId(B256::ZERO);
    let unknown = |market| Costs { credit: None, gain: None, ..costs(1_000, market) };
    let outcome = at_quote(&a_sponsored_quote(None, None), &unknown(None));
    assert!(outcome.is_unpriced() && outcome.app_entries(7, request).unwrap().is_empty());
    let known = outcome.clone().priced(Some(credit_rate(PAR / 2, PAR))).unwrap();
    assert_eq!((known.is_unpriced(), known.app_entries(7, request).unwrap()[0].delta().0), (false, 125_000));
    assert_eq!(known.clone().priced(Some(credit_rate(PAR, PAR))), Ok(known), "once");
    assert!(outcome.priced(None).unwrap().app_entries(7, request).unwrap().is_empty());
    let fixed = at_quote(&a_sponsored_quote(None, Some("1:1")), &unknown(Some(250_200_160)));
    assert_eq!(fixed.sponsored.unwrap().drift, UsdcMicros::ZERO);
}

#[test]
fn every_recipient_has_an_entry_of_its_own() {
    let mut quote = a_sponsored_quote(None, None);
    quote.ask.options.app_fees.push(quote.ask.options.app_fees[0]);
    quote.figures.fees.app.push(amount(7));
    let outcome = at_quote(&quote, &costs(gas_of(&quote), None));
    let entries = outcome.app_entries(7, RequestId(B256::ZERO)).unwrap();
    let moved: Vec<_> = entries.iter().map(|entry| (entry.cause().id(), entry.delta().0)).collect();
    assert_eq!(moved, [("app-fee:7/0".to_owned(), 250_000), ("app-fee:7/1".to_owned(), 7)]);
}
