//! A deposit's worth on an app balance, at this moment: as a credit, and as a charge.
//!
//! Both are exchanges at our own terms. At the bare price of a feed, whoever chooses the moment could buy or sell with us
//! for nothing.

use alloy::primitives::Address;
use domain::ids::ChainId;
use domain::ledger::{self, UsdcMicros};
use domain::money::{Amount, OutOfRange, Price, Ratio, pow10};
use domain::pair::Pair;
use market::Snapshot;

use crate::context::PayContext;

/// The credit for an amount of a currency. None while its worth is not known.
pub fn credit(
    context: &PayContext,
    (chain, currency): (ChainId, Address),
    amount: Amount,
) -> Result<Option<UsdcMicros>, OutOfRange> {
    context.credit_rate(chain, currency, amount)?.map(|rate| rate.micros(amount)).transpose()
}

/// The charge for an amount of a currency that is owed to us: the rate of the feeds, and relay fee and spread on top.
/// None while that is not known. Pools do not count: anyone could move one against the one who is charged.
pub fn charge(
    context: &PayContext,
    (chain, currency): (ChainId, Address),
    amount: Amount,
) -> Result<Option<UsdcMicros>, OutOfRange> {
    let Some((handle, here)) = context.on(chain) else { return Ok(None) };
    let Some(currency) = handle.chain.token(currency) else { return Ok(None) };
    let Some((home, there)) = context.balances().and_then(|home| context.on(home.id())) else { return Ok(None) };
    let Some(usdc) = ledger::currency(&home.chain) else { return Ok(None) };
    let pair = Pair::of(currency, usdc);
    let fresh = |snapshot: Option<&Snapshot>, of: Address| {
        snapshot.filter(|snapshot| snapshot.check_age().is_ok()).and_then(|snapshot| snapshot.fed(of))
    };
    let prices = if pair.is_exchange() {
        fresh(here, currency.evm_address()).zip(fresh(there, usdc.evm_address()))
    } else {
        // One asset is worth itself, whatever its price.
        Some((Price::DOLLAR, Price::DOLLAR))
    };
    let Some((price, usdc_price)) = prices else { return Ok(None) };
    let charged = pair.relay_bps(&context.terms).saturating_add(pair.spread_bps(&context.terms));
    let rate = pair.rate((currency, price), (usdc, usdc_price))?.times(Ratio::bps_more(charged))?;
    let micros = rate.times(Ratio::new(pow10(6), pow10(usdc.decimals))?)?;
    i64::try_from(amount.mul_ceil(micros)?.units()).map(|micros| Some(UsdcMicros(micros))).map_err(|_| OutOfRange)
}
