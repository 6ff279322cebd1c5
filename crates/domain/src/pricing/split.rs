//! The split of a deposit into fees and the part that is exchanged.

use crate::fees::{Charge, Fees};
use crate::money::{Amount, Price, Signed, UsdMicros};
use crate::quote::Ask;
use crate::sponsorship::{NotSponsored, Sponsorship};

use super::Refusal;

/// The parts of a deposit.
#[derive(Debug)]
pub(crate) struct Split {
    pub fees: Fees,
    pub sponsorship: Option<Sponsorship>,
    pub exchanged: Amount,
}

/// Divides a deposit into fees, what a sponsor adds, and what is left.
pub(crate) fn split(
    ask: &Ask,
    charge: &Charge,
    deposit: Amount,
    loss: Amount,
    (price, decimals): (Price, u8),
    available: UsdMicros,
) -> Result<Split, Refusal> {
    let fees = charge.fees(deposit)?;
    let sponsorship = match &ask.options.sponsor {
        None => None,
        Some(sponsor) => {
            let swap = fees.rebalance.checked_add(Signed::cost(loss))?;
            let totals = [
                Signed::cost(fees.execution()?),
                swap,
                Signed::cost(fees.relay),
                Signed::cost(fees.app_total()?),
                Signed::ZERO,
            ];
            let mut paid = Sponsorship::allocate(sponsor, totals, price, decimals)?;
            // At a deposit address a sponsor pays everything or nothing.
            if paid.cap_hit && ask.options.deposit_address.is_some() {
                paid = Sponsorship { cap_hit: true, ..Sponsorship::none(sponsor, totals, NotSponsored::CapTooLow) };
            }
            if price.usd_ceil(paid.sponsored_total()?, decimals)? <= available {
                Some(paid)
            } else if ask.options.fixed_rate.is_some() {
                return Err(Refusal::SponsorBalance);
            } else {
                Some(Sponsorship::none(sponsor, totals, NotSponsored::BalanceTooLow))
            }
        }
    };
    let sponsored = sponsorship.as_ref().map_or(Ok(Amount::ZERO), Sponsorship::sponsored_total)?;
    let total = fees.total()?;
    let left = total.taken_from(deposit.checked_add(sponsored)?);
    let exchanged = left.map_err(|_| Refusal::AmountTooLow { fees: total.size() })?;
    Ok(Split { fees, sponsorship, exchanged })
}
