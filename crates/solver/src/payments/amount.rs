//! The amount of a payment: fixed when due for fills and claims; refunds, returns and excess pay for their own gas.

use alloy::primitives::{Address, U256};
use domain::account::Account;
use domain::fail::RefundFailReason;
use domain::ids::{ChainId, OrderId};
use domain::money::{Amount, OutOfRange, Price, Ratio, UsdMicros};
use domain::quote::Quote;
use domain::venue::Holding;
use market::Snapshot;
use store::deposits::DepositId;
use store::dues::Due;
use store::payments::{Purpose, Subject};
use store::relays::Burnt;
use store::{Tx, deposits, payments, relays, sweeps};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::payments::decide::{PayingChain, Stop};
use crate::payments::gas::{self, Shape};
use crate::payments::{Outcome, Reason};

/// The largest share of our payable funds that one return may take: a larger return is left to the depository, or
/// anyone could move our inventory into it.
const MAX_RETURN_BPS: u16 = 1_000;

/// The amount that leaves our funds, before a fill is priced again.
pub(super) fn of(
    tx: &mut Tx<'_>,
    due: &Due,
    quote: Option<&Quote>,
    to_contract: bool,
    chain: &PayingChain<'_>,
    context: &PayContext,
) -> Result<Amount, Stop> {
    match due.purpose() {
        Purpose::Fill | Purpose::Claim if due.amount.is_zero() => {
            Err(SolverError::InvariantViolated("a payment of nothing").into())
        }
        Purpose::Fill | Purpose::Claim => Ok(due.amount),
        // Nothing of ours moves but gas.
        Purpose::Relay => Ok(Amount::ZERO),
        // The allocator hands its payouts to the lanes by itself, and so do the gas refill and the deposit addresses.
        Purpose::Payout | Purpose::Refill | Purpose::Sweep => {
            Err(SolverError::InvariantViolated("a payout, a gas refill or a sweep is never due").into())
        }
        Purpose::Refund => {
            let amount = less_gas(tx, due, quote, to_contract, chain, context)?;
            let worth = quote.map(|quote| quote.deposit_worth(&chain.handle.chain, due.currency, due.amount));
            within_own_funds(due, worth, chain)?;
            Ok(amount)
        }
        // However large: the deposit is final and ours, and the depository pays no excess.
        Purpose::Excess => less_gas(tx, due, None, to_contract, chain, context),
        Purpose::Return => {
            let amount = less_gas(tx, due, None, to_contract, chain, context)?;
            // On the venue there is no depository: the deposit is in the very account that returns it.
            if chain.handle.venue.is_some() {
                return worth_a_transfer(due, amount, chain);
            }
            let payable = chain.handle.payable(due.currency, chain.snapshot, false);
            let most = payable.mul_floor(Ratio::bps(MAX_RETURN_BPS))?;
            if amount > most { Err(Stop::not_now(Reason::TooLarge)) } else { Ok(amount) }
        }
    }
}

/// The smallest return on the venue. Transfers of an account without fees cost it nothing, and would go to and fro for
/// ever, each with calls that payments need.
const MIN_VENUE_RETURN: UsdMicros = UsdMicros(100_000);

/// The amount of a return on the venue, unless it is worth less than anybody would send.
fn worth_a_transfer(due: &Due, amount: Amount, chain: &PayingChain<'_>) -> Result<Amount, Stop> {
    let (decimals, price) = (decimals_of(chain.handle, due.currency), chain.snapshot.price(due.currency));
    let (Some(decimals), Ok(price)) = (decimals, price) else { return Err(Stop::not_now(Reason::NoMarket)) };
    match is_worth_a_transfer(price, decimals, amount)? {
        true => Ok(amount),
        false => Err(Stop::Because(Outcome::Worthless(RefundFailReason::AmountTooLowToRefund))),
    }
}

fn is_worth_a_transfer(price: Price, decimals: u8, amount: Amount) -> Result<bool, OutOfRange> {
    Ok(price.usd_floor(amount, decimals)? >= MIN_VENUE_RETURN)
}

/// Leaves a large refund to the depository, if the depository can pay it.
fn within_own_funds(due: &Due, worth: Option<UsdMicros>, chain: &PayingChain<'_>) -> Result<(), Stop> {
    let large = worth.is_some_and(|worth| worth > chain.handle.settings.most_refund);
    if large && chain.handle.depository_pays(due.currency, due.amount) {
        return Err(Stop::not_now(Reason::TooLarge));
    }
    Ok(())
}

/// The amount due, less the gas of sending it, of the sweep or relay that brought it, and of the order's fills that
/// failed.
fn less_gas(
    tx: &mut Tx<'_>,
    due: &Due,
    refunded: Option<&Quote>,
    to_contract: bool,
    chain: &PayingChain<'_>,
    context: &PayContext,
) -> Result<Amount, Stop> {
    let (handle, snapshot) = (chain.handle, chain.snapshot);
    let cost = refund_cost(handle, snapshot, due.currency, to_contract)?;
    let brought = bringing_cost(tx, due, handle, snapshot)?;
    // The gas of a failed fill is the user's only where the recipient or the user's own calls refused.
    if refunded.is_some() && payments::is_unexplained(tx, &Subject::Fill(due.order()))? {
        return Err(Stop::not_now(Reason::CauseUnknown));
    }
    let wasted = match refunded {
        Some(quote) => wasted(tx, due.order(), (handle, snapshot), due.currency, quote, context)?,
        None => Some(Amount::ZERO),
    };
    let (Some(cost), Some(brought), Some(wasted)) = (cost, brought, wasted) else {
        return Err(Stop::not_now(Reason::NoMarket));
    };
    let amount = due.amount.saturating_sub(cost).saturating_sub(brought);
    let worthless = |reason| Err(Stop::Because(Outcome::Worthless(reason)));
    if amount.is_zero() {
        return worthless(RefundFailReason::AmountTooLowToRefund);
    }
    if amount <= wasted {
        return worthless(RefundFailReason::NegativeNewAmountAfterFees);
    }
    Ok(amount.saturating_sub(wasted))
}

/// The gas of the sweep or the relay of ours that brought a deposit which goes back, in its currency: we have paid it,
/// and no fill pays for it. The excess of an order that was filled is not asked: the quote had it in its gas. None when
/// prices are not known.
fn bringing_cost(
    tx: &mut Tx<'_>,
    due: &Due,
    handle: &ChainHandle,
    snapshot: &Snapshot,
) -> Result<Option<Amount>, SolverError> {
    let stored = match due.subject {
        Subject::Refund(order) => deposits::of_order(tx, order)?,
        Subject::Return { row, .. } => deposits::get(tx, DepositId(row))?,
        Subject::Fill(_)
        | Subject::Excess(_)
        | Subject::Claim(_)
        | Subject::Refill(_)
        | Subject::Payout { .. }
        | Subject::Sweep(_)
        | Subject::Relay(_) => None,
    };
    let Some(deposit) = stored.map(|stored| stored.deposit) else { return Ok(Some(Amount::ZERO)) };
    let swept = match deposit.order_id {
        Some(order) => sweeps::brought(tx, deposit.chain, order, deposit.sender)?,
        None => false,
    };
    if swept {
        return Ok(sweep_cost(handle, snapshot, due.currency)?);
    }
    let burnt = match deposit.order_id {
        Some(order) => relays::at_our_cost(tx, order, deposit.chain, deposit.tx)?,
        None => None,
    };
    match burnt {
        Some(burnt) => Ok(relay_cost(handle, snapshot, burnt, due.currency)?),
        None => Ok(Some(Amount::ZERO)),
    }
}

/// The cost of a relay, in the currency that it brought. None when prices are not known.
pub fn relay_cost(
    handle: &ChainHandle,
    snapshot: &Snapshot,
    burnt: Burnt,
    currency: Address,
) -> Result<Option<Amount>, OutOfRange> {
    // Its receipt may not be read yet: then it is the most that it may have burnt.
    let wei = burnt.fee.unwrap_or_else(|| snapshot.cost(burnt.gas));
    in_currency(handle, snapshot, wei, currency)
}

/// The cost of sweeping a deposit address, in the currency that was swept. None when prices are not known.
pub fn sweep_cost(handle: &ChainHandle, snapshot: &Snapshot, currency: Address) -> Result<Option<Amount>, OutOfRange> {
    in_currency(handle, snapshot, gas::sweep_cost(snapshot, currency.is_zero()), currency)
}

/// The cost of sending a refund, in the refunded currency. None when prices are not known.
pub fn refund_cost(
    handle: &ChainHandle,
    snapshot: &Snapshot,
    currency: Address,
    to_contract: bool,
) -> Result<Option<Amount>, OutOfRange> {
    let shape = Shape::transfer(currency.is_zero(), to_contract, None);
    let wei = match &handle.venue {
        Some(venue) => Amount::new(U256::from(venue.own_fee())),
        None => gas::of(handle.chain.fill_gas, shape).cost(snapshot),
    };
    in_currency(handle, snapshot, wei, currency)
}

/// An amount of a chain's native currency in another currency of it. None when prices are not known.
fn in_currency(
    handle: &ChainHandle,
    snapshot: &Snapshot,
    wei: Amount,
    currency: Address,
) -> Result<Option<Amount>, OutOfRange> {
    if currency.is_zero() {
        return Ok(Some(wei));
    }
    let Some(decimals) = decimals_of(handle, currency) else { return Ok(None) };
    let (Ok(native), Ok(price)) = (snapshot.price(Address::ZERO), snapshot.price(currency)) else { return Ok(None) };
    let rate = Price::exchange((native, handle.chain.native.decimals), (price, decimals))?;
    Ok(Some(wei.mul_ceil(rate)?))
}

/// The decimals of a currency that may have to go back: a listed one, or an asset that reached the venue's account by
/// mistake.
fn decimals_of(handle: &ChainHandle, currency: Address) -> Option<u8> {
    let listed = handle.chain.token(currency).map(|token| token.decimals);
    listed.or_else(|| {
        let asset = handle.venue.as_ref().and_then(|_| Account::unpacked(handle.chain.vm, currency))?;
        Holding::of_currency(&asset).map(|holding| holding.asset.decimals())
    })
}

/// Gas of an order's fills that were refused, which comes off its refund, in the refunded currency. None when prices
/// are not known.
fn wasted(
    tx: &mut Tx<'_>,
    order: OrderId,
    (handle, snapshot): (&ChainHandle, &Snapshot),
    currency: Address,
    quote: &Quote,
    context: &PayContext,
) -> Result<Option<Amount>, SolverError> {
    let fees = payments::wasted(tx, &Subject::Fill(order))?;
    let on = |chain| {
        let (there, market) = context.on(chain)?;
        Some((market?.price(Address::ZERO).ok()?, there.chain.native.decimals))
    };
    Ok(wasted_gas(&fees, quote, (handle, snapshot), currency, on)?)
}

/// The same, from the fees of the failed fills by chain, within the bound of the quoted gas. `native` gives the price
/// and the decimals of a chain's native currency.
pub fn wasted_gas(
    fees: &[(ChainId, Amount)],
    quote: &Quote,
    (handle, snapshot): (&ChainHandle, &Snapshot),
    currency: Address,
    native: impl Fn(ChainId) -> Option<(Price, u8)>,
) -> Result<Option<Amount>, OutOfRange> {
    let mut sum = Amount::ZERO;
    for &(chain, fee) in fees {
        let known = if currency.is_zero() { Some(&handle.chain.native) } else { handle.chain.token(currency) };
        let (Some(native), Some(known), Ok(price)) = (native(chain), known, snapshot.price(currency)) else {
            return Ok(None);
        };
        let rate = Price::exchange(native, (price, known.decimals))?;
        sum = sum.checked_add(fee.mul_ceil(rate)?)?;
    }
    Ok(Some(sum.min(quote.figures.fees.max_wasted_gas()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_on_the_venue_is_worth_a_tenth_of_a_dollar() {
        let price = |dollars: u128| Price::new(dollars * 100_000_000, 8).unwrap();
        let is_made = |dollars, decimals, units: u64| {
            is_worth_a_transfer(price(dollars), decimals, Amount::new(U256::from(units))).unwrap()
        };
        for (name, dollars, decimals, units, expected) in [
            ("one unit", 1, 6, 1, false),
            ("just less", 1, 6, 99_999, false),
            ("ten cents", 1, 6, 100_000, true),
            ("dust of ether", 3_000, 8, 3_333, false),
            ("a little ether", 3_000, 8, 3_334, true),
        ] {
            assert_eq!(is_made(dollars, decimals, units), expected, "{name}");
        }
    }
}
