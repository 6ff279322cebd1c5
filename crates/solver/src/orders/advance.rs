//! Every worker ends here: one lock, one decision, one commit, payments included.

use domain::fail::{FailReason, RefundFailReason};
use domain::request::{self, Event};
use serde::Serialize;
use store::dues::Due;
use store::payments::{PaymentRow, Purpose, Subject};
use store::requests::Request;
use store::{Tx, deposits, dues, payments};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::lifecycle::transition;
use crate::orders::refund_recipient::refund_recipient;
use crate::payments::{Outcome, keep, pay};

/// Applies an event to a request that the unit has locked, with all that follows: state, event row and payments.
/// `figures` are the inputs of the rule, for the request's trace.
pub fn advance(
    tx: &mut Tx<'_>,
    request: &mut Request,
    event: Event,
    figures: &impl Serialize,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    let mut paid = Vec::new();
    let mut next_event = Some(event);
    // A payment that turns out impossible is itself an event; there is at most one such turn.
    while let Some(event) = next_event.take() {
        let Some(due) = transition(tx, request, event, figures, context)?.and_then(|next| next.due) else { break };
        let due = match resolve(tx, request, due, context)? {
            Resolved::Due(due) => due,
            Resolved::NoDeposit => {
                // Nothing was paid and the deposit is gone: as if it had never come.
                next_event = Some(Event::DepositGone { fill_decided: false });
                continue;
            }
            Resolved::Nobody => {
                next_event = Some(Event::RefundImpossible { reason: None });
                continue;
            }
        };
        if due.purpose() == Purpose::Refund && context.screening.custodial.contains(&due.recipient) {
            next_event = Some(Event::RefundImpossible { reason: Some(RefundFailReason::RefundRecipientIsVasp) });
            continue;
        }
        match pay(tx, &due, Some(&request.quote), context)? {
            Outcome::Paid(payment) => paid.push(*payment),
            Outcome::NotNow(reason) => keep(tx, &due, &reason, context)?,
            Outcome::Settled => dues::remove(tx, &due.subject)?,
            Outcome::CannotFill(reason) => next_event = Some(Event::CannotFill { reason }),
            Outcome::Worthless(reason) => next_event = Some(Event::RefundImpossible { reason: Some(reason) }),
        }
    }
    Ok(paid)
}

/// The due row of a decision: chain, currency, recipient and amount.
enum Resolved {
    Due(Due),
    /// There is no deposit to refund.
    NoDeposit,
    /// Nobody is named or known whom the deposit could go back to.
    Nobody,
}

fn resolve(
    tx: &mut Tx<'_>,
    request: &Request,
    due: request::Due,
    context: &PayContext,
) -> Result<Resolved, SolverError> {
    let quote = &request.quote;
    let evm = |account: &domain::account::Account| {
        account.packed().ok_or(SolverError::InvariantViolated("not an EVM account"))
    };
    let fill = |amount| {
        let terms = quote.terms.as_ref().ok_or(SolverError::InvariantViolated("a fill without an order"))?;
        Ok(Resolved::Due(Due {
            subject: Subject::Fill(request.order_id),
            request: Some(request.id),
            chain: terms.payout.chain,
            currency: evm(&terms.payout.address)?,
            recipient: evm(&quote.payee(terms))?,
            amount,
            since: context.now,
        }))
    };
    match due {
        request::Due::Fill { output } => fill(output),
        request::Due::FillAgain => {
            let amount = payments::last_amount(tx, &Subject::Fill(request.order_id))?;
            fill(amount.ok_or(SolverError::InvariantViolated("a fill to repeat was never made"))?)
        }
        request::Due::Refund => {
            let Some(deposit) = deposits::of_order(tx, request.order_id)? else { return Ok(Resolved::NoDeposit) };
            let deposit = deposit.deposit;
            let by_hand = request.fail_reason == Some(FailReason::ManualAdminRefund);
            let recipient = refund_recipient(tx, quote, &deposit, by_hand, context)?;
            let Some(recipient) = recipient else { return Ok(Resolved::Nobody) };
            Ok(Resolved::Due(Due {
                subject: Subject::Refund(request.order_id),
                request: Some(request.id),
                chain: deposit.chain,
                currency: deposit.currency,
                recipient,
                amount: deposit.amount,
                since: context.now,
            }))
        }
    }
}
