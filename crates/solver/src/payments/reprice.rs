//! Repricing: a fill is priced again when it is made, because the market may have moved since the quote, and the
//! depositor chooses when to deposit.
//!
//! The quoted amount is paid out or, if the market has moved against it by more than was charged for the exchange, the
//! market's current amount; below the order's minimum the deposit goes back. So a quote is no option on the market, and
//! a fill that a pool would revert is not sent.

use alloy::primitives::{Address, U256};
use domain::catalog::Currency;
use domain::deposit::reaches_minimum;
use domain::fail::FailReason;
use domain::money::{Amount, OutOfRange, Price, Ratio};
use domain::pair::Pair;
use domain::quote::{Bound, OrderTerms, Quote, Swap};
use domain::swap::Exchange;
use market::{Snapshot, hedge};

use crate::context::PayContext;
use crate::handle::ChainHandle;
use crate::payments::call::least_output;
use crate::payments::gas::{self, Shape};

#[derive(Debug)]
pub(crate) enum Repriced {
    /// The amount to pay out, and the swap it goes through, if any.
    Pay {
        amount: Amount,
        swap: Option<Swap>,
    },
    Refund(FailReason),
    /// Prices are not known at the moment.
    Unknown,
}

/// A market move up to this size is ignored: pools round.
const LEAST_MOVE_BPS: u16 = 2;

/// A fill is not made when its gas has become this many times as dear as quoted: a quote of one asset stands for days,
/// and would be an option on gas.
const MAX_GAS_TIMES: u64 = 3;

pub(crate) fn reprice(
    quote: &Quote,
    quoted: Amount,
    to_contract: bool,
    (handle, there): (&ChainHandle, &Snapshot),
    context: &PayContext,
) -> Result<Repriced, OutOfRange> {
    let mut amount = quoted;
    let exchanges = quote.terms.as_ref().is_some_and(|terms| terms.exchange) && quote.figures.fixed.is_none();
    if exchanges {
        match at_market(quote, quoted, handle, there, context)? {
            Some(now) if now < least_at_market(quote, quoted, handle, context)? => amount = now,
            Some(_) => {}
            None => return Ok(Repriced::Unknown),
        }
        if amount.is_zero() || !reaches_minimum(quote, amount)? {
            return Ok(Repriced::Refund(FailReason::Slippage));
        }
    }
    let swap = match (&quote.destination_swap, &quote.terms) {
        (None, _) => None,
        (Some(_), None) => return Ok(Repriced::Unknown),
        (Some(swap), Some(terms)) => match through_pools(quote, terms, swap, amount, there)? {
            Some(swap) => Some(swap),
            None => return Ok(Repriced::Refund(FailReason::Slippage)),
        },
    };
    match affordable(quote, swap.as_ref(), to_contract, (handle, there), context)? {
        true => Ok(Repriced::Pay { amount, swap }),
        false => Ok(Repriced::Refund(FailReason::QuotedGasLimitExceeded)),
    }
}

/// The quoted trade, by the best path there is now. None if the pools do not give what was promised.
fn through_pools(
    quote: &Quote,
    terms: &OrderTerms,
    swap: &Swap,
    amount: Amount,
    there: &Snapshot,
) -> Result<Option<Swap>, OutOfRange> {
    let (from, to) = (terms.payout.address.packed(), quote.ask.destination.address.packed());
    let market = from.zip(to).and_then(|(from, to)| there.exchange(from, to));
    let Some(market) = market.filter(|_| there.check_pools().is_ok()) else {
        // Not all pools are known at this block: the quoted path is tried, and its bound is enforced on the chain.
        return Ok(Some(swap.clone()));
    };
    let offer = match swap.bound {
        Bound::LeastOutput(_) => {
            let least = least_output(swap, amount)?;
            market.sell(amount).filter(|offer| offer.amount >= least)
        }
        Bound::MostInput(_) => market.buy(swap.output).filter(|offer| offer.amount <= amount),
    };
    Ok(offer.map(|offer| Swap { path: offer.path, ..swap.clone() }))
}

/// The market amount below which the market's price is taken: the fee charged for the exchange pays for smaller moves.
fn least_at_market(
    quote: &Quote,
    quoted: Amount,
    handle: &ChainHandle,
    context: &PayContext,
) -> Result<Amount, OutOfRange> {
    let terms = quote.terms.as_ref();
    let deposit = terms.and_then(|terms| context.on(terms.deposit.chain)?.0.chain.currency(&terms.deposit.address));
    let payout = terms.and_then(|terms| handle.chain.currency(&terms.payout.address));
    let pair = deposit.zip(payout).map(|(deposit, payout)| Pair::of(deposit, payout));
    let charged = pair.map_or(0, |pair| pair.charged_bps(&context.terms));
    quoted.mul_floor(Ratio::bps(10_000u16.saturating_sub(charged.max(LEAST_MOVE_BPS))))
}

/// The amount that the market gives now for the exchange behind a quoted payment. None if a price is stale or unknown.
pub(crate) fn at_market(
    quote: &Quote,
    quoted: Amount,
    handle: &ChainHandle,
    there: &Snapshot,
    context: &PayContext,
) -> Result<Option<Amount>, OutOfRange> {
    let figures = &quote.figures;
    let Some(terms) = &quote.terms else { return Ok(None) };
    let Some((origin, Some(here))) = context.on(terms.deposit.chain) else { return Ok(None) };
    let deposit = origin.chain.currency(&terms.deposit.address);
    let payout = handle.chain.currency(&terms.payout.address);
    let (Some(deposit), Some(payout)) = (deposit, payout) else { return Ok(None) };
    if here.check_age().is_err() || there.check_age().is_err() {
        return Ok(None);
    }
    let (Ok(sold), Ok(bought)) = (here.price(deposit.evm_address()), there.price(payout.evm_address())) else {
        return Ok(None);
    };
    let exchanged = quoted.mul_ceil(Ratio::new(figures.exchanged.units(), figures.paid.units())?)?;
    let pair = Pair::of(deposit, payout);
    let feeds = pair.rate((deposit, sold), (payout, bought))?;
    let hedge = hedge((&origin.chain, deposit, here), (&handle.chain, payout, there), exchanged);
    let rate = pair.bounded(feeds, hedge, &context.terms)?;
    Ok(Some(exchanged.mul_floor(rate)?))
}

/// The gas of bringing the deposit in where that is ours to do, in the origin's native currency: zero where the user
/// does it, and none while the origin's fees are not known.
pub(crate) fn origin_cost(quote: &Quote, context: &PayContext) -> Option<Amount> {
    let options = &quote.ask.options;
    if options.deposit_address.is_none() && options.permit.is_none() && options.relayed_gas.is_none() {
        return Some(Amount::ZERO);
    }
    let deposit = &quote.terms.as_ref()?.deposit;
    let (_, here) = context.on(deposit.chain)?;
    gas::origin_cost(options, here?, deposit.address.packed()?.is_zero(), quote.origin_swap.is_some())
}

/// The deposit's currency for the origin's native one. None where the origin is not served any more.
fn sweep_rate(quote: &Quote, deposit: &Currency, context: &PayContext) -> Result<Option<Ratio>, OutOfRange> {
    let prices = &quote.figures.prices;
    let Some((origin, here)) = context.on(deposit.chain) else { return Ok(None) };
    let native = here.and_then(|here| here.price(Address::ZERO).ok()).unwrap_or(prices.origin_native);
    Price::exchange((native, origin.chain.native.decimals), (prices.deposit, deposit.decimals)).map(Some)
}

/// True if the gas of a fill costs about as much as quoted.
fn affordable(
    quote: &Quote,
    swap: Option<&Swap>,
    to_contract: bool,
    (handle, there): (&ChainHandle, &Snapshot),
    context: &PayContext,
) -> Result<bool, OutOfRange> {
    let figures = &quote.figures;
    let deposit = quote.terms.as_ref().and_then(|terms| {
        let (origin, _) = context.on(terms.deposit.chain)?;
        origin.chain.currency(&terms.deposit.address)
    });
    // A currency that is not listed any more was deposited all the same.
    let Some(deposit) = deposit else { return Ok(true) };
    // A price that is not known now is no reason to wait: the quoted one tells about as much.
    let native = there.price(Address::ZERO).unwrap_or(figures.prices.destination_native);
    let rate = Price::exchange((native, handle.chain.native.decimals), (figures.prices.deposit, deposit.decimals))?;
    let gas = gas::of(handle.chain.fill_gas, Shape::of(quote, swap, to_contract));
    // The quoted gas of an address has its sweep in it, that of a permit its relay, and what it takes now has to be the
    // same sum.
    let sweep = origin_cost(quote, context).unwrap_or(Amount::ZERO);
    let swept = sweep_rate(quote, deposit, context)?.map_or(Ok(Amount::ZERO), |rate| sweep.mul_floor(rate))?;
    let now = gas.cost(there).mul_floor(rate)?.checked_add(swept)?;
    let most = figures.fees.fill_gas.mul_floor(Ratio::new(U256::from(MAX_GAS_TIMES), U256::ONE)?)?;
    Ok(now <= most)
}
