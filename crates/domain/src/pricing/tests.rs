use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};

use super::*;
use crate::account::Vm;
use crate::catalog::{Class, Dex, FillGas, Presentation};
use crate::fees::AppFee;
use crate::ids::ChainId;
use crate::money::{Price, Ratio, Signed};
use crate::quote::{Bound, Call, Operation, QuoteOptions, Trade};
use crate::sponsorship::{Component, SponsorAsk};
use crate::swap::{Offer, Path};
use crate::terms::{ByClass, FastFillTerms};

mod bridges;
mod pools;
mod properties;
mod sponsored;

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
        authorizations: None,
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
        deposit_address_factory: None,
        dex: Some(Dex { swap_router: Address::repeat_byte(0xd4), wrapped: Address::repeat_byte(4) }),
        block_time_millis: 2_000,
        confirmations: 1,
        tiers: Vec::new(),
        fill_gas: FillGas {
            native_limit: 40_000,
            erc20_limit: 120_000,
            native_typical: 22_280,
            erc20_typical: 60_000,
            contract_typical: 65_000,
            routed_typical: 200_000,
        },
        private_id: None,
    }
}

pub(crate) fn terms() -> Terms {
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
        deposit_addresses: crate::terms::DepositAddressTerms {
            lifetime: Duration::from_secs(15_552_000),
            grace: Duration::from_secs(3_600),
            watch: Duration::from_secs(2_592_000),
        },
        fast_fill: FastFillTerms { margin_bps: 200, window: Duration::from_secs(1_800) },
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
/// The price of TAIL here, in dollars with eight decimals: two cents.
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
    losses_known: bool,
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
            losses_known: true,
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
            fill_cost: Amount::new(U256::from(60_000u64 * 1_000_000_000)),
            payable: Amount::new(U256::from(self.payable)),
            payable_native: Amount::new(U256::from(self.payable)),
            deposit_need_bps: self.needs.0,
            payout_need_bps: self.needs.1,
            hedge: self.hedge,
            losses_known: self.losses_known,
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
