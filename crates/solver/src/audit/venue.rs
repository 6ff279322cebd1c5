//! The venue: each deposit and each payment against its transaction, and every nonce accounted for.

use alloy::primitives::B256;
use domain::venue::{AccountIndex, TxStatus};
use store::audit::{self, Payment};
use store::{blocks, lanes, venue_txs};
use venue::{Digest, VenueTx};

use super::{Audit, Check};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::VenueChain;
use crate::payments::venue_tx::sent_tx;

const PAGE: i64 = 500;

impl Audit<'_, '_> {
    pub(super) fn venue(&mut self, handle: &ChainHandle, venue: &VenueChain) -> Result<(), SolverError> {
        let name = &handle.chain.name;
        let (mut paid, mut deposited) = (
            Check::new(name, "payments are executed on the venue and paid what they say"),
            Check::new(name, "deposits are executed transfers into our account"),
        );
        let mut after = 0;
        loop {
            let page = audit::payments(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|payment| payment.id) else { break };
            for payment in page.iter().filter(|payment| payment.chain == handle.id()) {
                self.venue_payment(venue, payment, &mut paid)?;
            }
            after = last;
        }
        self.venue_deposits(handle, venue, &mut deposited)?;
        let mut nonces = Check::new(name, "every nonce of our account belongs to a payment");
        for lane in lanes::all(self.tx, handle.id())? {
            nonces.compared += 1;
            let taken = blocks::cursor(self.tx, handle.id())?.map_or(0, |cursor| cursor.number);
            let known = audit::nonces(self.tx, handle.id(), lane.wallet, taken)?;
            let lowest = known.lowest.unwrap_or(lane.next_nonce);
            let spanned = lane.next_nonce.saturating_sub(lowest);
            if known.count != spanned {
                nonces.differs(format!("{} payments for the {spanned} nonces from {lowest} on", known.count));
            }
            let used = self.wait(venue.client.next_nonce(venue.account, venue.key_index))?.get();
            if used > lane.next_nonce {
                nonces.differs(format!("the venue has used {used} nonces, the database knows {}", lane.next_nonce));
            }
        }
        self.checks.extend([paid, deposited, nonces]);
        Ok(())
    }

    /// The transaction behind a row, by the venue's name of it.
    fn venue_tx(&mut self, venue: &VenueChain, key: B256) -> Result<Option<VenueTx>, SolverError> {
        let Some(digest) = venue_txs::digest(self.tx, key)? else { return Ok(None) };
        let digest: Digest = digest.parse().map_err(|_| SolverError::InvariantViolated("not a hash of the venue"))?;
        Ok(self.wait(venue.client.transaction(digest))?)
    }

    fn venue_payment(&mut self, venue: &VenueChain, payment: &Payment, check: &mut Check) -> Result<(), SolverError> {
        let ended = matches!(payment.state.as_str(), "mined" | "final" | "reverted" | "void");
        let Some(key) = payment.tx.filter(|_| ended) else { return Ok(()) };
        check.compared += 1;
        let about = format!("payment {} ({} of {})", payment.id, payment.purpose.as_str(), payment.order);
        let Some(sent) = self.venue_tx(venue, key)?.and_then(|tx| sent_tx(venue, &tx)) else {
            check.differs(format!("{about}: its transaction has not ended on the venue"));
            return Ok(());
        };
        let names_it = sent.input[..] == payment.order.0[..];
        let pays = sent.to == Some(payment.target) && names_it;
        let paid = matches!(payment.state.as_str(), "mined" | "final");
        let short = payment.currency.is_zero() && sent.value != payment.amount.units();
        if paid && (!sent.success || !pays || short || sent.nonce != payment.nonce) {
            check.differs(format!("{about}: its transaction is another one, or did not pay it"));
        }
        if !paid && sent.success && pays {
            check.differs(format!("{about}: it is {} and its transaction has paid", payment.state));
        }
        Ok(())
    }

    fn venue_deposits(
        &mut self,
        handle: &ChainHandle,
        venue: &VenueChain,
        check: &mut Check,
    ) -> Result<(), SolverError> {
        let Some(mut first) = audit::first_block(self.tx, handle.id())? else { return Ok(()) };
        loop {
            let page = audit::deposits(self.tx, handle.id(), (first, i64::MAX.unsigned_abs()), PAGE)?;
            let Some(last) = page.last().map(|deposit| deposit.block_number) else { return Ok(()) };
            for deposit in &page {
                check.compared += 1;
                let tx = self.venue_tx(venue, deposit.tx)?.filter(|tx| tx.status == TxStatus::Executed);
                let transfer = tx.and_then(|tx| tx.transfer).map(|signed| signed.transfer);
                let same = transfer.is_some_and(|transfer| {
                    transfer.to == venue.account
                        && AccountIndex::unpacked(deposit.depositor) == Ok(transfer.from)
                        && deposit.amount.to_string() == transfer.amount.get().to_string()
                });
                if !same {
                    check.differs(format!("deposit {} is no such transfer on the venue", deposit.tx));
                }
            }
            if page.len() < usize::try_from(PAGE).unwrap_or_default() {
                return Ok(());
            }
            first = last.saturating_add(1);
        }
    }
}
