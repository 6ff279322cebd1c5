//! The risk budget: money that is out against a deposit which a reorg could still take away.

use domain::deposit::State;
use domain::ids::OrderId;
use domain::quote::Quote;
use store::{Tx, deposits, risk};

use crate::context::PayContext;
use crate::error::SolverError;

/// Counts an order's deposit against the risk budget of its chain, until it is final. False if the budget is used up.
/// An order without a deposit has nothing at risk here: a fast fill's hold stands for it.
pub fn take(tx: &mut Tx<'_>, order: OrderId, quote: &Quote, context: &PayContext) -> Result<bool, SolverError> {
    let Some(stored) = deposits::of_order(tx, order)? else { return Ok(true) };
    let deposit = &stored.deposit;
    if stored.state == State::Final {
        return Ok(true);
    }
    let Some((handle, _)) = context.on(deposit.chain) else { return Ok(false) };
    let usd = quote.deposit_worth(&handle.chain, deposit.currency, deposit.amount);
    Ok(risk::take(tx, deposit.chain, order, usd, handle.settings.risk, context.now)?)
}
