use proptest::prelude::*;

use super::*;
use crate::account::Vm;
use crate::catalog::{Class, Dex, FillGas, Presentation};
use crate::ids::ChainId;
use crate::money::{Price, Ratio, Signed};
use alloy_primitives::Bytes;

use crate::fees::AppFee;
use crate::quote::{Bound, Call, Operation, QuoteOptions, Trade};
use crate::sponsorship::{Component, SponsorAsk};
use crate::swap::{Offer, Path};

pub(crate) fn currency(chain: u64, byte: u8, id: &str, decimals: u8, class: Class) -> Currency {
    Currency {
        chain: ChainId(chain),
        address: Address::repeat_byte(byte).into(),
        id: id.to_owned(),
        symbol: id.to_uppercase(),
        name: id.to_owned(),
        decimals,
        class,
        native: byte == 0,
        logo_uri: String::new(),
        resets_allowance: false,
        held: id != "tail",
        target: None,
    }
}

fn chain(id: u64, name: &str) -> Chain {
    Chain {
        id: ChainId(id),
        name: name.to_owned(),
        vm: Vm::Evm,
        presentation: Presentation {
            display_name: name.to_owned(),
            http_rpc_url: String::new(),
            ws_rpc_url: String::new(),
            explorer_url: String::new(),
            explorer_name: String::new(),
            icon_url: None,
        },
        native: currency(id, 0, "eth", 18, Class::Major),
        tokens: vec![
            currency(id, 1, "usdc", 6, Class::Stable),
            currency(id, 2, "dai", 18, Class::Stable),
            currency(id, 3, "tail", 18, Class::Minor),
            currency(id, 4, "weth", 18, Class::Major),
        ],
        depository: Address::repeat_byte(0xd0),
        router: Address::repeat_byte(0xd1),
        approval_proxy: Address::repeat_byte(0xd2),
        multicall3: Address::repeat_byte(0xd3),
        spend_limiter: None,
        dex: Some(Dex { swap_router: Address::repeat_byte(0xd4), wrapped: Address::repeat_byte(4) }),
        block_time_millis: 2_000,
        confirmations: 1,
        tiers: Vec::new(),
        fill_gas: FillGas {
            native_limit: 40_000,
            erc20_limit: 120_000,
            native_typical: 22_280,
            erc20_typical: 60_000,
            routed_limit: 400_000,
            routed_typical: 200_000,
        },
        private_id: None,
    }
}

fn terms() -> Terms {
    Terms {
        solver: Address::repeat_byte(0xaa),
        solver_chain: "base".to_owned(),
        flat_fee: UsdMicros(20_000),
        relay_bps: ByClass { stable: 1, major: 6, minor: 15 },
        spread_bps: ByClass { stable: 0, major: 5, minor: 30 },
        rebalance_bps: 0,
        most_impact_bps: 1_000,
        slippage_bps: 200,
        stable_slippage_bps: 50,
        order_lifetime: Duration::from_secs(604_800),
    }
}

/// A pool by the simplest rule there is: the product of both sides stays, after a fee of 0.3 %.
#[derive(Debug)]
struct Pool {
    from: U256,
    to: U256,
    path: Path,
}

impl Pool {
    fn new(from: u128, to: u128) -> Self {
        let path = Path::new(vec![Address::repeat_byte(3), Address::repeat_byte(4)], vec![3_000]).unwrap();
        Self { from: U256::from(from), to: U256::from(to), path }
    }

    fn offer(&self, amount: U256) -> Option<Offer> {
        (!amount.is_zero()).then(|| Offer { amount: Amount::new(amount), path: self.path.clone() })
    }
}

impl Exchange for Pool {
    fn sell(&self, input: Amount) -> Option<Offer> {
        let kept = input.units() * U256::from(997);
        self.offer(kept * self.to / (self.from * U256::from(1_000) + kept))
    }

    fn buy(&self, output: Amount) -> Option<Offer> {
        let left = self.to.checked_sub(output.units()).filter(|left| !left.is_zero())?;
        self.offer((self.from * output.units() * U256::from(1_000)).div_ceil(left * U256::from(997)))
    }
}

const ETHER: u128 = 1_000_000_000_000_000_000;
/// What TAIL is worth here, in dollars with eight decimals: two cents.
const TAIL_USD: u128 = 2_000_000;

/// TAIL for ether, and ether for TAIL, at the price of the feeds.
fn pools() -> (Pool, Pool) {
    let (tail, ether) = (7_500_000 * ETHER, 50 * ETHER);
    (Pool::new(tail, ether), Pool::new(ether, tail))
}

fn price_of(currency: &Currency) -> Price {
    let answer = match currency.id.as_str() {
        "eth" | "weth" => 300_000_000_000,
        "tail" => TAIL_USD,
        _ => 100_000_000,
    };
    Price::new(answer, 8).unwrap()
}

fn prices(route: Route<'_>) -> Prices {
    Prices {
        origin: price_of(route.origin.currency),
        deposit: price_of(route.deposit),
        origin_native: price_of(&route.origin.chain.native),
        payout: price_of(route.payout),
        destination: price_of(route.destination.currency),
        destination_native: price_of(&route.destination.chain.native),
    }
}

fn ask(trade: Trade, amount: u128, from: &Currency, to: &Currency, options: QuoteOptions) -> Ask {
    Ask {
        user: Address::repeat_byte(0x11).into(),
        recipient: Address::repeat_byte(0x22).into(),
        refund_to: None,
        origin: CurrencyKey { chain: from.chain, address: from.address.clone() },
        destination: CurrencyKey { chain: to.chain, address: to.address.clone() },
        trade,
        amount: Amount::new(U256::from(amount)),
        slippage_bps: None,
        referrer: None,
        explicit_deposit: true,
        ttl_secs: None,
        key: None,
        options,
    }
}

fn fresh() -> Fresh {
    Fresh { id: RequestId(B256::repeat_byte(7)), salt: B256::repeat_byte(9), now: Timestamp::from_secs(1_790_000_000) }
}

/// A transfer between two currencies by their place in the list; TAIL goes through its pool on either side.
struct Case {
    trade: Trade,
    amount: u128,
    from: usize,
    to: usize,
    payable: u128,
    options: QuoteOptions,
    needs: (i32, i32),
    sponsor: i64,
    terms: Terms,
    hedge: Option<Ratio>,
    ttl: Option<u32>,
    fill_millis: u64,
}

impl Case {
    fn new(amount: u128, from: usize, to: usize) -> Self {
        let (payable, options, needs, sponsor) = (u128::MAX >> 1, QuoteOptions::default(), (0, 0), i64::MAX);
        Self {
            trade: Trade::ExactInput,
            amount,
            from,
            to,
            payable,
            options,
            needs,
            sponsor,
            terms: terms(),
            hedge: None,
            ttl: None,
            fill_millis: 12,
        }
    }

    fn quote(self) -> Result<Quote, Refusal> {
        let (origin, destination) = (chain(8453, "base"), chain(10, "optimism"));
        let (from, to) = (origin.currencies().nth(self.from).unwrap(), destination.currencies().nth(self.to).unwrap());
        let route = Route {
            origin: Side { chain: &origin, currency: from },
            deposit: if from.held { from } else { &origin.native },
            payout: if to.held { to } else { &destination.native },
            destination: Side { chain: &destination, currency: to },
        };
        let (sells, buys) = pools();
        let rates = Rates {
            prices: prices(route),
            origin_gas_price: 1_000_000_000,
            fill_cost: Amount::new(U256::from(60_000u64 * 1_000_000_000)),
            payable: Amount::new(U256::from(self.payable)),
            payable_native: Amount::new(U256::from(self.payable)),
            deposit_need_bps: self.needs.0,
            payout_need_bps: self.needs.1,
            hedge: self.hedge,
            losses_known: true,
            fill_millis: self.fill_millis,
            origin_swap: (!from.held).then_some(&sells as &dyn Exchange),
            destination_swap: (!to.held).then_some(&buys as &dyn Exchange),
            sponsor_available: UsdMicros(self.sponsor),
        };
        let ask = Ask { ttl_secs: self.ttl, ..ask(self.trade, self.amount, from, to, self.options) };
        draft(&ask, route, rates, &self.terms)?.quote(fresh())
    }
}

fn quote(amount: u128, from: usize, to: usize, payable: u128) -> Result<Quote, Refusal> {
    trade(Trade::ExactInput, amount, from, to, payable)
}

fn trade(trade: Trade, amount: u128, from: usize, to: usize, payable: u128) -> Result<Quote, Refusal> {
    Case { trade, payable, ..Case::new(amount, from, to) }.quote()
}

pub(crate) fn a_quote() -> Quote {
    quote(250_000_000, 1, 1, u128::MAX >> 1).unwrap()
}

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

pub(crate) const SPONSOR: Address = Address::repeat_byte(0x5f);

/// 250 USDC to DAI, or to USDC at a fixed rate, paid for by a sponsor, with an app fee of 10 basis points.
pub(crate) fn a_sponsored_quote(cap: Option<i64>, fixed: Option<&str>) -> Quote {
    let app_fees = vec![AppFee { recipient: Address::repeat_byte(6), bps: 10 }];
    let options = QuoteOptions { app_fees, fixed_rate: fixed.map(|rate| rate.parse().unwrap()), ..sponsored(cap) };
    Case { options, ..Case::new(250_000_000, 1, if fixed.is_some() { 1 } else { 2 }) }.quote().unwrap()
}

fn sponsored(cap: Option<i64>) -> QuoteOptions {
    let sponsor = SponsorAsk::new(SPONSOR, Component::DEFAULT.to_vec(), cap.map(UsdMicros));
    QuoteOptions { sponsor: Some(sponsor), ..QuoteOptions::default() }
}

#[test]
fn a_sponsor_pays_the_fees_and_the_user_gets_the_markets_rate() {
    let figures = Case { options: sponsored(None), ..Case::new(250_000_000, 1, 2) }.quote().unwrap().figures;
    assert_eq!(figures.output.to_string(), "250000000000000000000");
    // Whoever pays it, what the fill takes stays in the figures: it bounds what failed calls cost.
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
    // Whoever owes too much gets no fixed rate, even one that pays.
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
