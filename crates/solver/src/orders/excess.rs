//! Excess: the part of a deposit beyond an order that does not grow with it. It goes back to the order's refund
//! recipient, from our own funds, once deposit and fill are both final. The whole deposit is ours by then.

use alloy::primitives::B256;
use domain::deposit::{self, State};
use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::Quote;
use domain::subject::DepositKey;
use serde_json::json;
use store::deposits::Deposit;
use store::dues::Due;
use store::payments::{PaymentRow, Purpose, Subject};
use store::requests::Request;
use store::{Tx, deposits, fast_fills, losses, payments, requests, settlements};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::lifecycle::note;
use crate::orders::refund_recipient::refund_recipient;
use crate::payments::{Outcome, keep, pay};

/// True if the excess is larger than the largest refund from our own funds: then the whole deposit goes back.
pub fn is_too_much(quote: &Quote, deposit: &Deposit, context: &PayContext) -> Result<bool, SolverError> {
    let amount = deposit::excess(quote, deposit.amount)?;
    let Some((handle, _)) = context.on(deposit.chain) else { return Ok(!amount.is_zero()) };
    Ok(!amount.is_zero() && quote.deposit_worth(&handle.chain, deposit.currency, amount) > handle.settings.most_refund)
}

/// The excess of an order's deposit. One that was paid out for a deposit that a reorg took away grows no more, whatever
/// is deposited in its place.
fn of(tx: &mut Tx<'_>, request: &Request, deposit: &Deposit) -> Result<Amount, SolverError> {
    let beyond = deposit::excess(&request.quote, deposit.amount)?;
    let Some(known) = losses::find(tx, request.order_id)? else { return Ok(beyond) };
    // A fill after one that failed may have been decided for the deposit that is there.
    if payments::voids(tx, &Subject::Fill(request.order_id))? > 0 {
        return Ok(beyond);
    }
    Ok(beyond.max(deposit.amount.saturating_sub(known.loss.amount)))
}

/// Pays back the excess of an order's deposit, if there is one and its time has come. Asking again is harmless.
pub fn give_back(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    let Some(request) = requests::lock_order(tx, order)? else { return Ok(Vec::new()) };
    let Some(tied) = deposits::of_order(tx, order)? else { return Ok(Vec::new()) };
    // The excess of a fast-filled order belongs to the integrator, who stood for the deposit.
    if fast_fills::of_order(tx, order)?.is_some() {
        return Ok(Vec::new());
    }
    let deposit = &tied.deposit;
    let amount = of(tx, &request, deposit)?;
    let filled = settlements::outcome(tx, order)? == Some(Purpose::Fill) && settlements::is_final(tx, order)?;
    if amount.is_zero() || !filled || tied.state != State::Final {
        return Ok(Vec::new());
    }
    let Some(recipient) = refund_recipient(tx, &request.quote, deposit, false, context)? else {
        let figures = json!({ "excess": amount.to_string(), "deposited": deposit.amount.to_string() });
        note(tx, &request, "excess-without-recipient", &figures, context)?;
        return Ok(Vec::new());
    };
    let figures = json!({
        "excess": amount.to_string(),
        "deposited": deposit.amount.to_string(),
        "recipient": recipient,
    });
    if context.screening.custodial.contains(&recipient) {
        note(tx, &request, "excess-kept-from-exchange", &figures, context)?;
        return Ok(Vec::new());
    }
    let due = Due {
        subject: Subject::Excess(DepositKey(deposit.key())),
        request: Some(request.id),
        chain: deposit.chain,
        currency: deposit.currency,
        recipient,
        amount,
        since: context.now,
    };
    match pay(tx, &due, Some(&request.quote), context)? {
        Outcome::Paid(payment) => {
            note(tx, &request, "excess-due", &figures, context)?;
            Ok(vec![*payment])
        }
        Outcome::NotNow(reason) => {
            keep(tx, &due, &reason, context)?;
            note(tx, &request, "excess-due", &figures, context)?;
            Ok(Vec::new())
        }
        Outcome::Worthless(_) => {
            note(tx, &request, "excess-too-small", &figures, context)?;
            Ok(Vec::new())
        }
        Outcome::Settled | Outcome::CannotFill(_) => Ok(Vec::new()),
    }
}

/// Notes that the excess has arrived.
pub fn returned(
    tx: &mut Tx<'_>,
    request: &Request,
    hash: B256,
    amount: Amount,
    context: &PayContext,
) -> Result<(), SolverError> {
    note(tx, request, "excess-returned", &json!({ "tx": hash, "amount": amount.to_string() }), context)
}
