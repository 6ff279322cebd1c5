//! Repricing: a fill is priced again when it is made, because the market may have moved since the quote, and the
//! depositor chooses when to deposit.
//!
//! The quoted amount is paid out or, if the market has moved against it by more than was charged for the exchange, the
//! market's current amount; below the order's minimum the deposit goes back. So a quote is no option on the market, and
//! a fill that a pool would revert is not sent.

use alloy::primitives::Address;
use domain::deposit::reaches_minimum;
use domain::fail::FailReason;
use domain::money::{Amount, OutOfRange, Ratio, UsdMicros};
use domain::pair::Pair;
use domain::quote::{Bound, Quote, Swap};
use domain::swap::Exchange;
use market::{Snapshot, hedge};

use crate::context::PayContext;
use crate::handle::ChainHandle;
use crate::payments::call::least_output;
use crate::payments::gas::{self, Shape};

#[derive(Debug)]
pub enum Repriced {
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

/// A fill is not worth making when its gas costs more than this many times the quoted gas and a dollar.
const MAX_GAS_TIMES: i64 = 3;
const GAS_SLACK: UsdMicros = UsdMicros(1_000_000);

pub fn reprice(
    quote: &Quote,
    quoted: Amount,
    handle: &ChainHandle,
    there: &Snapshot,
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
    if gas::is_routed(quote) && !affordable(quote, handle, there, context)? {
        return Ok(Repriced::Refund(FailReason::QuotedGasLimitExceeded));
    }
    let Some(swap) = &quote.destination_swap else { return Ok(Repriced::Pay { amount, swap: None }) };
    let Some(terms) = &quote.terms else { return Ok(Repriced::Unknown) };
    let (from, to) = (terms.payout.address.evm(), quote.ask.destination.address.evm());
    let market = from.zip(to).and_then(|(from, to)| there.exchange(from, to));
    let Some(market) = market.filter(|_| there.check_pools().is_ok()) else {
        // Not all pools are known at this block: the quoted path is tried, and its bound is enforced on the chain.
        return Ok(Repriced::Pay { amount, swap: Some(swap.clone()) });
    };
    let offer = match swap.bound {
        Bound::LeastOutput(_) => {
            let least = least_output(swap, amount)?;
            market.sell(amount).filter(|offer| offer.amount >= least)
        }
        Bound::MostInput(_) => market.buy(swap.output).filter(|offer| offer.amount <= amount),
    };
    Ok(match offer {
        Some(offer) => Repriced::Pay { amount, swap: Some(Swap { path: offer.path, ..swap.clone() }) },
        None => Repriced::Refund(FailReason::Slippage),
    })
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
    let charged = deposit.zip(payout).map_or(0, |(deposit, payout)| {
        let pair = Pair::of(deposit, payout);
        pair.spread_bps(&context.terms).saturating_add(pair.relay_bps(&context.terms))
    });
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

/// True if the gas of a fill costs about as much as quoted.
fn affordable(quote: &Quote, handle: &ChainHandle, there: &Snapshot, context: &PayContext) -> Result<bool, OutOfRange> {
    let figures = &quote.figures;
    let deposit = quote.terms.as_ref().and_then(|terms| {
        let (origin, _) = context.on(terms.deposit.chain)?;
        origin.chain.currency(&terms.deposit.address)
    });
    let (Some(deposit), Ok(native)) = (deposit, there.price(Address::ZERO)) else { return Ok(true) };
    let (units, bytes) = gas::typical(handle.chain.fill_gas, Shape::of(quote, false));
    let now = native.usd_floor(there.cost_with_data(units, bytes), handle.chain.native.decimals)?;
    let quoted = figures.prices.deposit.usd_floor(figures.fees.fill_gas, deposit.decimals)?;
    Ok(now.0 <= quoted.0.saturating_mul(MAX_GAS_TIMES).saturating_add(GAS_SLACK.0))
}
