//! What a transfer costs and what arrives: the whole of pricing, as a function of facts.
//!
//! Fees are taken out of the input, in the input's currency. What we charge is rounded up, what we pay out is rounded
//! down, and the output is computed from what is left, so the parts always add up to the deposit. Where the caller fixes
//! the output, the input is the least that pays for it by the same rules.

use std::time::Duration;

use alloy_primitives::{Address, B256, U256};

use crate::catalog::{Chain, Class, Currency};
use crate::ids::RequestId;
use crate::money::{Amount, OutOfRange, Price, Ratio, UsdMicros, pow10};
use crate::quote::{Ask, Fees, Figures, Operation, Quote, Trade};
use crate::time::Timestamp;

/// What the operator charges and promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub solver: Address,
    /// The name of the chain of the solver's identity, hashed into every order.
    pub solver_chain: String,
    pub flat_fee: UsdMicros,
    pub stable_bps: u16,
    pub major_bps: u16,
    pub minor_bps: u16,
    pub slippage_bps: u16,
    pub stable_slippage_bps: u16,
    pub order_lifetime: Duration,
}

/// The market at one moment, as far as this pair of currencies is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub origin: Price,
    pub origin_native: Price,
    pub destination: Price,
    pub destination_native: Price,
    /// Wei per unit of gas, base fee and tip together.
    pub origin_gas_price: u128,
    /// What the fill will cost on the destination, in its native currency: gas, and data where that is charged for.
    pub fill_cost: Amount,
    /// The most that one fill can pay out of the solver's inventory now.
    pub payable: Amount,
}

/// What makes one quote different from the next.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    pub id: RequestId,
    pub salt: B256,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the amount does not cover the fees of {fees}, in the smallest unit of the input currency")]
    AmountTooLow { fees: Amount },
    #[error("no route between these currencies")]
    NoRoute,
    #[error("the origin and the destination chain are the same")]
    SameChain,
    #[error("Amount is higher than the available liquidity")]
    InsufficientLiquidity,
    #[error("an amount is out of range")]
    OutOfRange,
}

impl From<OutOfRange> for Refusal {
    fn from(_: OutOfRange) -> Self {
        Self::OutOfRange
    }
}

/// One side of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub chain: &'a Chain,
    pub currency: &'a Currency,
}

/// How long a rate between two currencies stands, where the caller does not say.
const EXCHANGE_TTL_SECS: u32 = 600;

pub fn price(
    mut ask: Ask,
    origin: Side<'_>,
    destination: Side<'_>,
    rates: &Rates,
    terms: &Terms,
    fresh: Fresh,
) -> Result<Quote, Refusal> {
    if origin.chain.id == destination.chain.id {
        return Err(Refusal::SameChain);
    }
    let pair = Pair::of(origin.currency, destination.currency)?;
    if pair.operation == Operation::Swap {
        ask.ttl_secs = ask.ttl_secs.or(Some(EXCHANGE_TTL_SECS));
    }
    let rate = pair.rate(origin.currency, destination.currency, rates)?;
    let charge = Charge::new(origin, destination, rates, terms, pair)?;
    let (input, output) = match ask.trade {
        Trade::ExactInput => (ask.amount, charge.output_of(ask.amount, rate)?),
        Trade::ExactOutput | Trade::ExpectedOutput => (charge.input_for(ask.amount, rate)?, ask.amount),
    };
    let fees = charge.fees(input)?;
    if output > rates.payable {
        return Err(Refusal::InsufficientLiquidity);
    }
    let slippage_bps = match ask.trade {
        Trade::ExactOutput => 0,
        Trade::ExactInput | Trade::ExpectedOutput => ask.slippage_bps.unwrap_or(pair.slippage_bps(terms)),
    };
    let kept = 10_000u16.checked_sub(slippage_bps).ok_or(Refusal::OutOfRange)?;
    let figures = Figures {
        operation: pair.operation,
        input,
        output,
        minimum: output.mul_floor(Ratio::bps(kept))?,
        fees,
        origin_gas: gas_cost(user_gas(origin.currency), rates.origin_gas_price)?,
        slippage_bps,
        origin_price: rates.origin,
        origin_native_price: rates.origin_native,
        destination_price: rates.destination,
        time_estimate_secs: time_estimate(origin.chain, destination.chain),
    };
    let deadline = fresh.now.plus(terms.order_lifetime).secs();
    Ok(Quote {
        id: fresh.id,
        ask,
        figures,
        created_at: fresh.now,
        deadline: u32::try_from(deadline).map_err(|_| Refusal::OutOfRange)?,
        salt: fresh.salt,
        solver: terms.solver,
        solver_chain: terms.solver_chain.clone(),
        origin_chain: origin.chain.name.clone(),
        destination_chain: destination.chain.name.clone(),
        origin_router: origin.chain.router,
        destination_router: destination.chain.router,
    })
}

/// What this pair of places costs: fixed amounts, and a share of the input.
#[derive(Clone, Copy, Debug)]
struct Charge {
    fill_gas: Amount,
    flat: Amount,
    relay_bps: u16,
}

impl Charge {
    fn new(
        origin: Side<'_>,
        destination: Side<'_>,
        rates: &Rates,
        terms: &Terms,
        pair: Pair,
    ) -> Result<Self, OutOfRange> {
        let gas_usd = rates.destination_native.usd_ceil(rates.fill_cost, destination.chain.native.decimals)?;
        Ok(Self {
            fill_gas: rates.origin.amount_ceil(gas_usd, origin.currency.decimals)?,
            flat: rates.origin.amount_ceil(terms.flat_fee, origin.currency.decimals)?,
            relay_bps: pair.relay_bps(terms),
        })
    }

    fn fees(&self, input: Amount) -> Result<Fees, OutOfRange> {
        let relay = input.mul_ceil(Ratio::bps(self.relay_bps))?;
        Ok(Fees { fill_gas: self.fill_gas, flat: self.flat, relay })
    }

    fn output_of(&self, input: Amount, rate: Ratio) -> Result<Amount, Refusal> {
        let fees = self.fees(input)?.total()?;
        let too_low = Refusal::AmountTooLow { fees };
        let net = input.checked_sub(fees).map_err(|_| too_low)?;
        let output = net.mul_floor(rate)?;
        if output.is_zero() { Err(too_low) } else { Ok(output) }
    }

    /// The least input that pays for the output. The closed form may be a unit off, because three roundings meet.
    fn input_for(&self, output: Amount, rate: Ratio) -> Result<Amount, Refusal> {
        const ONE: Amount = Amount::new(U256::ONE);
        let kept = 10_000u16.checked_sub(self.relay_bps).ok_or(Refusal::OutOfRange)?;
        let net = output.mul_ceil(rate.inverse()?)?;
        let gross = net.checked_add(self.fill_gas)?.checked_add(self.flat)?;
        let mut input = gross.mul_ceil(Ratio::bps(kept).inverse()?)?;
        for _ in 0..4 {
            if self.output_of(input, rate).is_ok_and(|arrives| arrives >= output) {
                return Ok(input);
            }
            input = input.checked_add(ONE)?;
        }
        Err(Refusal::OutOfRange)
    }
}

fn gas_cost(units: u64, price: u128) -> Result<Amount, OutOfRange> {
    U256::from(units).checked_mul(U256::from(price)).map(Amount::new).ok_or(OutOfRange)
}

/// Gas of the user's own steps: a native deposit, or an approval and a token deposit.
fn user_gas(currency: &Currency) -> u64 {
    if currency.native { 26_000 } else { 46_000 + 75_000 }
}

/// The confirmations we ask for, the block that carries the fill, and the moment in between.
fn time_estimate(origin: &Chain, destination: &Chain) -> u32 {
    let confirming = origin.block_time_millis.saturating_mul(origin.confirmations.into());
    let millis = confirming.saturating_add(destination.block_time_millis);
    u32::try_from(millis.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// What two currencies are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    operation: Operation,
    class: Class,
}

impl Pair {
    /// Served from inventory at par: the same asset, or two stablecoins at their feeds' rate. Anything else needs a
    /// market to trade against.
    fn of(origin: &Currency, destination: &Currency) -> Result<Self, Refusal> {
        match (origin.class, destination.class) {
            (class, _) if origin.id == destination.id => Ok(Self { operation: Operation::Bridge, class }),
            (Class::Stable, Class::Stable) => Ok(Self { operation: Operation::Swap, class: Class::Stable }),
            (Class::Stable | Class::Major | Class::Minor, Class::Stable | Class::Major | Class::Minor) => {
                Err(Refusal::NoRoute)
            }
        }
    }

    fn relay_bps(self, terms: &Terms) -> u16 {
        match (self.operation, self.class) {
            (Operation::Bridge, _) => 0,
            (Operation::Swap, Class::Stable) => terms.stable_bps,
            (Operation::Swap, Class::Major) => terms.major_bps,
            (Operation::Swap, Class::Minor) => terms.minor_bps,
        }
    }

    fn slippage_bps(self, terms: &Terms) -> u16 {
        match (self.operation, self.class) {
            (Operation::Bridge, Class::Stable) => terms.stable_slippage_bps,
            (Operation::Bridge | Operation::Swap, _) => terms.slippage_bps,
        }
    }

    /// One asset is worth itself on every chain, whatever two feeds say a moment apart.
    fn rate(self, origin: &Currency, destination: &Currency, rates: &Rates) -> Result<Ratio, OutOfRange> {
        match self.operation {
            Operation::Bridge => Ratio::new(pow10(destination.decimals), pow10(origin.decimals)),
            Operation::Swap => {
                Price::exchange((rates.origin, origin.decimals), (rates.destination, destination.decimals))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::account::Vm;
    use crate::catalog::{FillGas, Presentation};
    use crate::ids::ChainId;
    use crate::quote::CurrencyKey;

    fn currency(chain: u64, byte: u8, id: &str, decimals: u8, class: Class) -> Currency {
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
            tokens: vec![currency(id, 1, "usdc", 6, Class::Stable), currency(id, 2, "dai", 18, Class::Stable)],
            depository: Address::repeat_byte(0xd0),
            router: Address::repeat_byte(0xd1),
            approval_proxy: Address::repeat_byte(0xd2),
            multicall3: Address::repeat_byte(0xd3),
            block_time_millis: 2_000,
            confirmations: 1,
            fill_gas: FillGas {
                native_limit: 40_000,
                erc20_limit: 120_000,
                native_typical: 22_280,
                erc20_typical: 60_000,
            },
            private_id: None,
        }
    }

    fn terms() -> Terms {
        Terms {
            solver: Address::repeat_byte(0xaa),
            solver_chain: "base".to_owned(),
            flat_fee: UsdMicros(20_000),
            stable_bps: 1,
            major_bps: 6,
            minor_bps: 15,
            slippage_bps: 200,
            stable_slippage_bps: 50,
            order_lifetime: Duration::from_secs(604_800),
        }
    }

    fn rates(payable: u128) -> Rates {
        let one = Price::new(100_000_000, 8).unwrap();
        let eth = Price::new(300_000_000_000, 8).unwrap();
        Rates {
            origin: one,
            origin_native: eth,
            destination: one,
            destination_native: eth,
            origin_gas_price: 1_000_000_000,
            fill_cost: Amount::new(U256::from(60_000u64 * 1_000_000_000)),
            payable: Amount::new(U256::from(payable)),
        }
    }

    fn ask(amount: u128, from: &Currency, to: &Currency) -> Ask {
        Ask {
            user: Address::repeat_byte(0x11).into(),
            recipient: Address::repeat_byte(0x22).into(),
            refund_to: None,
            origin: CurrencyKey { chain: from.chain, address: from.address.clone() },
            destination: CurrencyKey { chain: to.chain, address: to.address.clone() },
            trade: Trade::ExactInput,
            amount: Amount::new(U256::from(amount)),
            slippage_bps: None,
            referrer: None,
            explicit_deposit: true,
            ttl_secs: None,
        }
    }

    fn quote(amount: u128, from: usize, to: usize, payable: u128) -> Result<Quote, Refusal> {
        trade(Trade::ExactInput, amount, from, to, payable)
    }

    fn trade(trade: Trade, amount: u128, from: usize, to: usize, payable: u128) -> Result<Quote, Refusal> {
        let (origin, destination) = (chain(8453, "base"), chain(10, "optimism"));
        let from = origin.currencies().nth(from).unwrap();
        let to = destination.currencies().nth(to).unwrap();
        let fresh = Fresh {
            id: RequestId(B256::repeat_byte(7)),
            salt: B256::repeat_byte(9),
            now: Timestamp::from_secs(1_790_000_000),
        };
        price(
            Ask { trade, ..ask(amount, from, to) },
            Side { chain: &origin, currency: from },
            Side { chain: &destination, currency: to },
            &rates(payable),
            &terms(),
            fresh,
        )
    }

    pub(crate) fn a_quote() -> Quote {
        quote(250_000_000, 1, 1, u128::MAX).unwrap()
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
    }

    #[test]
    fn two_stablecoins_are_swapped_at_a_basis_point() {
        let figures = quote(250_000_000, 1, 2, u128::MAX).unwrap().figures;
        assert_eq!(figures.fees.relay.to_string(), "25000");
        assert_eq!(figures.output.to_string(), "249775000000000000000");
        assert_eq!(figures.operation, Operation::Swap);
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        assert_eq!(quote(200_000, 1, 1, u128::MAX), Err(Refusal::AmountTooLow { fees: "200000".parse().unwrap() }));
        assert_eq!(quote(250_000_000, 1, 1, 1_000_000), Err(Refusal::InsufficientLiquidity));
        assert_eq!(quote(250_000_000, 1, 0, u128::MAX), Err(Refusal::NoRoute));
    }

    #[test]
    fn an_exact_output_has_no_slippage_and_an_expected_one_has() {
        for (kind, minimum) in [(Trade::ExactOutput, "249800000"), (Trade::ExpectedOutput, "248551000")] {
            let figures = trade(kind, 249_800_000, 1, 1, u128::MAX).unwrap().figures;
            assert_eq!(figures.input.to_string(), "250000000");
            assert_eq!((figures.output.to_string(), figures.minimum.to_string()), ("249800000".into(), minimum.into()));
        }
    }

    #[test]
    fn the_order_of_a_quote_is_bound_to_its_figures() {
        let quote = a_quote();
        let order = quote.order();
        assert_eq!(order.inputs[0].amount, quote.figures.input);
        assert_eq!(order.output.payments[0].minimum, quote.figures.minimum);
        assert_eq!(order.inputs[0].refunds[0].recipient, quote.ask.user);
        let mut other = quote.clone();
        other.salt = B256::repeat_byte(10);
        assert_ne!(other.order().id(), order.id());
    }

    #[test]
    fn a_quote_survives_storage_in_little_room() {
        let quote = a_quote();
        let stored = serde_json::to_string(&quote).unwrap();
        assert!(stored.len() <= 1_536, "{} bytes", stored.len());
        assert_eq!(serde_json::from_str::<Quote>(&stored).unwrap(), quote);
    }

    proptest! {
        #[test]
        fn deposit_equals_fees_plus_what_is_left(amount in 1u128..1u128 << 80) {
            if let Ok(quote) = quote(amount, 1, 1, u128::MAX) {
                let figures = quote.figures;
                let sum = figures.fees.total().unwrap().checked_add(figures.output).unwrap();
                prop_assert_eq!(sum, figures.input);
                prop_assert!(figures.minimum <= figures.output);
            }
        }

        #[test]
        fn a_fixed_output_costs_the_least_input_that_pays_for_it(amount in 1u128..1u128 << 70, to in 1usize..3) {
            if let Ok(fixed) = trade(Trade::ExactOutput, amount, 1, to, u128::MAX) {
                let input = u128::try_from(fixed.figures.input.units()).unwrap();
                prop_assert_eq!(fixed.figures.output.units(), U256::from(amount));
                let forward = quote(input, 1, to, u128::MAX).unwrap();
                prop_assert!(forward.figures.output >= fixed.figures.output);
                if let Ok(less) = quote(input - 1, 1, to, u128::MAX) {
                    prop_assert!(less.figures.output < fixed.figures.output);
                }
            }
        }

        #[test]
        fn more_in_is_never_less_out(amount in 1u128..1u128 << 80, more in 0u128..1u128 << 40, to in 1usize..3) {
            if let (Ok(less), Ok(greater)) = (quote(amount, 1, to, u128::MAX), quote(amount + more, 1, to, u128::MAX)) {
                prop_assert!(greater.figures.output >= less.figures.output);
            }
        }
    }
}
