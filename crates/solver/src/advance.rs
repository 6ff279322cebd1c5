//! Every worker ends here: one lock, one decision, one commit.

use alloy::primitives::{B256, keccak256};
use domain::fail::RefundFailReason;
use domain::request::{self, Event, Next, Step};
use serde::Serialize;
use store::dues::Due;
use store::payments::{Purpose, Stored};
use store::requests::Request;
use store::{Tx, deposits, dues, events, payments, requests};

use crate::error::SolverError;
use crate::payments::{Outcome, pay};
use crate::solver::Means;

/// Applies an event to a request that the unit holds, with all that follows: state, event row and payments.
/// `figures` is what the rule looked at, for whoever asks why.
pub fn advance(
    tx: &mut Tx<'_>,
    request: &mut Request,
    event: Event,
    figures: &impl Serialize,
    means: &Means,
) -> Result<Vec<Stored>, SolverError> {
    let mut paid = Vec::new();
    let mut next_event = Some(event);
    // A payment that turns out impossible is itself an event; there is at most one such turn.
    while let Some(event) = next_event.take() {
        let Step::Move(next) = request::step(request.state, event)? else { break };
        requests::set_state(tx, request.id, &next, means.now)?;
        let figures = serde_json::to_value(figures).unwrap_or_default();
        events::append(tx, request.id, next.state, rule(event), &figures, means.now)?;
        apply(request, &next);
        if next.withdraw_due {
            dues::withdraw(tx, request.id)?;
        }
        let Some(due) = next.due else { break };
        let due = resolve(tx, request, due)?;
        if due.purpose == Purpose::Refund && means.screen.custodial.contains(&due.recipient) {
            next_event = Some(Event::RefundImpossible { reason: RefundFailReason::RefundRecipientIsVasp });
            continue;
        }
        match pay(tx, &due, means)? {
            Outcome::Paid(payment) => paid.push(payment),
            Outcome::NotNow(reason) => dues::put(tx, &due, &reason.to_string(), means.now)?,
            Outcome::Settled => dues::remove(tx, due.purpose, due.subject)?,
            Outcome::Worthless => {
                next_event = Some(Event::RefundImpossible { reason: RefundFailReason::AmountTooLowToRefund });
            }
        }
    }
    Ok(paid)
}

fn apply(request: &mut Request, next: &Next) {
    request.state = next.state;
    request.fail_reason = next.reason.or(request.fail_reason);
    request.refund_fail_reason = next.refund_reason.or(request.refund_fail_reason);
}

/// Spells out what is owed, to whom and where.
fn resolve(tx: &mut Tx<'_>, request: &Request, due: request::Due) -> Result<Due, SolverError> {
    let quote = &request.quote;
    let evm = |account: &domain::account::Account| account.evm().ok_or(SolverError::Broken("not an EVM account"));
    let fill = |amount| {
        Ok(Due {
            purpose: Purpose::Fill,
            subject: request.order_id.0,
            request: request.id,
            order: request.order_id,
            chain: quote.ask.destination.chain,
            currency: evm(&quote.ask.destination.address)?,
            recipient: evm(&quote.ask.recipient)?,
            amount,
        })
    };
    match due {
        request::Due::Fill { output } => fill(output),
        request::Due::FillAgain => {
            let amount = payments::last_amount(tx, Purpose::Fill, request.order_id.0)?;
            fill(amount.ok_or(SolverError::Broken("a fill to repeat was never made"))?)
        }
        request::Due::Refund => {
            let deposit = deposits::of_order(tx, request.order_id)?;
            let deposit = deposit.ok_or(SolverError::Broken("a refund without a deposit"))?.deposit;
            Ok(Due {
                purpose: Purpose::Refund,
                subject: deposit_key(deposit.chain.0, deposit.tx, deposit.ordinal),
                request: request.id,
                order: request.order_id,
                chain: deposit.chain,
                currency: deposit.currency,
                recipient: evm(quote.refund_recipient())?,
                amount: deposit.amount,
            })
        }
    }
}

/// A deposit's name in 32 bytes, the same in whatever block it stands.
pub fn deposit_key(chain: u64, tx: B256, ordinal: u32) -> B256 {
    let mut bytes = Vec::with_capacity(44);
    bytes.extend_from_slice(&chain.to_be_bytes());
    bytes.extend_from_slice(tx.as_slice());
    bytes.extend_from_slice(&ordinal.to_be_bytes());
    keccak256(bytes)
}

/// The name of the rule that moved a request, for its trace.
const fn rule(event: Event) -> &'static str {
    match event {
        Event::DepositAccepted { .. } => "deposit-accepted",
        Event::DepositRefused { .. } => "deposit-refused",
        Event::DepositGone { .. } => "deposit-gone",
        Event::DepositLost => "deposit-lost",
        Event::FillSent => "fill-sent",
        Event::FillMined => "fill-mined",
        Event::FillVoid { .. } => "fill-void",
        Event::RefundMined => "refund-mined",
        Event::RefundVoid => "refund-void",
        Event::RefundImpossible { .. } => "refund-impossible",
    }
}
