//! The plan of all transfers, derived from the seed before anything runs.

use std::time::Duration;

use alloy::primitives::{Address, B256};
use devnet::{Account, Rng};

/// A user's behaviour with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Pays for it, as the steps say.
    Fill,
    /// The same, with fees or even the rate paid for by an integrator.
    Sponsored,
    /// The same, as a fast fill if the service is up to be asked.
    Ahead,
    /// Pays a third of it, and is refunded.
    Short,
    /// Pays for an order that asks to be refunded.
    Forced,
    /// Pays for it twice.
    Double,
    /// Pays for it, while somebody else sends a small amount under its id.
    Dust,
    /// Pays in another currency, and sometimes in the right one as well.
    WrongCurrency,
    /// Pays under an id that was never issued.
    Orphan,
    /// Deposits into the venue, sometimes as a fast fill.
    VenueIn,
    /// Withdraws from the venue.
    VenueOut,
    /// Withdraws, and transfers too little on the venue, twice, or under an id that was never issued.
    VenueOdd,
    /// Pays at an open address, one to three times and whatever amount, sometimes behind a stranger's dust.
    OpenAddress,
    /// Pays at a strict address: exactly, too much, too little, or behind a stranger's dust.
    StrictAddress,
    /// Signs an EIP-3009 authorization of its USDC: it has no native currency to send anything with.
    Authorization,
    /// Signs a permit of Permit2 for its USDT, which it approved when it still had native currency.
    Permit2,
    /// Signs an operation of an ERC-4337 account that is created by it, and has it sent by `POST /execute`.
    UserOperation,
    /// The same with an account of its own key, which takes on its code by EIP-7702 in the very transaction.
    DelegatedBatch,
}

impl Kind {
    /// True if its order is paid for on the venue.
    pub(crate) fn leaves_venue(self) -> bool {
        matches!(self, Self::VenueOut | Self::VenueOdd)
    }

    /// True if it has an account on the venue.
    pub(crate) fn uses_venue(self) -> bool {
        self == Self::VenueIn || self.leaves_venue()
    }

    /// True if it is paid by plain transfers to an address.
    pub(crate) fn has_address(self) -> bool {
        matches!(self, Self::OpenAddress | Self::StrictAddress)
    }

    /// True if it signs typed data of its quote.
    pub(crate) fn signs_permit(self) -> bool {
        matches!(self, Self::Authorization | Self::Permit2)
    }

    /// True if it is a smart account, whose signed call an integrator posts.
    pub(crate) fn is_raw_call(self) -> bool {
        matches!(self, Self::UserOperation | Self::DelegatedBatch)
    }

    /// True if it only signs, and one of our relayers brings its deposit.
    pub(crate) fn is_gasless(self) -> bool {
        self.signs_permit() || self.is_raw_call()
    }
}

/// The share of each kind where users only pay into a depository: half of them pay as they should.
pub(crate) const DEPOSITS: [Kind; 14] = [
    Kind::Fill,
    Kind::Double,
    Kind::Sponsored,
    Kind::Short,
    Kind::Ahead,
    Kind::Dust,
    Kind::Fill,
    Kind::WrongCurrency,
    Kind::Sponsored,
    Kind::Forced,
    Kind::Ahead,
    Kind::Orphan,
    Kind::Fill,
    Kind::Dust,
];

/// The share of each kind: one in ten deposits into the venue, one in ten withdraws from it, one in six pays at an
/// address, two in fifteen sign a permit, and one in fifteen is a smart account with a raw call.
pub(crate) const MIX: [Kind; 30] = [
    Kind::Fill,
    Kind::VenueIn,
    Kind::Authorization,
    Kind::UserOperation,
    Kind::Double,
    Kind::StrictAddress,
    Kind::Permit2,
    Kind::DelegatedBatch,
    Kind::Sponsored,
    Kind::VenueOut,
    Kind::Short,
    Kind::OpenAddress,
    Kind::Ahead,
    Kind::VenueOdd,
    Kind::Dust,
    Kind::StrictAddress,
    Kind::WrongCurrency,
    Kind::VenueIn,
    Kind::Authorization,
    Kind::Forced,
    Kind::OpenAddress,
    Kind::Orphan,
    Kind::VenueOut,
    Kind::Permit2,
    Kind::Sponsored,
    Kind::StrictAddress,
    Kind::Ahead,
    Kind::VenueIn,
    Kind::Fill,
    Kind::Dust,
];

pub(crate) const SYMBOLS: [&str; 4] = ["ETH", "USDC", "USDT", "DAI"];

/// One order and everything sent under its id.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub index: usize,
    pub kind: Kind,
    /// Indexes in the list of chains.
    pub origin: usize,
    pub destination: usize,
    pub from: &'static str,
    pub to: &'static str,
    /// In cents, or in hundred-thousandths of an ether.
    pub size: u64,
    /// Accounts used by no other transfer, so that their final balances are conclusive.
    pub user: Account,
    pub stranger: Account,
    pub recipient: Address,
    /// The wrong currency the user pays with.
    pub mistaken: &'static str,
    /// Random choices that the kind leaves open.
    pub coin: bool,
    pub choice: u64,
    /// The id of a deposit without an order.
    pub word: B256,
    /// The quote is requested before the first fault.
    pub early: bool,
    pub at: Duration,
}

/// The way in which an odd withdrawal is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    Short,
    Twice,
    /// Under an id that was never issued.
    Stray,
}

impl Transfer {
    /// None for a transfer that is no odd withdrawal.
    pub(crate) fn odd(&self) -> Option<Odd> {
        let odd = match self.choice % 3 {
            0 => Odd::Short,
            1 => Odd::Twice,
            _ => Odd::Stray,
        };
        (self.kind == Kind::VenueOdd).then_some(odd)
    }
}

/// Transfers over the chains, spread over a time.
pub(crate) fn transfers(count: usize, mix: &[Kind], chains: usize, time: Duration, rng: &Rng) -> Vec<Transfer> {
    let mut rng = rng.apart("transfers");
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let one = |index: usize| {
        let (kind, origin) = (mix[index % mix.len()], (index + index / mix.len()) % chains);
        let hop = usize::from(rng.once_in(2));
        let from = *rng.of(&SYMBOLS);
        let to = if rng.once_in(4) { *rng.of(&SYMBOLS) } else { from };
        // The venue's own end is its USDC, and a permit's kind depends on its token.
        let (from, to) = match kind {
            Kind::Authorization | Kind::UserOperation => ("USDC", to),
            Kind::Permit2 | Kind::DelegatedBatch => ("USDT", to),
            Kind::VenueIn => (from, "USDC"),
            Kind::VenueOut | Kind::VenueOdd => ("USDC", to),
            _ => (from, to),
        };
        let others: Vec<&'static str> = SYMBOLS.into_iter().filter(|symbol| *symbol != from).collect();
        let mistaken = others[usize::try_from(rng.roll(others.len() as u64)).expect("an index")];
        Transfer {
            index,
            kind,
            origin,
            destination: (origin + 1 + hop) % chains,
            from,
            to,
            size: rng.between(800, 9_000),
            user: rng.account(),
            stranger: rng.account(),
            recipient: rng.account().address,
            mistaken,
            coin: rng.once_in(2),
            choice: rng.roll(12),
            word: rng.word(),
            early: rng.once_in(2),
            at: Duration::from_millis(rng.roll(millis.max(1))),
        }
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_and_a_short_one_has_every_kind() {
        let plan = |seed| transfers(42, &MIX, 3, Duration::from_secs(9), &Rng::new(seed));
        let shown = |seed| plan(seed).iter().map(|transfer| format!("{transfer:?}")).collect::<Vec<_>>();
        assert_eq!(shown(3), shown(3));
        assert_ne!(shown(3), shown(4));
        let kinds: BTreeSet<_> = plan(3).iter().map(|transfer| transfer.kind).collect();
        assert_eq!(kinds, MIX.into_iter().collect());
        assert!(
            plan(3)
                .iter()
                .all(|transfer| transfer.origin != transfer.destination && transfer.from != transfer.mistaken)
        );
    }
}
