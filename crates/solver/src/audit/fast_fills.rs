//! Fast fills: every hold ends with its deposit, no more comes back than was charged, and no dollar of a sponsor stands
//! for a fast fill and for an app fee that can be claimed.

use store::{audit, ledger};

use super::{Audit, Check};
use crate::error::SolverError;

/// Contradictions that are looked up.
const MAX_ROWS: i64 = 500;

impl Audit<'_, '_> {
    pub(super) fn fast_fills(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "fast fills are charged for what did not come, and no more is given back");
        check.compared = audit::fast_fills(self.tx)?;
        for (order, how) in audit::fast_fill_contradictions(self.tx, MAX_ROWS)? {
            check.differs(format!("the fast fill of order {order} {how}"));
        }
        self.checks.push(check);
        let mut check = Check::new("", "app fees are held while their sponsor's balance stands for fast fills");
        check.compared = audit::held_app_fees(self.tx)?;
        for (hold, how) in ledger::misheld_app_fees(self.tx, MAX_ROWS)? {
            check.differs(format!("hold {hold} {how}"));
        }
        self.checks.push(check);
        Ok(())
    }
}
