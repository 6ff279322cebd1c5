//! The app ledger: balances against entries, entries against their causes, and causes against the chains.

use alloy::primitives::U256;
use domain::ledger::{Cause, Entry, UsdcMicros};
use store::outcomes;
use store::payments::PaymentId;
use store::same_chain::{self, SameChainId};
use store::treasury_transfers::{self, TreasuryTransferId, TreasuryTransferRow};
use store::{audit, ledger};

use super::{Audit, Check};
use crate::error::SolverError;

const PAGE: i64 = 500;
/// Accounts that do not add up and are spelled out.
const MAX_ACCOUNTS: u16 = 500;

impl Audit<'_, '_> {
    /// Checks that every balance is the sum of its entries, and its held amounts the sums of its holds.
    pub(super) fn app_balances(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "app balances are the sums of their entries and holds");
        check.compared = ledger::accounts(self.tx)?;
        for it in ledger::mismatches(self.tx, MAX_ACCOUNTS)? {
            check.differs(format!(
                "wallet {:#x} stands at {:?}, by its entries at {:?}, and its holds set aside {} and {}",
                it.wallet, it.stands, it.by_entries, it.by_holds.held.0, it.by_holds.reserved.0
            ));
        }
        let totals = ledger::totals(self.tx)?;
        if totals.wallets != totals.to_wallets {
            check.differs(format!("wallets have {} and the house gave {}", totals.wallets.0, totals.to_wallets.0));
        }
        self.checks.push(check);
        Ok(())
    }

    /// Checks that every credited transfer reached the treasury, as the chain shows it, and was credited once.
    pub(super) fn fundings(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "credited funding is on its chain and in the ledger");
        let mut after = TreasuryTransferId(0);
        loop {
            let page = treasury_transfers::credited_after(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|stored| stored.id) else { break };
            for stored in page {
                check.compared += 1;
                self.funding(&mut check, &stored)?;
            }
            after = last;
        }
        self.checks.push(check);
        Ok(())
    }

    fn funding(&mut self, check: &mut Check, stored: &TreasuryTransferRow) -> Result<(), SolverError> {
        let (receipt, credited) = (&stored.transfer, stored.credited.unwrap_or_default());
        let entry =
            receipt.account.as_ref().ok().and_then(|account| {
                Entry::new(Cause::Funding { transfer: stored.id.0 }, *account, credited, None).ok()
            });
        match entry {
            Some(entry) => self.is_written(check, &entry)?,
            None => check.differs(format!("transfer {} is credited to nobody", receipt.tx)),
        }
        let Some(handle) = self.handle(receipt.chain) else { return Ok(()) };
        let block = self.wait(handle.nodes.block_by_hash(receipt.block_hash, &handle.watch))?;
        let shown = block.into_iter().flat_map(|block| block.treasury_transfers);
        let mut same = shown.filter(|seen| (seen.tx, seen.ordinal) == (receipt.tx, receipt.ordinal));
        let units: U256 = receipt.amount.units();
        let seen = same.find(|seen| (seen.amount, seen.currency) == (units, receipt.currency));
        if seen.is_none_or(|seen| seen.account.ok() != receipt.account.as_ref().ok().copied()) {
            check.differs(format!("transfer {} of {} is not so on chain {}", receipt.tx, units, receipt.chain));
        }
        Ok(())
    }

    /// Checks that every final fill was booked as it was decided, and that nothing else was.
    pub(super) fn outcomes(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "final fills are booked to sponsors and apps as they were decided");
        let (mut after, mut expected) = (PaymentId(0), 0u64);
        loop {
            let page = outcomes::booked_after(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|booked| booked.payment) else { break };
            for booked in page {
                let (payment, request) = (booked.payment.0, booked.request);
                let sponsor = booked.outcome.sponsor_entries(payment, request)?;
                for entry in sponsor.into_iter().chain(booked.outcome.app_entries(payment, request)?) {
                    check.compared += 1;
                    expected += 1;
                    self.is_written(&mut check, &entry)?;
                }
            }
            after = last;
        }
        let written = audit::entries_of_fills(self.tx)?;
        if written != expected {
            check.differs(format!("{written} entries are of fills, and the final fills give {expected}"));
        }
        self.checks.push(check);
        Ok(())
    }

    /// Checks that the app fees of same-chain transactions were booked, and that nothing else was.
    pub(super) fn same_chain(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "same-chain transactions are booked to apps at their worth");
        let mut after = SameChainId(0);
        loop {
            let page = same_chain::booked_after(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|booked| booked.same_chain) else { break };
            for booked in page {
                for entry in booked.outcome.same_chain_entries(booked.same_chain.0, booked.request)? {
                    check.compared += 1;
                    self.is_written(&mut check, &entry)?;
                }
            }
            after = last;
        }
        let (written, expected) = (audit::entries_of_same_chain(self.tx)?, check.compared);
        if written != expected {
            check.differs(format!("{written} entries are of same-chain transactions, which give {expected}"));
        }
        self.checks.push(check);
        Ok(())
    }

    fn is_written(&mut self, check: &mut Check, entry: &Entry) -> Result<(), SolverError> {
        let id = entry.cause().id();
        let found = ledger::delta_of(self.tx, &id, entry.wallet())?;
        if found != Some(entry.delta()) {
            let found = found.map(|UsdcMicros(delta)| delta);
            check.differs(format!(
                "entry {id} of {:#x} should move {}, has {found:?}",
                entry.wallet(),
                entry.delta().0
            ));
        }
        Ok(())
    }
}
