//! Events of a block, each applied in a unit of work that reads its rows again.

use domain::deposit::{self, State as DepositState};
use domain::ids::{OrderId, RequestId};
use domain::request::Event;
use domain::treasury_transfer::State as TransferState;
use evm::{Head, SeenDeposit, SeenTreasuryTransfer, SentTx};
use store::blocks::Cursor;
use store::deposits::{DepositId, ReturnDue};
use store::dues::Due;
use store::payments::{PaymentId, PaymentRow};
use store::treasury_transfers::TreasuryTransferId;
use store::{Tx, blocks, deposits, doubtful_blocks, fast_fills, payments, requests, risk, treasury_transfers};

use crate::chain::finality;
use crate::chain::payment_events::{expire_halted, finalise, mined, retry};
use crate::context::PayContext;
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::holds::fast_fill::{self, Moment};
use crate::holds::{failed_fill, sponsorship};
use crate::integrators::funding;
use crate::orders;
use crate::orders::advance::advance;
use crate::orders::same_chain::SameChainTx;

#[derive(Clone, Debug)]
pub(crate) enum BlockEvent {
    Deposit(SeenDeposit),
    /// A deposit that one node shows and none denies: enough for a small one, where the operator says so.
    Unseconded(SeenDeposit),
    /// An event of a doubtful block, which counts as long as the block is noted.
    Late(Box<BlockEvent>),
    Executed(SameChainTx),
    Mined(SentTx),
    /// The same in a block that the walk has passed: it counts only if that block is still ours.
    MissedPayment(SentTx),
    DepositConfirmed(DepositId),
    DepositFinal(DepositId),
    Return(DepositId),
    PaymentFinal(PaymentId),
    Due(Due),
    /// A fill that waits for another chain, which stands still.
    WaitsForHalted(Due),
    /// A request's deposit was reorged away and has not come back.
    Lost(RequestId),
    /// An order was paid out, and its deposit is still missing.
    Loss(OrderId),
    /// A fast fill's deposit is final, and its worth was not known.
    Unpriced(OrderId),
    /// A fast fill failed on this chain, and its hold waits for the cause.
    FailedFastFill(OrderId),
    /// A transfer reached the treasury.
    TreasuryTransfer(SeenTreasuryTransfer),
    TreasuryTransferFinal(TreasuryTransferId),
}

/// Applies an event. Its rows are read again inside the unit: they may have changed since they were looked up.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    head: Head,
    event: &BlockEvent,
    context: &PayContext,
) -> Result<Vec<PaymentRow>, SolverError> {
    match event {
        BlockEvent::Deposit(seen) => orders::deposits::apply(tx, handle, head, seen, context),
        BlockEvent::Unseconded(seen) if orders::deposits::is_small(tx, handle, seen)? => {
            orders::deposits::apply(tx, handle, head, seen, context)
        }
        BlockEvent::Unseconded(_) => Ok(Vec::new()),
        BlockEvent::Late(event) => {
            let block = Cursor { number: head.number, hash: head.hash };
            match doubtful_blocks::is_noted(tx, handle.id(), block)? {
                true => apply(tx, handle, head, event, context),
                false => Ok(Vec::new()),
            }
        }
        BlockEvent::Executed(done) => orders::same_chain::apply(tx, head, handle, done, context),
        BlockEvent::Mined(sent) => mined(tx, handle, head, sent, context),
        BlockEvent::MissedPayment(sent) => match blocks::hash_of(tx, handle.id(), head.number)? {
            Some(ours) if ours != head.hash => Ok(Vec::new()),
            Some(_) | None => mined(tx, handle, head, sent, context),
        },
        BlockEvent::DepositConfirmed(id) => {
            let Some(stored) = deposits::get(tx, *id)?.filter(|stored| stored.state == DepositState::Seen) else {
                return Ok(Vec::new());
            };
            let mut request = match stored.deposit.order_id {
                Some(order) => requests::lock_order(tx, order)?,
                None => None,
            };
            orders::deposits::confirm(tx, &stored, request.as_mut(), context)
        }
        BlockEvent::DepositFinal(id) => deposit_final(tx, *id, context),
        BlockEvent::Return(id) => match deposits::get(tx, *id)? {
            Some(stored) => orders::refunds::return_to_depositor(tx, handle, &stored, context),
            None => Ok(Vec::new()),
        },
        BlockEvent::PaymentFinal(id) => match payments::find(tx, *id)? {
            Some(stored) => finalise(tx, &stored, context),
            None => Ok(Vec::new()),
        },
        BlockEvent::TreasuryTransfer(seen) => funding::apply(tx, handle, head, seen, context).map(|()| Vec::new()),
        BlockEvent::TreasuryTransferFinal(id) => transfer_final(tx, handle, *id, context).map(|()| Vec::new()),
        BlockEvent::Due(due) => retry(tx, head, due, context),
        BlockEvent::WaitsForHalted(due) => expire_halted(tx, head, due, context),
        BlockEvent::Lost(id) => match requests::lock(tx, *id)? {
            // A fast-filled request has another reason to wait for its deposit.
            Some(request) if fast_fills::of_order(tx, request.order_id)?.is_some() => Ok(Vec::new()),
            Some(mut request) if deposits::of_order(tx, request.order_id)?.is_none() => {
                advance(tx, &mut request, Event::DepositLost, &(), context)
            }
            Some(_) | None => Ok(Vec::new()),
        },
        BlockEvent::Loss(order) => {
            orders::losses::book(tx, *order, context)?;
            Ok(Vec::new())
        }
        BlockEvent::Unpriced(order) => {
            requests::lock_order(tx, *order)?;
            fast_fill::touch(tx, *order, Moment::Final, context)?;
            Ok(Vec::new())
        }
        BlockEvent::FailedFastFill(order) => {
            requests::lock_order(tx, *order)?;
            failed_fill::settle(tx, *order, context)?;
            Ok(Vec::new())
        }
    }
}

fn transfer_final(
    tx: &mut Tx<'_>,
    handle: &ChainHandle,
    id: TreasuryTransferId,
    context: &PayContext,
) -> Result<(), SolverError> {
    match treasury_transfers::get(tx, id)? {
        Some(stored) if stored.state == TransferState::Seen && finality::undo_transfer(tx, &stored, context)? => Ok(()),
        Some(_) => funding::credit(tx, handle, id, context),
        None => Ok(()),
    }
}

fn deposit_final(tx: &mut Tx<'_>, id: DepositId, context: &PayContext) -> Result<Vec<PaymentRow>, SolverError> {
    let Some(stored) = deposits::get(tx, id)? else { return Ok(Vec::new()) };
    // A unit that makes the fill final meanwhile waits for this lock, and then sees the final deposit.
    if let Some(order) = stored.deposit.order_id {
        requests::lock_order(tx, order)?;
    }
    if let Some(paid) = finality::undo_deposit(tx, &stored, context)? {
        return Ok(paid);
    }
    deposits::set_state(tx, id, deposit::step(stored.state, deposit::Event::Finalised)?)?;
    // Only the deposit that pays for the order: anybody's dust becomes final too.
    if let Some(order) = stored.deposit.order_id
        && deposits::of_order(tx, order)?.is_some_and(|tied| tied.id == id)
    {
        risk::release(tx, order)?;
        fast_fill::touch(tx, order, Moment::Final, context)?;
        sponsorship::settle(tx, order, context)?;
        return orders::excess::give_back(tx, order, context);
    }
    if stored.refused.is_some() {
        deposits::set_return_due(tx, id, ReturnDue::Yes)?;
    }
    Ok(Vec::new())
}
