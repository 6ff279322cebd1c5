//! A request's next state: one lock, one decision, one event row. Payments that follow are the caller's to make.

use std::time::Duration;

use alloy::primitives::Address;
use domain::request::{self, Event, Next, State, Step};
use domain::webhook;
use serde::Serialize;
use serde_json::json;
use store::deposit_addresses::Ends;
use store::requests::Request;
use store::{Tx, deposit_addresses, dues, events, requests, webhooks};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::holds::{fast_fill, sponsorship};

/// Rule name of an operator's refund in its event row. Its figures are for the operator only.
pub const OPERATOR_REFUND: &str = "operator-refund";

/// Applies an event to a request that the unit has locked: state, event row, and holds that end with it. None if the
/// event changes nothing. `figures` are the inputs of the rule, for the request's trace.
pub(crate) fn transition(
    tx: &mut Tx<'_>,
    request: &mut Request,
    event: Event,
    figures: &impl Serialize,
    context: &PayContext,
) -> Result<Option<Next>, SolverError> {
    let Step::Move(next) = request::step(request.state, event)? else { return Ok(None) };
    requests::set_state(tx, request.id, &next, context.now)?;
    let figures = serde_json::to_value(figures).unwrap_or_default();
    let before = request.state;
    apply(request, &next);
    if webhook::is_posted(before, next.state) {
        webhooks::publish(tx, request, rule(event), &figures, context.now)?;
    } else {
        events::append(tx, request.id, next.state, rule(event), &figures, context.now)?;
    }
    if next.release_hold {
        fast_fill::touch(tx, request.order_id, fast_fill::Moment::GivenUp, context)?;
    }
    match next.state {
        State::Depositing | State::Pending | State::Submitted | State::Success => {}
        State::Waiting | State::Refunding | State::Refunded | State::Failed => {
            sponsorship::release(tx, request, context)?;
        }
    }
    if next.withdraw_due {
        dues::withdraw(tx, request.id)?;
    }
    Ok(Some(next))
}

/// Adds an event row to the request's trace; its state does not change.
pub(crate) fn note(
    tx: &mut Tx<'_>,
    request: &Request,
    rule: &str,
    figures: &serde_json::Value,
    context: &PayContext,
) -> Result<(), SolverError> {
    Ok(events::append(tx, request.id, request.state, rule, figures, context.now)?)
}

/// The request of a forgotten deposit address, locked: there is money, so both are there again as they were. Its native
/// balance is looked at for so long. None if the address was not forgotten.
pub(crate) fn remember(
    tx: &mut Tx<'_>,
    address: Address,
    watched: Duration,
    context: &PayContext,
) -> Result<Option<Request>, SolverError> {
    // If a reorg takes the money away, it is forgotten again.
    let forgotten_at = context.now.plus(context.terms.deposit_addresses.watch);
    let ends = Ends { watched_until: context.now.plus(watched), forgotten_at };
    let request = deposit_addresses::remember(tx, address, ends, context.now)?;
    if let Some(request) = &request {
        note(tx, request, "address-remembered", &json!({ "address": address }), context)?;
    }
    Ok(request)
}

/// Adds an event row that is posted although the status does not change: the request's transactions do.
pub(crate) fn tell(
    tx: &mut Tx<'_>,
    request: &Request,
    rule: &str,
    figures: &serde_json::Value,
    context: &PayContext,
) -> Result<(), SolverError> {
    Ok(webhooks::publish(tx, request, rule, figures, context.now)?)
}

fn apply(request: &mut Request, next: &Next) {
    request.state = next.state;
    request.fail_reason = next.reason.or(request.fail_reason).filter(|_| next.state != State::Success);
    request.refund_fail_reason = next.refund_reason.or(request.refund_fail_reason);
}

/// The name of the rule that moved a request, for its trace.
const fn rule(event: Event) -> &'static str {
    match event {
        Event::Relayed => "relayed",
        Event::RelayVoid { .. } => "relay-void",
        Event::RelayGone => "relay-gone",
        Event::DepositAccepted { .. } => "deposit-accepted",
        Event::DepositRefused { .. } => "deposit-refused",
        Event::FastFill { .. } => "fast-fill",
        Event::FastFillVoid => "fast-fill-void",
        Event::DepositGone { .. } => "deposit-gone",
        Event::DepositLost => "deposit-lost",
        Event::CannotFill { .. } => "cannot-fill",
        Event::OperatorRefund => OPERATOR_REFUND,
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
