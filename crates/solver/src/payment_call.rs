//! The transaction a payment takes the form of: whose funds move, and by which call.

use alloy::primitives::{Address, Bytes};
use domain::account::Account;
use domain::catalog::{Chain, FillGas};
use domain::money::{Amount, OutOfRange, Ratio};
use domain::quote::{Bound, Quote, QuoteOptions, Swap};
use evm::calldata;
use evm::fills::{Fill, Funds};
use evm::routed::{FromSpendLimiter, Message};
use evm::swap::{self, Trade};
use store::dues::Due;

use crate::chain_handle::ChainHandle;

#[derive(Clone, Debug)]
pub struct PaymentCall {
    pub target: Address,
    /// Native currency that goes along.
    pub value: Amount,
    pub data: Bytes,
    pub gas: u64,
    /// What leaves our inventory.
    pub currency: Address,
    pub amount: Amount,
    /// The tokens are spent through the spend limiter, by the wallet's limit there.
    pub through_spend_limiter: bool,
}

impl PaymentCall {
    /// None where the chain lacks a contract that the payment needs.
    pub fn of(
        due: &Due,
        amount: Amount,
        handle: &ChainHandle,
        to_contract: bool,
        quote: Option<(&Quote, Option<&Swap>)>,
    ) -> Option<Self> {
        match quote.filter(|(quote, _)| is_routed(quote)) {
            Some((quote, swap)) => Self::routed(due, amount, handle, quote, swap),
            None => Some(Self::plain(due, amount, handle, to_contract)),
        }
    }

    fn plain(due: &Due, amount: Amount, handle: &ChainHandle, to_contract: bool) -> Self {
        let (id, gas, currency) = (due.order.0, handle.chain.fill_gas, due.currency);
        let call = |target, value, data, gas| Self {
            target,
            value,
            data,
            gas,
            currency,
            amount,
            through_spend_limiter: false,
        };
        if !currency.is_zero() {
            let data = calldata::erc20_fill_from_treasury(handle.treasury, due.recipient, amount.units(), id);
            return call(currency, Amount::ZERO, data, gas.erc20_limit);
        }
        if to_contract {
            let router = handle.chain.router;
            let data = calldata::native_fill_through_router(router, due.recipient, amount.units(), id);
            return call(router, amount, data, gas.erc20_limit);
        }
        call(due.recipient, amount, calldata::native_fill(id), gas.native_limit)
    }

    fn routed(due: &Due, amount: Amount, handle: &ChainHandle, quote: &Quote, swap: Option<&Swap>) -> Option<Self> {
        let recipient = quote.ask.recipient.evm()?;
        let (chain, currency) = (&handle.chain, due.currency);
        let (funds, native) = if currency.is_zero() {
            (Funds::Native(amount.units()), amount)
        } else {
            let spend_limiter = chain.spend_limiter?;
            let funds =
                FromSpendLimiter { spend_limiter, treasury: handle.treasury, token: currency, amount: amount.units() };
            (Funds::SpendLimiter(funds), Amount::ZERO)
        };
        let trade = match swap {
            None => None,
            Some(swap) => {
                let native_out = quote.ask.destination.address == Account::from(Address::ZERO);
                Some(trade(chain, swap, amount, currency.is_zero(), native_out)?)
            }
        };
        let exact = trade.is_some_and(|trade| matches!(trade.bound, swap::Bound::ExactOutput { .. }));
        let top_up = quote.figures.top_up.unwrap_or_default();
        let options = &quote.ask.options;
        let calls: Vec<Message> = options
            .calls
            .iter()
            .map(|call| Message { to: call.to, value: call.value.units(), data: call.data.clone() })
            .collect();
        let fill = Fill {
            router: chain.router,
            funds,
            trade,
            recipient,
            top_up: top_up.units(),
            calls: &calls,
            // What was set aside for a pool to move and was not needed is the recipient's, unless they left it to us.
            rest_to: if exact && !options.true_exact_output { recipient } else { handle.treasury },
        };
        let Message { to, value, data } = fill.message(due.order);
        debug_assert!(value == native.units().saturating_add(top_up.units()));
        Some(Self {
            target: to,
            value: Amount::new(value),
            data,
            gas: gas_limit(chain, quote),
            currency,
            amount,
            through_spend_limiter: !currency.is_zero(),
        })
    }
}

/// More than one transfer: a trade, native currency beside the output, or calls.
pub fn is_routed(quote: &Quote) -> bool {
    quote.destination_swap.is_some() || quote.figures.top_up.is_some() || !quote.ask.options.calls.is_empty()
}

/// A trade of the quote's path as it is made when so much is there for it.
pub fn trade<'a>(chain: &Chain, swap: &'a Swap, funds: Amount, native_in: bool, native_out: bool) -> Option<Trade<'a>> {
    let dex = chain.dex?;
    let bound = match swap.bound {
        Bound::LeastOutput(_) => {
            let least = least_output(swap, funds).ok()?;
            swap::Bound::ExactInput { input: funds.units(), least_output: least.units() }
        }
        Bound::MostInput(_) => swap::Bound::ExactOutput { output: swap.output.units(), most_input: funds.units() },
    };
    Some(Trade { path: &swap.path, native_in, native_out, bound, dex: dex.swap_router, wrapped: dex.wrapped })
}

/// The least that selling this much may bring: the quoted bound, and more where more is sold.
pub fn least_output(swap: &Swap, sold: Amount) -> Result<Amount, OutOfRange> {
    match swap.bound {
        Bound::LeastOutput(least) if sold > swap.input => {
            least.mul_floor(Ratio::new(sold.units(), swap.input.units())?)
        }
        Bound::LeastOutput(least) => Ok(least),
        Bound::MostInput(_) => Ok(swap.output),
    }
}

/// What a fill that is more than a transfer takes: units of gas, and bytes of calldata. More pools and calls take more.
pub fn routed_size(gas: FillGas, options: &QuoteOptions, pools: usize) -> (u64, usize) {
    /// Of the spending, the trade, the top-up and the sweeping up, as they are encoded.
    const AROUND: usize = 2_900;
    /// Of one call beside its data: its place in the list and what stands before it.
    const CALL: usize = 224;
    let traded = POOL_GAS.saturating_mul(u64::try_from(pools).unwrap_or(u64::MAX));
    let units = options.calls_gas.unwrap_or_default().max(gas.routed_typical.saturating_add(traded));
    let calls: usize = options.calls.iter().map(|call| CALL + call.data.len().div_ceil(32) * 32).sum();
    (units, AROUND + calls)
}

/// Pools that a fill with this trade goes through.
pub fn pools(swap: Option<&Swap>) -> usize {
    swap.map_or(0, |swap| swap.path.fees().len())
}

/// What trading on one pool takes.
const POOL_GAS: u64 = 150_000;

/// No chain takes a transaction that asks for more; one that asked would stand in its lane for ever.
const MAX_FILL_GAS: u64 = 12_000_000;

/// Generous: unused gas is free. What the caller's calls need was measured, and may change a little.
fn gas_limit(chain: &Chain, quote: &Quote) -> u64 {
    let calls = quote.ask.options.calls_gas.unwrap_or_default();
    chain.fill_gas.routed_limit.saturating_add(calls.saturating_add(calls / 4)).min(MAX_FILL_GAS)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{B256, U256};
    use domain::ids::OrderId;
    use domain::quote::Call;
    use domain::swap::Path;

    use super::*;

    /// Everything a fill can be, with calls of every size: what is charged for is never less than what is sent.
    #[test]
    fn the_calldata_of_a_fill_is_not_underestimated() {
        let address = Address::repeat_byte;
        let spend_limiter =
            FromSpendLimiter { spend_limiter: address(1), treasury: address(2), token: address(3), amount: U256::MAX };
        let gas = FillGas {
            native_limit: 0,
            erc20_limit: 0,
            native_typical: 0,
            erc20_typical: 0,
            routed_limit: 0,
            routed_typical: 150_000,
        };
        let one = Path::new(vec![address(3), address(4)], vec![500]).unwrap();
        let two = Path::new(vec![address(3), address(5), address(4)], vec![500, 3_000]).unwrap();
        let bounds = [
            swap::Bound::ExactInput { input: U256::MAX, least_output: U256::MAX },
            swap::Bound::ExactOutput { output: U256::MAX, most_input: U256::MAX },
        ];
        let mut longest = 0;
        for path in [None, Some(&one), Some(&two)] {
            for (bound, native_in, native_out, size) in bounds.iter().flat_map(|bound| {
                let ends = [(false, false), (true, false), (false, true)];
                ends.into_iter().flat_map(move |(a, b)| [0, 1, 100, 4_000].map(|size| (bound, a, b, size)))
            }) {
                let data = Bytes::from(vec![7; size]);
                let wish = Call { to: address(9), value: Amount::ZERO, data: data.clone() };
                let call = Message { to: address(9), value: U256::ZERO, data };
                let (wanted, calls) = if size == 0 { (vec![], vec![]) } else { (vec![wish; 3], vec![call; 3]) };
                let trade = path.map(|path| Trade {
                    path,
                    native_in,
                    native_out,
                    bound: *bound,
                    dex: address(6),
                    wrapped: address(7),
                });
                let fill = Fill {
                    router: address(8),
                    funds: if native_in { Funds::Native(U256::MAX >> 1) } else { Funds::SpendLimiter(spend_limiter) },
                    trade,
                    recipient: address(10),
                    top_up: U256::from(1),
                    calls: &calls,
                    rest_to: address(11),
                };
                let sent = fill.message(OrderId(B256::ZERO)).data.len();
                let options = QuoteOptions { calls: wanted, ..QuoteOptions::default() };
                let (_, bytes) = routed_size(gas, &options, path.map_or(0, |path| path.fees().len()));
                assert!(sent <= bytes, "{sent} bytes, and {bytes} are charged for");
                longest = longest.max(if size == 0 { sent } else { 0 });
            }
        }
        assert!(longest * 3 > 2 * 2_900, "more than half as much again is charged as there is: {longest}");
        let units = |pools| routed_size(gas, &QuoteOptions::default(), pools).0;
        assert_eq!((units(0), units(1), units(2)), (150_000, 300_000, 450_000));
    }
}
