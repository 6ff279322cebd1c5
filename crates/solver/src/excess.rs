//! What a deposit holds beyond what its order is for, where the order does not grow with it: it goes back to whom the
//! order names, from our own funds, once deposit and fill are both final. The whole deposit is ours by then.

use alloy::primitives::{B256, keccak256};
use domain::deposit::{self, State};
use domain::ids::OrderId;
use domain::money::Amount;
use domain::quote::Quote;
use serde_json::json;
use store::deposits::Deposit;
use store::dues::Due;
use store::payments::{PaymentRow, Purpose};
use store::requests::Request;
use store::{Tx, deposits, fast_fills, requests, settlements};

use crate::advance::note;
use crate::deposits::{key, worth};
use crate::error::SolverError;
use crate::payments::{Outcome, keep, pay};
use crate::solver::PayContext;

/// Whether a deposit holds more beyond its order than our own funds are for: then all of it goes back.
pub fn is_too_much(quote: &Quote, deposit: &Deposit, context: &PayContext) -> Result<bool, SolverError> {
    let amount = deposit::excess(quote, deposit.amount)?;
    let Some((handle, _)) = context.on(deposit.chain) else { return Ok(!amount.is_zero()) };
    Ok(!amount.is_zero() && worth(quote, handle, deposit.currency, amount) > handle.settings.most_refund)
}

/// Pays back the excess of an order's deposit, if there is one and its time has come. Asking again is harmless.
pub fn give_back(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    let Some(request) = requests::lock_order(tx, order)? else { return Ok(Vec::new()) };
    let Some(tied) = deposits::of_order(tx, order)? else { return Ok(Vec::new()) };
    // What comes beyond a fill ahead of its deposit is the integrator's, who stood for it.
    if fast_fills::of_order(tx, order)?.is_some() {
        return Ok(Vec::new());
    }
    let deposit = &tied.deposit;
    let amount = deposit::excess(&request.quote, deposit.amount)?;
    let filled = settlements::outcome(tx, order)? == Some(Purpose::Fill) && settlements::is_final(tx, order)?;
    if amount.is_zero() || !filled || tied.state != State::Final {
        return Ok(Vec::new());
    }
    let recipient =
        request.quote.refund_recipient().evm().ok_or(SolverError::InvariantViolated("not an EVM account"))?;
    let figures = json!({
        "excess": amount.to_string(),
        "deposited": deposit.amount.to_string(),
        "recipient": recipient,
    });
    if context.screening.custodial.contains(&recipient) {
        note(tx, &request, "excess-kept-from-exchange", &figures, context)?;
        return Ok(Vec::new());
    }
    let subject = key(deposit);
    let due = Due {
        purpose: Purpose::Excess,
        subject,
        request: request.id,
        order: name(subject),
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

/// It has arrived.
pub fn returned(
    tx: &mut Tx<'_>,
    request: &Request,
    hash: B256,
    amount: Amount,
    context: &PayContext,
) -> Result<(), SolverError> {
    note(tx, request, "excess-returned", &json!({ "tx": hash, "amount": amount.to_string() }), context)
}

/// What the payment carries where others carry their order's id, and what excludes a second one: an order is filled once,
/// and beside that the excess of its deposit goes back once.
fn name(deposit: B256) -> OrderId {
    OrderId(keccak256([b"excess".as_slice(), deposit.as_slice()].concat()))
}
