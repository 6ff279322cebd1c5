//! Consistency of the database with itself: each order ended once, and nothing was promised twice.

use alloy::primitives::{B256, U256};
use alloy::sol_types::SolCall;
use domain::money::Amount;
use evm::At;
use evm::contracts::Depository;
use store::audit;
use store::payouts::{self, PayoutId, State};

use super::{Audit, Check};
use crate::error::SolverError;

const PAGE: i64 = 500;

impl Audit<'_, '_> {
    pub(super) fn endings(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "no order was paid twice");
        for (order, count) in audit::settled_twice(self.tx, PAGE)? {
            check.differs(format!("order {order} has {count} payments that are not void"));
        }
        for order in audit::settled_by_nothing(self.tx, PAGE)? {
            check.differs(format!("order {order} is settled by a payment that is not its own"));
        }
        check.compared = check.different.max(1);
        self.checks.push(check);
        Ok(())
    }

    pub(super) fn promises(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "payouts take from a deposit what the deposit says, and no more than it is");
        let mut after = B256::ZERO;
        loop {
            let page = audit::promises(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|promise| promise.deposit) else { break };
            for promise in page {
                check.compared += 1;
                let (mut reimbursed, mut refunded) = (Amount::ZERO, Amount::ZERO);
                for (kind, amount) in audit::taken(self.tx, promise.deposit)? {
                    let sum = if kind == 3 { &mut reimbursed } else { &mut refunded };
                    *sum = sum.checked_add(amount)?;
                }
                let claimed = reimbursed.checked_add(refunded)?;
                let same = (reimbursed, refunded, claimed) == (promise.reimbursed, promise.refunded, promise.claimed);
                if !same || claimed > promise.amount {
                    check.differs(format!(
                        "deposit {} of {}: payouts take {reimbursed} and {refunded}, it says {} and {}",
                        promise.deposit, promise.amount, promise.reimbursed, promise.refunded
                    ));
                }
            }
            after = last;
        }
        self.checks.push(check);
        Ok(())
    }

    /// Checks that the nonce of every executed payout is used on the chain, and that its parts sum to its amount.
    pub(super) fn payouts(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "executed payouts are executed, and each is the sum of its parts");
        let mut after = PayoutId(0);
        loop {
            let page = payouts::after(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|stored| stored.id) else { break };
            for stored in page {
                check.compared += 1;
                let (id, payout) = (stored.id.0, &stored.payout);
                let mut sum = Amount::ZERO;
                for (_, part) in payouts::parts(self.tx, stored.id)? {
                    sum = sum.checked_add(part)?;
                }
                if sum != payout.amount {
                    check.differs(format!("payout {id} is of {} and its parts of {sum}", payout.amount));
                }
                let (Some(handle), State::Executed) = (self.handle(payout.chain), stored.state) else { continue };
                let call = Depository::usedNoncesCall { nonce: U256::from_be_bytes(payout.nonce.0.0) }.abi_encode();
                let asked = handle.nodes.call(handle.chain.depository, call.into(), At::Latest);
                let used = Depository::usedNoncesCall::abi_decode_returns(&self.wait(asked)?);
                if used != Ok(true) {
                    check.differs(format!("payout {id} counts as executed and its nonce is not used on the chain"));
                }
            }
            after = last;
        }
        self.checks.push(check);
        Ok(())
    }
}
