//! The verdict on the venue: its books and ours agree, every transfer into our account had exactly one end, and every
//! transfer out of it has its cause.

use std::collections::BTreeSet;

use alloy::primitives::B256;
use devnet::BookedTransfer;
use domain::venue::{AccountIndex, Route, Standing, tx_key};

use super::ledger::Ledger;
use super::plan::{Odd, Transfer};
use super::venue::{Booked, CHAIN};
use super::verdict::return_key;

/// The id under which a transfer into our account goes back if it pays for nothing.
pub(crate) fn return_id(incoming: &BookedTransfer) -> B256 {
    return_key(CHAIN, tx_key(incoming.hash.bytes()))
}

/// The ends of one withdrawal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Withdrawn {
    pub deposits: usize,
    pub fills: usize,
    pub refunds: usize,
    pub returns: usize,
}

impl Booked {
    fn is_paid(booked: &BookedTransfer) -> bool {
        booked.status.standing() == Standing::Paid
    }

    fn leaves(&self, booked: &BookedTransfer) -> bool {
        booked.transfer.from == self.solver && booked.transfer.to != self.solver
    }

    fn arrives(&self, booked: &BookedTransfer) -> bool {
        booked.transfer.to == self.solver && booked.transfer.from != self.solver
    }

    /// Our transfers under an id that were paid.
    pub(crate) fn paid_under(&self, id: B256) -> impl Iterator<Item = &BookedTransfer> {
        let ours = self.transfers.iter().filter(move |it| self.leaves(it) && Self::is_paid(it));
        ours.filter(move |it| it.transfer.memo.0 == id)
    }

    /// True if a transfer of ours under this id has failed.
    pub(crate) fn has_failed(&self, id: B256) -> bool {
        let mut ours = self.transfers.iter().filter(|it| self.leaves(it) && it.transfer.memo.0 == id);
        ours.any(|it| it.status.standing() == Standing::Void)
    }

    /// Transfers from an account into ours that were paid.
    fn incoming(&self, from: AccountIndex) -> Vec<&BookedTransfer> {
        let all = self.transfers.iter().filter(|it| self.arrives(it) && Self::is_paid(it));
        all.filter(|it| it.transfer.from == from).collect()
    }

    /// The ends of a withdrawal, in the venue's books and on the chains.
    pub(crate) fn withdrawn(
        &self,
        transfer: &Transfer,
        (account, id): (AccountIndex, B256),
        ledgers: &[Ledger],
        say: &mut impl FnMut(String),
    ) -> Withdrawn {
        let incoming = self.incoming(account);
        let on_chain = |chain: usize, id: &B256| ledgers[chain].by_id().get(id).map_or(0, Vec::len);
        let fills = on_chain(transfer.destination, &id);
        let elsewhere = (0..ledgers.len()).map(|chain| on_chain(chain, &id)).sum::<usize>() - fills;
        let refunds: Vec<_> = self.paid_under(id).collect();
        let returned: Vec<_> =
            incoming.iter().flat_map(|it| self.paid_under(return_id(it)).map(move |back| (back, *it))).collect();
        let (deposits, ends) = (incoming.len(), fills + refunds.len() + returned.len());
        let (refunds_made, returns) = (refunds.len(), returned.len());
        if fills + refunds_made > 1 || elsewhere > 0 {
            say(format!("order {id} has {fills} fills, {refunds_made} refunds and {elsewhere} payments elsewhere"));
        }
        let sent = if transfer.odd() == Some(Odd::Twice) { 2 } else { 1 };
        if deposits != sent || ends != deposits {
            say(format!(
                "{deposits} of {sent} transfers have {fills} fills, {refunds_made} refunds and {returns} returns"
            ));
        }
        // Our transfers are free of fees: all of it goes back.
        for (back, of) in &returned {
            if back.transfer.to != account || back.transfer.amount != of.transfer.amount {
                say(format!("{} came back of {}", back.transfer.amount.get(), of.transfer.amount.get()));
            }
        }
        for refund in &refunds {
            let paid = incoming.iter().any(|it| it.transfer.amount == refund.transfer.amount);
            if refund.transfer.to != account || !paid {
                say(format!("{} was refunded on the venue", refund.transfer.amount.get()));
            }
        }
        // The market moves ether against the rest, and may have left a quote behind.
        let fine = match transfer.odd() {
            None | Some(Odd::Twice) => fills == 1 || (transfer.to == "ETH" && refunds_made == 1),
            Some(Odd::Short) => refunds_made == 1,
            Some(Odd::Stray) => returns == 1 && fills + refunds_made == 0,
        };
        if !fine {
            say(format!("it has {fills} fills, {refunds_made} refunds and {returns} returns"));
        }
        Withdrawn { deposits, fills, refunds: refunds_made, returns }
    }

    /// Every transfer of the solver's account has its cause, none is open, and its balance is what they make of it.
    /// `causes` are the ids of orders, `users` the accounts that may have paid.
    pub(crate) fn books(&self, causes: &BTreeSet<B256>, users: &BTreeSet<AccountIndex>, wrong: &mut Vec<String>) {
        let mut has = i128::from(self.before);
        let mut returned = BTreeSet::new();
        for it in self.transfers.iter().filter(|it| self.arrives(it)) {
            if !users.contains(&it.transfer.from) {
                wrong.push(format!("the venue: {} came from somebody unknown", it.hash));
            }
            returned.insert(return_id(it));
            has += if Self::is_paid(it) { i128::from(it.transfer.amount.get()) } else { 0 };
        }
        for it in self.transfers.iter().filter(|it| it.transfer.from == self.solver) {
            let (transfer, memo) = (&it.transfer, it.transfer.memo.0);
            let known = !self.leaves(it) || causes.contains(&memo) || returned.contains(&memo);
            if !known {
                wrong.push(format!("the venue: {} is for nothing we know of", it.hash));
            }
            if Self::is_paid(it) {
                // A cancellation moves a unit between two balances of ours.
                let stays = transfer.to == self.solver && transfer.to_route == Route::Perps;
                let out = if stays { 0 } else { transfer.amount.get() };
                has -= i128::from(out) + i128::from(transfer.usdc_fee.get());
            }
        }
        if self.transfers.iter().any(|it| it.status.standing() == Standing::Open) {
            wrong.push("the venue: a transfer has not ended yet".to_owned());
        }
        if has != i128::from(self.balance) {
            wrong.push(format!("the venue: {} is there, and {has} should be", self.balance));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::venue::{Asset, Memo, TxStatus, Units};
    use venue::{Expiry, Fee, KeyIndex, Network, Nonce};

    use super::*;

    const ORDER: B256 = B256::repeat_byte(7);

    fn index(index: u64) -> AccountIndex {
        AccountIndex::new(index).unwrap()
    }

    /// A transfer of so many units, with a nonce of its own.
    fn booked(nonce: u64, (from, to): (u64, u64), amount: u64, memo: B256, status: TxStatus) -> BookedTransfer {
        let transfer = venue::Transfer {
            from: index(from),
            key_index: KeyIndex::new(3).unwrap(),
            to: index(to),
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(amount).unwrap(),
            usdc_fee: Fee::new(0).unwrap(),
            memo: Memo(memo),
            expires_at: Expiry::new(1_700_000_000_000).unwrap(),
            nonce: Nonce::new(nonce).unwrap(),
            skips_nonces: false,
        };
        BookedTransfer { hash: transfer.hash(Network::TESTNET), transfer, status }
    }

    fn wrong(balance: u64, transfers: Vec<BookedTransfer>) -> Vec<String> {
        let books = Booked { solver: index(1), balance, before: 1_000, transfers };
        let mut wrong = Vec::new();
        books.books(&BTreeSet::from([ORDER]), &BTreeSet::from([index(5)]), &mut wrong);
        wrong
    }

    #[test]
    fn every_transfer_of_ours_has_its_cause_and_moves_the_balance() {
        use TxStatus::{Executed, Failed, Queued};
        let fill = booked(0, (1, 5), 10, ORDER, Executed);
        let paid = booked(0, (5, 1), 30, B256::repeat_byte(9), Executed);
        let back = booked(1, (1, 5), 30, return_id(&paid), Executed);
        assert_eq!(wrong(990, vec![fill, paid, back]), Vec::<String>::new());
        for (name, balance, transfers) in [
            ("is for nothing we know of", 990, vec![booked(0, (1, 5), 10, B256::repeat_byte(8), Executed)]),
            ("should be", 1_000, vec![fill]),
            ("should be", 990, vec![booked(0, (1, 5), 10, ORDER, Failed)]),
            ("has not ended", 1_000, vec![booked(0, (1, 5), 10, ORDER, Queued)]),
            ("somebody unknown", 1_030, vec![booked(0, (6, 1), 30, ORDER, Executed)]),
        ] {
            let found = wrong(balance, transfers);
            assert!(found.len() == 1 && found[0].contains(name), "{name}: {found:?}");
        }
        let books = Booked { solver: index(1), balance: 0, before: 0, transfers: vec![fill, back] };
        assert_eq!((books.paid_under(ORDER).count(), books.has_failed(ORDER)), (1, false));
    }
}
