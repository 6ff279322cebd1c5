//! The cap on payments that become void by the venue's word within an hour.
//!
//! A payment that is void is made again, or its deposit goes back. A venue that executes payments and shows them as
//! failed makes us pay twice, as often as somebody deposits: so that word has a cap, like its word that a transfer was
//! executed. It is counted from the rows, so that a restart does not forget it.

use alloy::primitives::Address;
use domain::account::{Account, Vm};
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use domain::time::Timestamp;
use domain::venue::{Asset, Holding};
use market::Snapshot;
use store::{Tx, payments};

use crate::error::SolverError;

const WINDOW_MILLIS: i64 = 3_600_000;
/// Void payments that are added up. With as many as this in an hour nothing more becomes void.
const MAX_VOIDS: i64 = 4_096;

/// The worth of payments that may still become void now. None while it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VoidCap(Option<UsdMicros>);

impl VoidCap {
    /// The rest of a cap after the void payments of the last hour.
    pub(crate) fn read(
        tx: &mut Tx<'_>,
        chain: ChainId,
        cap: UsdMicros,
        now: Timestamp,
        worth: impl Fn(Address, Amount) -> Option<UsdMicros>,
    ) -> Result<Self, SolverError> {
        let since = Timestamp::from_millis(now.millis().saturating_sub(WINDOW_MILLIS));
        let voids = payments::void_since(tx, chain, since, MAX_VOIDS)?;
        if i64::try_from(voids.len()).is_ok_and(|number| number < MAX_VOIDS) {
            let left = voids.into_iter().try_fold(cap.0, |left, (currency, amount)| {
                worth(currency, amount).map(|worth| left.saturating_sub(worth.0))
            });
            return Ok(Self(left.map(UsdMicros)));
        }
        Ok(Self(None))
    }

    /// Counts a payment that is to become void. False if it does not fit, or its worth is not known.
    pub(crate) fn take(&mut self, worth: Option<UsdMicros>) -> bool {
        let (Some(left), Some(worth)) = (self.0, worth) else { return false };
        let fits = worth <= left;
        if fits {
            self.0 = Some(UsdMicros(left.0.saturating_sub(worth.0)));
        }
        fits
    }
}

/// The worth of an amount on the venue, with USDC at a dollar and ether at the last price that was known, however old:
/// a cap needs no closer figure, and a market that is gone must not keep every payment from being void.
pub(crate) fn worth(snapshot: Option<&Snapshot>, currency: Address, amount: Amount) -> Option<UsdMicros> {
    let holding = match currency.is_zero() {
        true => Holding::COLLATERAL,
        false => Account::unpacked(Vm::Venue, currency).and_then(|currency| Holding::of_currency(&currency))?,
    };
    if holding.asset == Asset::USDC {
        let units = u64::try_from(amount.units()).ok()?;
        return i64::try_from(units).ok().map(UsdMicros);
    }
    let price = snapshot?.prices.get(&currency)?.price;
    price.usd_ceil(amount, holding.asset.decimals()).ok()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;
    use domain::venue::AccountIndex;

    use super::*;

    #[test]
    fn a_payment_is_void_only_while_the_cap_has_room_for_it() {
        let mut cap = VoidCap(Some(UsdMicros(100)));
        assert!(cap.take(Some(UsdMicros(60))) && !cap.take(Some(UsdMicros(41))) && cap.take(Some(UsdMicros(40))));
        assert!(!cap.take(Some(UsdMicros(1))) && cap.take(Some(UsdMicros(0))));
        assert!(!VoidCap(Some(UsdMicros(100))).take(None), "a worth that is not known does not fit");
        assert!(!VoidCap(None).take(Some(UsdMicros(1))));
        assert!(!VoidCap(Some(UsdMicros(-1))).take(Some(UsdMicros(0))));
    }

    #[test]
    fn collateral_and_spot_usdc_are_dollars_and_ether_has_its_price() {
        let amount = Amount::new(U256::from(5_000_000));
        let spot = |asset| AccountIndex::new(asset).unwrap().packed();
        assert_eq!(worth(None, Address::ZERO, amount), Some(UsdMicros(5_000_000)));
        assert_eq!(worth(None, spot(3), amount), Some(UsdMicros(5_000_000)));
        assert_eq!(worth(None, spot(1), amount), None);
        assert_eq!(worth(None, spot(2), amount), None);
        assert_eq!(worth(None, Address::ZERO, Amount::new(U256::MAX)), None);
    }
}
