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
}

/// The share of each kind: half are normal transfers.
const MIX: [Kind; 14] = [
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
    /// A random choice that the kind leaves open.
    pub coin: bool,
    /// The id of a deposit without an order.
    pub word: B256,
    /// The quote is requested before the first fault.
    pub early: bool,
    pub at: Duration,
}

/// Transfers over the chains, spread over a time.
pub(crate) fn transfers(count: usize, chains: usize, time: Duration, rng: &Rng) -> Vec<Transfer> {
    let mut rng = rng.apart("transfers");
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let one = |index: usize| {
        let origin = index % chains;
        let hop = usize::from(rng.once_in(2));
        let from = *rng.of(&SYMBOLS);
        let to = if rng.once_in(4) { *rng.of(&SYMBOLS) } else { from };
        let others: Vec<&'static str> = SYMBOLS.into_iter().filter(|symbol| *symbol != from).collect();
        let mistaken = others[usize::try_from(rng.roll(others.len() as u64)).expect("an index")];
        Transfer {
            index,
            kind: MIX[(index / chains) % MIX.len()],
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
        let plan = |seed| transfers(42, 3, Duration::from_secs(9), &Rng::new(seed));
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
