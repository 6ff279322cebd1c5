//! The venue: each deposit and each payment against its transaction, every line of the account's history against a row,
//! and every nonce accounted for.

use alloy::primitives::{Address, B256, U256};
use domain::venue::{AccountIndex, Holding, TxStatus};
use store::audit::{self, Payment};
use store::{blocks, deposits, lanes, venue_txs};
use venue::{Digest, Listed, Transfer, VenueError, VenueTx};

use super::{Audit, Check};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::handle::venue::{VenueChain, key_of};
use crate::handle::venue_patience::patiently;
use crate::payments::venue_tx::sent_tx;

const PAGE: i64 = 500;
/// Pages of the account's history that are read.
const MAX_PAGES: usize = 10_000;
/// Age of a transfer, behind the cursor, below which it may be listed and not applied yet.
const LISTED_LATE_SECS: u64 = 600;

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
            let next = patiently(|| venue.client.next_nonce(venue.account, venue.key_index));
            let used = self.wait(next)?.get();
            if used > lane.next_nonce {
                nonces.differs(format!("the venue has used {used} nonces, the database knows {}", lane.next_nonce));
            }
        }
        let mut listed = Check::new(name, "transfers of our account are deposits or payments");
        self.venue_history(handle, venue, &mut listed)?;
        self.checks.extend([paid, deposited, nonces, listed]);
        Ok(())
    }

    /// The transaction behind a row, by the venue's name of it.
    fn venue_tx(&mut self, venue: &VenueChain, key: B256) -> Result<Option<VenueTx>, SolverError> {
        let Some(digest) = venue_txs::digest(self.tx, key)? else { return Ok(None) };
        let digest: Digest = digest.parse().map_err(|_| SolverError::InvariantViolated("not a hash of the venue"))?;
        Ok(self.wait(patiently(|| venue.client.transaction(digest)))?)
    }

    fn venue_payment(&mut self, venue: &VenueChain, payment: &Payment, check: &mut Check) -> Result<(), SolverError> {
        let ended = matches!(payment.state.as_str(), "mined" | "final" | "reverted" | "void");
        let Some(key) = payment.tx.filter(|_| ended) else {
            if matches!(payment.state.as_str(), "mined" | "final") {
                check.differs(format!("payment {} is {} and has no transaction", payment.id, payment.state));
            }
            return Ok(());
        };
        check.compared += 1;
        let about = format!("payment {} ({} of {})", payment.id, payment.purpose.as_str(), payment.order);
        let tx = self.venue_tx(venue, key)?;
        let moved = tx.as_ref().and_then(|tx| tx.transfer.as_ref()).and_then(|signed| moved(&signed.transfer));
        let Some(sent) = tx.and_then(|tx| sent_tx(venue, &tx)) else {
            check.differs(format!("{about}: its transaction has not ended on the venue"));
            return Ok(());
        };
        let names_it = sent.input[..] == payment.order.0[..];
        let pays = sent.to == Some(payment.target) && names_it;
        let paid = matches!(payment.state.as_str(), "mined" | "final");
        let same = moved == Some((payment.currency, payment.amount.units()));
        if paid && (!sent.success || !pays || !same || sent.nonce != payment.nonce) {
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
                        && moved(&transfer) == Some((deposit.currency, deposit.amount.units()))
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

    /// The account's history, back to where the walk began, against the rows.
    fn venue_history(
        &mut self,
        handle: &ChainHandle,
        venue: &VenueChain,
        check: &mut Check,
    ) -> Result<(), SolverError> {
        let chain = handle.id();
        let (Some(cursor), Some(began)) = (blocks::cursor(self.tx, chain)?, blocks::rescanned(self.tx, chain)?) else {
            return Ok(());
        };
        let mut next = None::<String>;
        for _ in 0..MAX_PAGES {
            let now = self.wait(patiently(|| venue.client.status()))?.time_millis / 1_000;
            let Some(token) = venue.token(now) else {
                check.notes.push("the history is not compared: that needs the account's keys".to_owned());
                return Ok(());
            };
            let page = patiently(|| venue.client.transfers(venue.account, &token, next.as_deref()));
            let page = self.wait(page)?;
            let passed = !page.transfers.is_empty() && page.transfers.iter().all(|it| it.time_millis / 1_000 < began);
            let known = |it: &&Listed| (began..=cursor.number).contains(&(it.time_millis / 1_000));
            for it in page.transfers.iter().filter(known) {
                self.venue_line(handle, venue, it, cursor.number, check)?;
            }
            if passed || page.next.is_none() {
                return Ok(());
            }
            if page.next == next {
                return Err(VenueError::Invalid("cursor does not move").into());
            }
            next = page.next;
        }
        Err(VenueError::Invalid("the history does not end within the pages that are read").into())
    }

    /// One line of the history. A transfer between two balances of ours is nothing to anybody, and one from or to an
    /// account of the operator's is no row.
    fn venue_line(
        &mut self,
        handle: &ChainHandle,
        venue: &VenueChain,
        it: &Listed,
        taken: u64,
        check: &mut Check,
    ) -> Result<(), SolverError> {
        let (arrives, other) = if it.to == venue.account { (true, it.from) } else { (false, it.to) };
        if other == venue.account || venue.sources.contains(&other) {
            return Ok(());
        }
        check.compared += 1;
        let key = key_of(it.hash);
        let known = match arrives {
            true => deposits::find(self.tx, handle.id(), key, 0)?.is_some(),
            false => audit::is_payment(self.tx, handle.id(), key)?,
        };
        if known {
            return Ok(());
        }
        let way = if arrives { "from" } else { "to" };
        let what = format!("transfer {} {way} account {other} is not in the database", it.hash);
        match taken.saturating_sub(it.time_millis / 1_000) > LISTED_LATE_SECS {
            true => check.differs(what),
            // The snapshot may be older than its place in the list.
            false => check.notes.push(format!("{what} yet")),
        }
        Ok(())
    }
}

/// Currency and amount of a transfer, as a row has them.
fn moved(transfer: &Transfer) -> Option<(Address, U256)> {
    let holding = Holding { asset: transfer.asset, route: transfer.to_route };
    Some((holding.deposited_currency().packed()?, U256::from(transfer.amount.get())))
}
