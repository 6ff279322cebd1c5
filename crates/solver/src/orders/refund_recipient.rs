//! Whom the deposit of an order goes back to.

use alloy::primitives::Address;
use domain::arrival::is_sender;
use domain::ids::OrderId;
use domain::quote::{Quote, RefundTarget};
use store::deposits::Deposit;
use store::{Tx, arrivals, deposit_addresses};

use crate::context::PayContext;
use crate::error::SolverError;

/// Who gets the deposit of an order back. None if nobody is named, and if the deposit names the address it was paid at:
/// a deposit address would only be swept again. A recovery address gets one by hand alone, and only where the deposit
/// names it: then the order does too, and the depository repays it.
pub fn refund_recipient(
    tx: &mut Tx<'_>,
    quote: &Quote,
    deposit: &Deposit,
    by_hand: bool,
    context: &PayContext,
) -> Result<Option<Address>, SolverError> {
    match quote.refund_target() {
        RefundTarget::Named(who) => {
            who.packed().map(Some).ok_or(SolverError::InvariantViolated("not an account of rows"))
        }
        RefundTarget::Depositor => {
            let known = deposit_addresses::find(tx, deposit.depositor)?.is_none()
                && deposit.order_id.map_or(Ok(true), |order| has_sent(tx, quote, order, deposit, context))?;
            Ok(known.then_some(deposit.depositor))
        }
        RefundTarget::Nobody => {
            let ours = |who: &Address| context.on(deposit.chain).is_none_or(|(handle, _)| handle.cannot_receive(*who));
            Ok(recovery(quote, deposit).filter(|who| by_hand && !ours(who)))
        }
    }
}

/// The recovery address that a deposit of an address without `refundTo` names.
pub fn recovery(quote: &Quote, deposit: &Deposit) -> Option<Address> {
    let named = quote.ask.options.deposit_address?.recovery?;
    (quote.refund_target() == RefundTarget::Nobody && named == deposit.depositor).then_some(named)
}

/// True if the account that a deposit names has sent nearly all of it, where nobody else is named. A sweep also takes
/// money that came after its depositor was chosen, and that may be anybody's.
pub fn has_sent(
    tx: &mut Tx<'_>,
    quote: &Quote,
    order: OrderId,
    deposit: &Deposit,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let swept = context.on(deposit.chain).is_some_and(|(handle, _)| handle.addresses().contains(&deposit.sender));
    if !swept || quote.refund_target() != RefundTarget::Depositor {
        return Ok(true);
    }
    Ok(is_sender(arrivals::sent_under(tx, order, deposit.depositor)?, deposit.amount)?)
}
