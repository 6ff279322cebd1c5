//! Claims: each against its payment, its hold and its entries. The payment on the chain, and the addresses it names,
//! are checked with all payments.

use domain::claim::State;
use domain::hold::State as HoldState;
use domain::ledger::{self as rules, Cause, HoldId, HoldKind, UsdcMicros};
use domain::payment::State as PaymentState;
use store::claims::{self, ClaimRow};
use store::payments::{self, Subject};
use store::{audit, dues, ledger};

use super::{Audit, Check};
use crate::error::SolverError;

const PAGE: i64 = 500;

impl Audit<'_, '_> {
    pub(super) fn claims(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "claims are paid as they were signed for, and booked as they were paid");
        let (mut after, mut paid) = (0, 0u64);
        loop {
            let page = claims::after(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|stored| stored.sequence) else { break };
            for stored in page {
                check.compared += 1;
                paid += u64::from(stored.state == State::Success);
                for how in self.claim(&stored)? {
                    let state = stored.state.as_str();
                    check.differs(format!("claim {} of {:#x} is {state}: {how}", stored.claim.id, stored.claim.wallet));
                }
            }
            after = last;
        }
        let written = audit::entries_of_claims(self.tx)?;
        if written != paid {
            check.differs(format!("{written} entries are of claims, and {paid} claims were paid"));
        }
        self.checks.push(check);
        Ok(())
    }

    fn claim(&mut self, stored: &ClaimRow) -> Result<Vec<String>, SolverError> {
        let (claim, mut wrong) = (&stored.claim, Vec::new());
        let (kind, subject) = (HoldKind::Claim, claim.id.0);
        let open = ledger::open_hold_of(self.tx, kind, subject)?.map(|open| open.hold.amount);
        let booked = self.booked(stored)?;
        let live = match payments::live(self.tx, &Subject::Claim(claim.id))? {
            Some(id) => payments::find(self.tx, id)?,
            None => None,
        };
        let due = dues::find(self.tx, &Subject::Claim(claim.id))?.is_some();
        let (set_aside, spent) = match stored.state {
            State::Pending => (Some(claim.amount), UsdcMicros::ZERO),
            State::Success => (None, claim.amount),
            State::Asked | State::Failure => (None, UsdcMicros::ZERO),
        };
        if open != set_aside {
            wrong.push(format!("{open:?} is set aside for it"));
        }
        if booked != spent {
            wrong.push(format!("{} is booked for it, and {} should be", booked.0, spent.0));
        }
        let is_final = live.as_ref().map(|paid| paid.state == PaymentState::Final);
        let fits = match stored.state {
            State::Pending => due != (is_final == Some(false)),
            State::Success => !due && is_final == Some(true),
            State::Asked | State::Failure => !due && is_final.is_none(),
        };
        if !fits {
            wrong.push(format!("its payment is {:?}, and due: {due}", live.as_ref().map(|paid| paid.state)));
        }
        if let Some(paid) = live.map(|paid| paid.payment) {
            let handle = self.handle(claim.chain);
            let decimals =
                handle.as_ref().and_then(|handle| rules::currency(&handle.chain)).map(|currency| currency.decimals);
            let units = decimals.and_then(|decimals| claim.amount.in_units(decimals).ok());
            let same = (paid.chain, paid.currency, paid.recipient) == (claim.chain, claim.currency, claim.recipient);
            if !same || units != Some(paid.amount) {
                wrong.push(format!("its payment is of {} to {:#x}, not of {units:?}", paid.amount, paid.recipient));
            }
        }
        Ok(wrong)
    }

    /// The amount booked for a claim, summed over all its holds.
    fn booked(&mut self, stored: &ClaimRow) -> Result<UsdcMicros, SolverError> {
        let (kind, subject) = (HoldKind::Claim, stored.claim.id.0);
        let mut sum = UsdcMicros::ZERO;
        for attempt in 0..ledger::next_attempt(self.tx, kind, subject)? {
            let hold = HoldId { kind, subject, attempt };
            let delta = ledger::delta_of(self.tx, &Cause::Claim { hold }.id(), stored.claim.wallet)?;
            let posted = ledger::find_hold(self.tx, hold)?.is_some_and(|hold| hold.state == HoldState::Posted);
            sum = sum.minus(delta.filter(|_| posted).unwrap_or_default());
        }
        Ok(sum)
    }
}
