//! Child requests: deposits that name an order and do not pay for it, such as a second one, dust, another currency or
//! another chain. A child has its own end, and its parent goes on without it.

use alloy::primitives::keccak256;
use domain::fail::{FailReason, RefundFailReason};
use domain::ids::{OrderId, RequestId};
use domain::request::{Event, State};
use store::deposits::DepositRow;
use store::requests::{Child, Request};
use store::{Tx, deposits, events, records, requests, webhooks};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::orders::advance::advance;

/// The id of a deposit's child: the same deposit is always the same child.
pub fn id(stored: &DepositRow) -> RequestId {
    let key = stored.deposit.key();
    RequestId(keccak256([b"child".as_slice(), key.as_slice()].concat()))
}

/// Opens the child of a refused deposit. It is refunding from the start.
pub fn open(
    tx: &mut Tx<'_>,
    parent: &Request,
    stored: &DepositRow,
    reason: FailReason,
    context: &PayContext,
) -> Result<(), SolverError> {
    let id = id(stored);
    let child = Child { id, order: OrderId(stored.deposit.key()), parent: parent.id, reason };
    let before = requests::lock(tx, id)?.map(|child| child.state);
    requests::open_child(tx, &child, context.now)?;
    let deposit = &stored.deposit;
    // One transaction may hold both a deposit that pays and one that does not.
    let pays = deposits::of_order(tx, parent.order_id)?.is_some_and(|tied| tied.deposit.tx == deposit.tx);
    records::hand_down(tx, parent.id, id, deposit.chain, deposit.tx, pays)?;
    let figures = serde_json::json!({ "parent": parent.id.to_string(), "reason": reason.as_str() });
    match requests::lock(tx, id)? {
        Some(child) if before != Some(child.state) => {
            webhooks::publish(tx, &child, "deposit-refused", &figures, context.now)?;
        }
        _ => events::append(tx, id, State::Refunding, "deposit-refused", &figures, context.now)?,
    }
    Ok(())
}

/// Applies the result of a deposit's return to its child, if it has one.
pub fn meet(tx: &mut Tx<'_>, stored: &DepositRow, event: Event, context: &PayContext) -> Result<(), SolverError> {
    if let Some(mut child) = requests::lock(tx, id(stored))?
        && child.state == State::Refunding
    {
        advance(tx, &mut child, event, &(), context)?;
    }
    Ok(())
}

/// Ends a child without a return: the amount is too low, or nobody can receive it.
pub fn cannot_return(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    custodial: bool,
    context: &PayContext,
) -> Result<(), SolverError> {
    let reason =
        if custodial { RefundFailReason::RefundRecipientIsVasp } else { RefundFailReason::AmountTooLowToRefund };
    meet(tx, stored, Event::RefundImpossible { reason: Some(reason) }, context)
}

/// Closes the child of a deposit that a reorg took away. If the deposit lands again, the child is opened again.
pub fn vanish(tx: &mut Tx<'_>, stored: &DepositRow, context: &PayContext) -> Result<(), SolverError> {
    let id = id(stored);
    if requests::close_child(tx, id, FailReason::DepositReorged, context.now)?
        && let Some(child) = requests::lock(tx, id)?
    {
        webhooks::publish(tx, &child, "deposit-gone", &serde_json::Value::Null, context.now)?;
    }
    Ok(())
}
