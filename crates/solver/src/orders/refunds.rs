//! Returns: deposits that pay for no order go back to their depositor.

use domain::deposit_address::Kind;
use domain::fail::FailReason;
use domain::subject::DepositKey;
use store::deposits::{DepositId, DepositRow, ReturnDue};
use store::dues::Due;
use store::payments::{Payment, PaymentRow, Subject};
use store::{
    Tx, deposit_addresses, depository_ledger, deposits, fast_fills, losses, payouts, requests, settlements, sweeps,
};
use tracing::error;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::orders::children;
use crate::orders::refund_recipient::has_sent;
use crate::payments::{Outcome, Reason, pay};

/// Returns a final deposit that pays for no order to the depositor that it names: the payer chose that name. The return
/// stays due until it is paid, or until it turns out that nothing is owed.
pub fn return_to_depositor(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    stored: &DepositRow,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let deposit = &stored.deposit;
    let key = deposit.key();
    let reason = stored.refused.filter(|reason| is_returnable(*reason));
    let custodial = context.screening.custodial.contains(&deposit.depositor);
    // A deposit address that names itself has nobody to go back to.
    let itself = deposit_addresses::find(tx, deposit.depositor)?.is_some();
    let named = match deposit.order_id {
        Some(order) => match sweeps::returned(tx, order)? {
            Some((parent, _)) => requests::find(tx, parent)?,
            None => requests::lock_order(tx, order)?,
        },
        None => None,
    };
    let strangers = match (deposit.order_id, &named) {
        (Some(order), Some(named)) => !has_sent(tx, &named.quote, order, deposit, context)?,
        _ => false,
    };
    let nobody = handle.cannot_receive(deposit.depositor) || custodial || itself || strangers || owed(tx, stored)?;
    let (Some(reason), false) = (reason, nobody) else {
        deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        children::cannot_return(tx, stored, custodial, context)?;
        return Ok(Vec::new());
    };
    if held_up(tx, stored, reason, context)? {
        return Ok(Vec::new());
    }
    // A lost database may have returned the deposit out of the depository: the payouts it signed are read first.
    if payouts::imported(tx, deposit.chain)? > 0 {
        return Ok(Vec::new());
    }
    if depository_ledger::goes_back(tx, key)? {
        deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        return Ok(Vec::new());
    }
    // The order of an orphaned deposit may have been filled by a lost database.
    if reason == FailReason::OrphanedDepositRefund
        && let Some(order) = deposit.claim
        && settlements::outcome(tx, order)?.is_some()
    {
        if settlements::is_final(tx, order)? {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
        }
        return Ok(Vec::new());
    }
    let due = Due {
        subject: Subject::Return { row: stored.id.0, key: DepositKey(key) },
        request: requests::lock(tx, children::id(stored))?.map(|child| child.id),
        chain: deposit.chain,
        currency: deposit.currency,
        recipient: deposit.depositor,
        amount: deposit.amount,
        since: context.now,
    };
    match pay(tx, &due, None, context)? {
        Outcome::Paid(payment) => {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
            Ok(vec![*payment])
        }
        Outcome::NotNow(reason @ (Reason::NeedsPerson | Reason::TooLarge | Reason::Blocked)) => {
            error!(chain.id = %deposit.chain, tx = %deposit.tx, "a deposit is left to the allocator to return, or to a person where there is none: {reason}");
            deposits::set_return_due(tx, stored.id, ReturnDue::Parked)?;
            Ok(Vec::new())
        }
        // A return made by a lost database may still turn out void.
        Outcome::Settled if !settlements::is_final(tx, due.order())? => Ok(Vec::new()),
        Outcome::Settled | Outcome::Worthless(_) | Outcome::CannotFill(_) => {
            deposits::set_return_due(tx, stored.id, ReturnDue::No)?;
            children::cannot_return(tx, stored, false, context)?;
            Ok(Vec::new())
        }
        Outcome::NotNow(_) => Ok(Vec::new()),
    }
}

/// True if a deposit came through an address for an order that was paid out, and that misses at least a part of what it
/// was paid out for: a reorg took its deposit away, and the sweep was mined again before some of the transfers that it
/// was for. The recipient has been paid for this money, so it stays in the depository, whoever swept it.
fn owed(tx: &mut Tx<'_>, stored: &DepositRow) -> Result<bool, SolverError> {
    let deposit = &stored.deposit;
    let Some(order) = deposit.order_id else { return Ok(false) };
    let Some(known) = losses::find(tx, order)? else { return Ok(false) };
    let is_alike = (known.loss.chain, known.loss.currency) == (deposit.chain, deposit.currency);
    if !is_alike || sweeps::returned(tx, order)?.is_some() || fast_fills::is_stood_for(tx, order)? {
        return Ok(false);
    }
    let strict = deposit_addresses::of_request(tx, known.loss.request)?;
    let is_ours = match strict.filter(|given| given.kind == Kind::Strict && given.order == order) {
        // Native currency does not tell out of which address it came.
        Some(given) => given.address == deposit.payer || deposit.currency.is_zero(),
        None => sweeps::brought(tx, deposit.chain, order, deposit.sender)?,
    };
    let shortfall = sweeps::shortfall(tx, order, Some(stored.id))?;
    if !is_ours || shortfall.is_zero() {
        return Ok(false);
    }
    error!(chain.id = %deposit.chain, tx = %deposit.tx, %order, amount = %deposit.amount, %shortfall, "a part of the deposit that a paid order lost has come back: it is kept, and a person sets it against the loss");
    Ok(true)
}

/// True if a chain on which the order of a deposit may have been filled holds payments that this database may not know.
/// The order of an orphaned deposit may have been filled anywhere.
fn held_up(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    reason: FailReason,
    context: &PayContext,
) -> Result<bool, SolverError> {
    let order = stored.deposit.claim.filter(|_| reason != FailReason::OrphanedDepositRefund);
    let request = match order {
        Some(order) => requests::lock_order(tx, order)?,
        None => None,
    };
    Ok(match request {
        Some(request) => context.refusing(stored.deposit.chain, Some(&request.quote)),
        None => context.refusing_anywhere(),
    }
    .is_some())
}

/// A return that failed on the chain waits again.
pub fn return_again(tx: &mut Tx<'_>, payment: &Payment) -> Result<(), SolverError> {
    if let Subject::Return { row, .. } = payment.subject {
        deposits::set_return_due(tx, DepositId(row), ReturnDue::Yes)?;
    }
    Ok(())
}

/// True for a depositor's mistake. A deposit that a person has to look at stays where it is.
const fn is_returnable(reason: FailReason) -> bool {
    matches!(
        reason,
        FailReason::DoubleSpend
            | FailReason::OrderIsCancelled
            | FailReason::OrphanedDepositRefund
            | FailReason::OriginCurrencyMismatch
            | FailReason::IncorrectDepositCurrency
            | FailReason::NoQuotes
            | FailReason::DepositChainMismatch
            | FailReason::DepositedAmountTooLowToFill
    )
}
