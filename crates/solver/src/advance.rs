//! Every worker ends here: one lock, one decision, one commit.

use domain::fail::RefundFailReason;
use domain::request::{self, Event, Next, State, Step};
use serde::Serialize;
use store::dues::Due;
use store::payments::{PaymentRow, Purpose};
use store::requests::Request;
use store::{Tx, deposits, dues, events, payments, requests};

use crate::error::SolverError;
use crate::fast_fill;
use crate::manual;
use crate::payments::{Outcome, keep, pay};
use crate::solver::PayContext;
use crate::sponsor;

/// Applies an event to a request that the unit holds, with all that follows: state, event row and payments.
/// `figures` is what the rule looked at, for whoever asks why.
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
        let Step::Move(next) = request::step(request.state, event)? else { break };
        requests::set_state(tx, request.id, &next, context.now)?;
        let figures = serde_json::to_value(figures).unwrap_or_default();
        events::append(tx, request.id, next.state, rule(event), &figures, context.now)?;
        apply(request, &next);
        if next.release_hold {
            fast_fill::give_up(tx, request, context)?;
        }
        match next.state {
            State::Pending | State::Submitted | State::Success => {}
            State::Waiting | State::Refunding | State::Refunded | State::Failed => {
                sponsor::release(tx, request, context)?;
            }
        }
        if next.withdraw_due {
            dues::withdraw(tx, request.id)?;
        }
        let Some(due) = next.due else { break };
        let Some(due) = resolve(tx, request, due, context)? else {
            // Nothing was paid and the deposit is gone: as if it had never been.
            next_event = Some(Event::DepositGone { fill_decided: false });
            continue;
        };
        if due.purpose == Purpose::Refund && context.screening.custodial.contains(&due.recipient) {
            next_event = Some(Event::RefundImpossible { reason: RefundFailReason::RefundRecipientIsVasp });
            continue;
        }
        match pay(tx, &due, Some(&request.quote), context)? {
            Outcome::Paid(payment) => paid.push(*payment),
            Outcome::NotNow(reason) => keep(tx, &due, &reason, context)?,
            Outcome::Settled => dues::remove(tx, due.purpose, due.subject)?,
            Outcome::CannotFill(reason) => next_event = Some(Event::CannotFill { reason }),
            Outcome::Worthless(reason) => next_event = Some(Event::RefundImpossible { reason }),
        }
    }
    Ok(paid)
}

/// A line in the request's story; its state is what it was.
pub(crate) fn note(
    tx: &mut Tx<'_>,
    request: &Request,
    rule: &str,
    figures: &serde_json::Value,
    context: &PayContext,
) -> Result<(), SolverError> {
    Ok(events::append(tx, request.id, request.state, rule, figures, context.now)?)
}

fn apply(request: &mut Request, next: &Next) {
    request.state = next.state;
    request.fail_reason = next.reason.or(request.fail_reason);
    request.refund_fail_reason = next.refund_reason.or(request.refund_fail_reason);
}

/// Spells out what is owed, to whom and where. None is owed where there is no deposit to return.
fn resolve(
    tx: &mut Tx<'_>,
    request: &Request,
    due: request::Due,
    context: &PayContext,
) -> Result<Option<Due>, SolverError> {
    let quote = &request.quote;
    let evm =
        |account: &domain::account::Account| account.evm().ok_or(SolverError::InvariantViolated("not an EVM account"));
    let fill = |amount| {
        let terms = quote.terms.as_ref().ok_or(SolverError::InvariantViolated("a fill without an order"))?;
        Ok(Some(Due {
            purpose: Purpose::Fill,
            subject: request.order_id.0,
            request: request.id,
            order: request.order_id,
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
            let amount = payments::last_amount(tx, Purpose::Fill, request.order_id.0)?;
            fill(amount.ok_or(SolverError::InvariantViolated("a fill to repeat was never made"))?)
        }
        request::Due::Refund => {
            let Some(deposit) = deposits::of_order(tx, request.order_id)? else { return Ok(None) };
            let deposit = deposit.deposit;
            Ok(Some(Due {
                purpose: Purpose::Refund,
                subject: request.order_id.0,
                request: request.id,
                order: request.order_id,
                chain: deposit.chain,
                currency: deposit.currency,
                recipient: evm(quote.refund_recipient())?,
                amount: deposit.amount,
                since: context.now,
            }))
        }
    }
}

/// The name of the rule that moved a request, for its trace.
const fn rule(event: Event) -> &'static str {
    match event {
        Event::DepositAccepted { .. } => "deposit-accepted",
        Event::DepositRefused { .. } => "deposit-refused",
        Event::FastFill { .. } => "fast-fill",
        Event::FastFillVoid => "fast-fill-void",
        Event::DepositGone { .. } => "deposit-gone",
        Event::DepositLost => "deposit-lost",
        Event::CannotFill { .. } => "cannot-fill",
        Event::OperatorRefund => manual::RULE,
        Event::FillSent => "fill-sent",
        Event::FillMined => "fill-mined",
        Event::FillVoid { .. } => "fill-void",
        Event::RefundMined => "refund-mined",
        Event::RefundVoid => "refund-void",
        Event::RefundImpossible { .. } => "refund-impossible",
        Event::Found { .. } => "found-on-chain",
        Event::Executed { .. } => "executed",
    }
}
