//! The transaction a payment takes the form of: whose funds move, and by which call.

use alloy::primitives::{Address, Bytes};
use domain::account::Account;
use domain::catalog::Chain;
use domain::money::{Amount, OutOfRange, Ratio};
use domain::quote::{Bound, Quote, Swap};
use evm::calldata;
use evm::fills::{Fill, Funds};
use evm::routed::{FromPurse, Message};
use evm::swap::{self, Trade};
use store::dues::Due;

use crate::site::Site;

#[derive(Clone, Debug)]
pub struct Form {
    pub target: Address,
    /// Native currency that goes along.
    pub value: Amount,
    pub data: Bytes,
    pub gas: u64,
    /// What leaves our inventory.
    pub currency: Address,
    pub amount: Amount,
    /// The tokens are spent through the purse, by the wallet's limit there.
    pub through_purse: bool,
}

impl Form {
    /// None where the chain lacks a contract that the payment needs.
    pub fn of(
        due: &Due,
        amount: Amount,
        site: &Site,
        to_contract: bool,
        quote: Option<(&Quote, Option<&Swap>)>,
    ) -> Option<Self> {
        match quote.filter(|(quote, _)| is_routed(quote)) {
            Some((quote, swap)) => Self::routed(due, amount, site, quote, swap),
            None => Some(Self::plain(due, amount, site, to_contract)),
        }
    }

    fn plain(due: &Due, amount: Amount, site: &Site, to_contract: bool) -> Self {
        let (id, gas, currency) = (due.order.0, site.chain.fill_gas, due.currency);
        let form = |target, value, data, gas| Self { target, value, data, gas, currency, amount, through_purse: false };
        if !currency.is_zero() {
            let data = calldata::erc20_fill_from_treasury(site.treasury, due.recipient, amount.units(), id);
            return form(currency, Amount::ZERO, data, gas.erc20_limit);
        }
        if to_contract {
            let router = site.chain.router;
            let data = calldata::native_fill_through_router(router, due.recipient, amount.units(), id);
            return form(router, amount, data, gas.erc20_limit);
        }
        form(due.recipient, amount, calldata::native_fill(id), gas.native_limit)
    }

    fn routed(due: &Due, amount: Amount, site: &Site, quote: &Quote, swap: Option<&Swap>) -> Option<Self> {
        let recipient = quote.ask.recipient.evm()?;
        let (chain, currency) = (&site.chain, due.currency);
        let (funds, native) = if currency.is_zero() {
            (Funds::Native(amount.units()), amount)
        } else {
            let purse = chain.purse?;
            let funds = FromPurse { purse, treasury: site.treasury, token: currency, amount: amount.units() };
            (Funds::Purse(funds), Amount::ZERO)
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
        let wishes = &quote.ask.wishes;
        let calls: Vec<Message> = wishes
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
            rest_to: if exact && !wishes.true_exact_output { recipient } else { site.treasury },
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
            through_purse: !currency.is_zero(),
        })
    }
}

/// More than one transfer: a trade, native currency beside the output, or calls.
pub fn is_routed(quote: &Quote) -> bool {
    quote.destination_swap.is_some() || quote.figures.top_up.is_some() || !quote.ask.wishes.calls.is_empty()
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

/// No chain takes a transaction that asks for more; one that asked would stand in its lane for ever.
const MOST_GAS: u64 = 12_000_000;

/// Generous: unused gas is free. What the caller's calls need was measured, and may change a little.
fn gas_limit(chain: &Chain, quote: &Quote) -> u64 {
    let calls = quote.ask.wishes.calls_gas.unwrap_or_default();
    chain.fill_gas.routed_limit.saturating_add(calls.saturating_add(calls / 4)).min(MOST_GAS)
}
