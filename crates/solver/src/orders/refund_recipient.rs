//! Whom the deposit of an order goes back to.

use alloy::primitives::Address;
use domain::quote::{Quote, RefundTarget};
use store::deposits::Deposit;
use store::{Tx, deposit_addresses};

use crate::error::SolverError;

/// Who gets the deposit of an order back. None if nobody is named, and if the deposit names the address it was paid at: a
/// deposit address would only be swept again.
pub fn refund_recipient(tx: &mut Tx<'_>, quote: &Quote, deposit: &Deposit) -> Result<Option<Address>, SolverError> {
    match quote.refund_target() {
        RefundTarget::Named(who) => {
            who.packed().map(Some).ok_or(SolverError::InvariantViolated("not an account of rows"))
        }
        RefundTarget::Depositor => {
            let known = deposit_addresses::find(tx, deposit.depositor)?.is_none();
            Ok(known.then_some(deposit.depositor))
        }
        RefundTarget::Nobody => Ok(None),
    }
}
