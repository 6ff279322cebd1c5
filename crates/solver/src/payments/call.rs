//! The transaction of a payment: the funds that move, and the call that moves them.

use alloy::primitives::{Address, Bytes};
use domain::account::Account;
use domain::catalog::Chain;
use domain::money::{Amount, OutOfRange, Ratio};
use domain::quote::{Bound, Quote, Swap};
use evm::calldata;
use evm::fills::{Fill, Funds};
use evm::routed::{FromSpendLimiter, Message};
use evm::swap::{self, Trade};
use store::dues::Due;
use store::payments::Subject;
use store::{Tx, claims, relays};

use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::gas::{self, Shape};

/// The gas of a transfer on the venue: its price is the venue's fee.
pub(crate) const VENUE_GAS: u64 = 1;

#[derive(Clone, Debug)]
pub struct PaymentCall {
    pub target: Address,
    /// Native currency sent with the call.
    pub value: Amount,
    pub data: Bytes,
    pub gas: u64,
    /// Currency and amount that leave our inventory.
    pub currency: Address,
    pub amount: Amount,
    /// The tokens are spent through the spend limiter, by the wallet's limit there.
    pub through_spend_limiter: bool,
    /// The relayer that alone can send it. None for what any filler sends.
    pub relayer: Option<Address>,
}

impl PaymentCall {
    /// The call of a due payment. None if the chain lacks a contract that the payment needs.
    pub fn of(
        due: &Due,
        amount: Amount,
        handle: &ChainHandle,
        to_contract: bool,
        quote: Option<(&Quote, Option<&Swap>)>,
    ) -> Option<Self> {
        if handle.venue.is_some() {
            return Some(Self::on_venue(due, amount));
        }
        let call = match quote {
            Some((quote, swap)) if gas::is_routed(quote) => Self::routed(due, amount, handle, quote, swap)?,
            Some((quote, _)) => {
                let gas = gas::of(handle.chain.fill_gas, Shape::of(quote, None, to_contract)).limit;
                Self::plain(due, amount, handle, to_contract, gas)
            }
            None => {
                let gas = gas::generous_limit(handle.chain.fill_gas, due.currency.is_zero() && !to_contract);
                Self::plain(due, amount, handle, to_contract, gas)
            }
        };
        // The bytes differ a little from those that were tried and charged for: an order's id has more zeros or fewer.
        let least = gas::least(&call.data, 0);
        Some(Self { gas: call.gas.max(least), ..call })
    }

    /// The transaction that pays a claim.
    pub fn claim(tx: &mut Tx<'_>, due: &Due, handle: &ChainHandle) -> Result<Self, SolverError> {
        let no_claim = SolverError::InvariantViolated("a payment of no claim");
        let Subject::Claim(id) = due.subject else { return Err(no_claim) };
        let claim = claims::find(tx, id)?.ok_or(no_claim)?.claim;
        let units = due.amount.units();
        Ok(Self {
            target: due.currency,
            value: Amount::ZERO,
            data: calldata::claim(handle.treasury, due.recipient, units, claim.wallet, id),
            gas: handle.chain.fill_gas.erc20_limit,
            currency: due.currency,
            amount: due.amount,
            through_spend_limiter: false,
            relayer: None,
        })
    }

    /// The transaction that a user has signed for.
    pub fn relay(tx: &mut Tx<'_>, due: &Due) -> Result<Self, SolverError> {
        let Subject::Relay(request) = due.subject else {
            return Err(SolverError::InvariantViolated("a relay of no request"));
        };
        let stored = relays::find(tx, request)?;
        let relay = stored.ok_or(SolverError::InvariantViolated("a relay that nobody has signed for"))?.relay;
        Ok(Self {
            target: relay.target,
            value: Amount::ZERO,
            data: relay.data,
            gas: relay.gas,
            currency: Address::ZERO,
            amount: Amount::ZERO,
            through_spend_limiter: false,
            relayer: Some(relay.relayer),
        })
    }

    /// A transfer on the venue, whose memo names the order. Its fee counts as the price of one unit of gas.
    fn on_venue(due: &Due, amount: Amount) -> Self {
        Self {
            target: due.recipient,
            value: if due.currency.is_zero() { amount } else { Amount::ZERO },
            data: Bytes::copy_from_slice(due.order().as_slice()),
            gas: VENUE_GAS,
            currency: due.currency,
            amount,
            through_spend_limiter: false,
            relayer: None,
        }
    }

    fn plain(due: &Due, amount: Amount, handle: &ChainHandle, to_contract: bool, gas: u64) -> Self {
        let (id, currency) = (due.order().0, due.currency);
        let call = |target, value, data| {
            let (through_spend_limiter, relayer) = (false, None);
            Self { target, value, data, gas, currency, amount, through_spend_limiter, relayer }
        };
        if !currency.is_zero() {
            let data = calldata::erc20_fill_from_treasury(handle.treasury, due.recipient, amount.units(), id);
            return call(currency, Amount::ZERO, data);
        }
        if to_contract {
            let data = calldata::native_fill_through_router(due.recipient, amount.units(), id);
            return call(handle.chain.router, amount, data);
        }
        call(due.recipient, amount, calldata::native_fill(id))
    }

    fn routed(due: &Due, amount: Amount, handle: &ChainHandle, quote: &Quote, swap: Option<&Swap>) -> Option<Self> {
        let recipient = quote.ask.recipient.packed()?;
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
            // Input kept in case the pool moves, and not needed, goes to the recipient, unless they left it to us.
            rest_to: if exact && !options.true_exact_output { recipient } else { handle.treasury },
        };
        let Message { to, value, data } = fill.message(due.order());
        debug_assert!(value == native.units().saturating_add(top_up.units()));
        Some(Self {
            target: to,
            value: Amount::new(value),
            data,
            gas: gas::of(chain.fill_gas, Shape::of(quote, swap, false)).limit,
            currency,
            amount,
            through_spend_limiter: !currency.is_zero(),
            relayer: None,
        })
    }
}

/// The trade along a quote's path with these funds.
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

/// The minimum output of a sale: the quoted bound, and more if more is sold.
pub fn least_output(swap: &Swap, sold: Amount) -> Result<Amount, OutOfRange> {
    match swap.bound {
        Bound::LeastOutput(least) if sold > swap.input => {
            least.mul_floor(Ratio::new(sold.units(), swap.input.units())?)
        }
        Bound::LeastOutput(least) => Ok(least),
        Bound::MostInput(_) => Ok(swap.output),
    }
}
