//! The senders of money at a deposit address.

use alloy::primitives::{Address, U256};
use domain::arrival::is_sender;
use domain::money::Amount;
use domain::quote::{Quote, RefundTarget};
use store::arrivals::Arrival;

use crate::env::Screening;

/// A wallet on the operator's list that has sent some of a balance, however little: a share that goes through would be
/// a way through the list, a little at a time.
pub(super) fn blocked_sender(waiting: &[Arrival], screening: &Screening) -> Option<Address> {
    waiting.iter().filter_map(|arrival| arrival.sender).find(|who| screening.blocked.contains(who))
}

/// Whom the deposit names. None if nobody is known: then it names the address itself, and does not go back.
pub(super) fn depositor(quote: &Quote, waiting: &[Arrival], balance: U256) -> Option<Address> {
    match quote.refund_target() {
        RefundTarget::Named(who) => who.evm(),
        RefundTarget::Depositor => sender(waiting, balance),
        RefundTarget::Nobody => quote.ask.options.deposit_address.and_then(|ask| ask.recovery),
    }
}

/// The sender of nearly all that is at an address, if it is known.
///
/// The balance is read later than the transfers, and may hold some that are not known yet.
fn sender(waiting: &[Arrival], balance: U256) -> Option<Address> {
    let sum = |counts: &dyn Fn(&Arrival) -> bool| {
        let counted = waiting.iter().filter(|arrival| counts(arrival)).map(|arrival| arrival.amount.units());
        counted.fold(U256::ZERO, U256::saturating_add)
    };
    let largest = waiting.iter().max_by_key(|arrival| arrival.amount).filter(|arrival| arrival.direct)?.sender?;
    let (all, theirs) = (sum(&|_| true), sum(&|arrival| arrival.direct && arrival.sender == Some(largest)));
    // Transfers that a reorg took away may still be known: then nobody can tell whose the rest is.
    if all > balance {
        return None;
    }
    is_sender(Amount::new(theirs), Amount::new(balance)).ok()?.then_some(largest)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;
    use domain::ids::ChainId;
    use domain::time::Timestamp;

    use super::*;

    fn arrival(sender: Option<u8>, units: u64) -> Arrival {
        Arrival {
            chain: ChainId(1),
            address: Address::ZERO,
            currency: Address::ZERO,
            amount: Amount::new(U256::from(units)),
            tx: None,
            log_index: 0,
            sender: sender.map(Address::repeat_byte),
            direct: true,
            block_number: 1,
            block_hash: B256::ZERO,
            ripe_at: 1,
            created_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_blocked_wallet_stops_an_address_whatever_it_sent() {
        let screening = Screening { blocked: [Address::repeat_byte(9)].into(), ..Screening::default() };
        let clean = vec![arrival(Some(1), 1_000), arrival(None, 5)];
        assert_eq!(blocked_sender(&clean, &screening), None);
        let dusted = [clean, vec![arrival(Some(9), 1)]].concat();
        assert_eq!(blocked_sender(&dusted, &screening), Some(Address::repeat_byte(9)));
        assert_eq!(blocked_sender(&dusted, &Screening::default()), None);
    }

    #[test]
    fn the_sender_is_who_sent_nearly_all_of_it() {
        let one = Some(Address::repeat_byte(1));
        for (arrivals, expected) in [
            (vec![], None),
            (vec![arrival(Some(1), 10)], one),
            (vec![arrival(None, 10)], None),
            (vec![arrival(Some(1), 5), arrival(Some(1), 5)], one),
            (vec![arrival(Some(2), 1), arrival(Some(1), 9)], one),
            (vec![arrival(Some(2), 2), arrival(Some(1), 9)], None),
            (vec![arrival(None, 1), arrival(Some(1), 90)], one),
            (vec![arrival(Some(1), 5), arrival(Some(2), 5)], None),
        ] {
            let sum = arrivals.iter().map(|it: &Arrival| it.amount.units()).fold(U256::ZERO, U256::saturating_add);
            assert_eq!(sender(&arrivals, sum), expected, "{arrivals:?}");
        }
        // A transfer that a reorg took away, and another's.
        assert_eq!(
            sender(&[arrival(Some(1), 1_000), arrival(Some(2), 100)], U256::from(101)),
            None,
            "some of it is gone"
        );
        assert_eq!(sender(&[arrival(Some(1), 1)], U256::from(10)), None, "most of it is not known");
    }
}
