//! A fast fill that failed on the chain: its hold stays until the cause is known.
//!
//! If the recipient or the caller's own calls refused, the gas that was burnt is charged to the hold, in the commit
//! that ends it. If the cause was ours, or nobody finds it, all of the hold is given back. A refund of the deposit,
//! should it come later, never pays for the same gas: `payments::wasted` leaves it out.

use alloy::primitives::Address;
use domain::hold::State as HoldState;
use domain::ids::{ChainId, OrderId};
use domain::ledger::{Cause, Entry, UsdcMicros};
use domain::money::Amount;
use serde_json::json;
use store::fast_fills::FastFill;
use store::{Tx, events, fast_fills, ledger, payments, requests};
use tracing::info;

use crate::context::PayContext;
use crate::error::SolverError;
use crate::holds::worth;

/// Ends the hold of an order's failed fast fill, unless the cause or the price of the gas is still to come.
pub fn settle(tx: &mut Tx<'_>, order: OrderId, context: &PayContext) -> Result<(), SolverError> {
    let Some((fast, payment)) = fast_fills::failed(tx, order)? else { return Ok(()) };
    if payments::is_cause_unknown(tx, payment)? {
        return Ok(());
    }
    let owed = match payments::wasted_by(tx, payment)? {
        Some(burnt) => gas_owed(tx, &fast, burnt, context)?,
        None => Some(UsdcMicros::ZERO),
    };
    let Some(owed) = owed else { return Ok(()) };
    let open = ledger::find_hold(tx, fast.hold())?.filter(|hold| hold.state == HoldState::Open);
    if let Some(open) = open {
        charge(tx, &fast, owed.min(open.hold.amount), context)?;
    }
    Ok(fast_fills::end_failed(tx, order)?)
}

/// The worth of burnt gas at this moment, and no more than the quoted gas bears. None while that is not known.
fn gas_owed(
    tx: &mut Tx<'_>,
    fast: &FastFill,
    (chain, fee): (ChainId, Amount),
    context: &PayContext,
) -> Result<Option<UsdcMicros>, SolverError> {
    let Some(owed) = worth::charge(context, (chain, Address::ZERO), fee)? else { return Ok(None) };
    let request = requests::find(tx, fast.request)?;
    let request = request.ok_or(SolverError::InvariantViolated("a fast fill of no request"))?;
    let quote = &request.quote;
    let terms = quote.terms.as_ref().ok_or(SolverError::InvariantViolated("a fast fill without an order"))?;
    let Some((handle, _)) = context.on(terms.deposit.chain) else { return Ok(None) };
    let currency = terms.deposit.address.packed().unwrap_or_default();
    let most = quote.deposit_worth(&handle.chain, currency, quote.figures.fees.max_wasted_gas()?);
    Ok(Some(owed.min(UsdcMicros(most.0))))
}

/// Ends the hold: this much of it is spent, and the rest is free again.
fn charge(tx: &mut Tx<'_>, fast: &FastFill, owed: UsdcMicros, context: &PayContext) -> Result<(), SolverError> {
    if owed <= UsdcMicros::ZERO {
        ledger::void_hold(tx, fast.hold(), context.now)?;
        return Ok(());
    }
    let cause = Cause::FastFillGas { hold: fast.hold() };
    let entry = Entry::new(cause, fast.wallet, owed.negated(), Some(fast.request))?;
    ledger::post_hold(tx, fast.hold(), &[entry], context.now)?;
    info!(request.id = %fast.request, wallet = %fast.wallet, usdc_micros = owed.0, "a fast fill was refused on the chain: its integrator pays for the gas");
    if let Some(request) = requests::find(tx, fast.request)? {
        let figures = json!({ "usdcMicros": owed.0 });
        events::append(tx, request.id, request.state, "fast-fill-gas", &figures, context.now)?;
    }
    Ok(())
}
