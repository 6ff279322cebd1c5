//! Hedging: the pools' price for what a fill leaves us with.

use domain::catalog::{Chain, Currency};
use domain::money::{Amount, Ratio, pow10};
use domain::swap::Exchange;

use crate::snapshot::Snapshot;

/// The pools' rate from a deposit to the payout's asset, on the chain the deposit came to or else on the other: the
/// price of making good at once what is paid out. None where no pool trades the two, or they are one asset.
pub fn hedge(
    (origin, deposit, here): (&Chain, &Currency, &Snapshot),
    (destination, payout, there): (&Chain, &Currency, &Snapshot),
    amount: Amount,
) -> Option<Ratio> {
    if deposit.id == payout.id || amount.is_zero() {
        return None;
    }
    // One asset has the same worth on both chains, and not always the same decimals.
    let same = |amount: Amount, from: &Currency, to: &Currency| {
        amount.mul_floor(Ratio::new(pow10(to.decimals), pow10(from.decimals)).ok()?).ok()
    };
    let at_origin = origin.currencies().find(|currency| currency.id == payout.id).and_then(|twin| {
        let offer = here.exchange(deposit.evm_address(), twin.evm_address())?.sell(amount)?;
        same(offer.amount, twin, payout)
    });
    let at_destination = || {
        let twin = destination.currencies().find(|currency| currency.id == deposit.id)?;
        let offer = there.exchange(twin.evm_address(), payout.evm_address())?.sell(same(amount, deposit, twin)?)?;
        Some(offer.amount)
    };
    let best = at_origin.or_else(at_destination)?;
    Ratio::new(best.units(), amount.units()).ok()
}
