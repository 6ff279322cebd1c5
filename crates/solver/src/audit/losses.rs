//! Losses: every order that was paid out and has no deposit is known as a loss, and every loss is such an order.

use domain::loss::State;
use store::{losses, sweeps};

use super::{Audit, Check};
use crate::error::SolverError;

/// Losses that are looked at and listed, the newest first.
const MAX_LOSSES: i64 = 1_000;

impl Audit<'_, '_> {
    pub(super) fn losses(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "orders that were paid out have their deposit, or are known as a loss");
        for order in losses::unexplained(self.tx, MAX_LOSSES)? {
            check.differs(format!("order {order} was paid out, and has neither a deposit nor a loss"));
        }
        for (order, how) in losses::contradictions(self.tx, MAX_LOSSES)? {
            check.differs(format!("order {order} {how}"));
        }
        for stored in losses::newest(self.tx, MAX_LOSSES)? {
            check.compared += 1;
            let loss = &stored.loss;
            let what = match stored.state {
                State::Missing => "is missing its deposit",
                State::Booked => "is a loss",
                State::Recovered => continue,
            };
            // The loss is booked in full: what has come back in parts is no deposit of any order.
            let kept = match sweeps::kept(self.tx, loss)? {
                kept if kept.is_zero() => String::new(),
                kept => format!("; {kept} of it has come back and is kept in the depository"),
            };
            check.notes.push(format!(
                "order {} {what}: {} of {} on chain {}, {} dollars (request {}){kept}",
                loss.order, loss.amount, loss.currency, loss.chain, loss.usd, loss.request
            ));
        }
        self.checks.push(check);
        Ok(())
    }
}
