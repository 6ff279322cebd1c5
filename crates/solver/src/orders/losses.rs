//! Orders that were paid out and whose deposit a reorg took away. The order's input is a slot: the deposit that lands
//! again, or another that is large enough, takes it and is never refunded. If none has when the order has ended for
//! good, the loss is booked, and no longer counts against the risk budget. A fast fill's hold waits for a deposit in
//! the same slot, until the end of its window.

use domain::ids::OrderId;
use domain::loss::{self, Event, State};
use domain::money::UsdMicros;
use domain::request::State as RequestState;
use domain::time::Timestamp;
use metrics::counter;
use serde_json::json;
use store::deposits::DepositRow;
use store::losses::Loss;
use store::requests::Request;
use store::{Tx, deposits, events, fast_fills, losses, requests, risk, settlements};
use tracing::{error, info};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::holds::fast_fill::{self, Moment, Touched};
use crate::holds::sponsorship;
use crate::lifecycle::{note, tell};

/// Opens a loss: a deposit left the slot of an order for which a payment was decided.
pub fn open(tx: &mut Tx<'_>, gone: &DepositRow, request: &Request, context: &PayContext) -> Result<(), SolverError> {
    let Some(terms) = &request.quote.terms else { return Ok(()) };
    let deposit = &gone.deposit;
    let usd = context
        .on(deposit.chain)
        .map(|(handle, _)| request.quote.deposit_worth(&handle.chain, deposit.currency, deposit.amount));
    let deadline = fast_fill::window_ends(tx, request.order_id)?;
    let loss = Loss {
        order: request.order_id,
        request: request.id,
        chain: deposit.chain,
        currency: deposit.currency,
        amount: deposit.amount,
        usd: usd.unwrap_or(UsdMicros(i64::MAX)),
        deadline: deadline.unwrap_or(Timestamp::from_secs(i64::from(terms.deadline))),
    };
    let figures = json!({
        "amount": loss.amount.to_string(),
        "usd": loss.usd.to_string(),
        "deadline": loss.deadline.secs(),
    });
    note(tx, request, "deposit-missing", &figures, context)?;
    Ok(losses::open(tx, &loss, context.now)?)
}

/// True if a deposit may take the slot. Before anything is paid, every deposit that belongs to the order may.
pub fn takes_place(tx: &mut Tx<'_>, stored: &DepositRow, request: &Request) -> Result<bool, SolverError> {
    let order = request.order_id;
    if settlements::outcome(tx, order)?.is_none() || deposits::of_order(tx, order)?.is_some() {
        return Ok(true);
    }
    let paid_for = losses::find(tx, order)?.map_or(request.quote.figures.deposit, |known| known.loss.amount);
    Ok(loss::takes_place(paid_for, stored.deposit.amount)?)
}

/// Ends a loss: a deposit has taken the slot.
pub fn recover(
    tx: &mut Tx<'_>,
    stored: &DepositRow,
    request: &Request,
    context: &PayContext,
) -> Result<(), SolverError> {
    let Some(known) = losses::find(tx, request.order_id)? else { return Ok(()) };
    if loss::step(known.state, Event::Landed) == known.state {
        return Ok(());
    }
    losses::recover(tx, request.order_id, stored.id, context.now)?;
    let rule = if known.state == State::Booked { "loss-reversed" } else { "deposit-adopted" };
    let figures = json!({
        "tx": stored.deposit.tx,
        "amount": stored.deposit.amount.to_string(),
        "missing": known.loss.amount.to_string(),
    });
    info!(request.id = %request.id, chain.id = %stored.deposit.chain, "a missing deposit has come: {rule}");
    // A fast fill was a success before its deposit had a hash: receivers hear of the hash once.
    // The deposit may have come and gone before there was anything to tell.
    let untold = !events::has_told_deposit(tx, request.id)?;
    if untold && request.state == RequestState::Success && fast_fills::of_order(tx, request.order_id)?.is_some() {
        return tell(tx, request, rule, &figures, context);
    }
    note(tx, request, rule, &figures, context)
}

/// Books a loss: its deadline is final and the slot is empty. The amount is lost, and no longer at risk.
pub fn book(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<(), SolverError> {
    let request = requests::lock_order(tx, order)?;
    let (Some(request), Some(known)) = (request, losses::find(tx, order)?) else { return Ok(()) };
    let empty = deposits::of_order(tx, order)?.is_none();
    if !empty || known.state == State::Booked || loss::step(known.state, Event::DeadlineFinal) != State::Booked {
        return Ok(());
    }
    let touched = fast_fill::touch(tx, order, Moment::Missed, context)?;
    if touched == Touched::Waits {
        return Ok(());
    }
    losses::book(tx, order, context.now)?;
    risk::release(tx, order)?;
    let Loss { chain, amount, usd, .. } = known.loss;
    if touched == Touched::Done {
        // The integrator has stood for the deposit: all of the transfer is paid for.
        sponsorship::settle(tx, order, context)?;
        info!(request.id = %request.id, chain.id = %chain, %amount, usd = %usd, "the deposit of a fast fill did not come in time: its integrator pays for it");
        return note(
            tx,
            &request,
            "fast-fill-lost",
            &json!({ "amount": amount.to_string(), "usd": usd.to_string() }),
            context,
        );
    }
    sponsorship::forgo(tx, order, context)?;
    error!(request.id = %request.id, chain.id = %chain, %amount, usd = %usd, "a deposit was reorged away after its order was paid, and has not come back: a loss");
    counter!("causeway_losses_booked_total", "chain" => chain.to_string()).increment(1);
    note(tx, &request, "loss-booked", &json!({ "amount": amount.to_string(), "usd": usd.to_string() }), context)
}

/// Forgets a loss after a void payment: if nothing else was or will be paid for the order, nothing is missing.
pub fn forget(tx: &mut Tx<'_>, order: OrderId, owed: bool) -> Result<(), SolverError> {
    if !owed && settlements::outcome(tx, order)?.is_none() {
        losses::forget(tx, order)?;
    }
    Ok(())
}
